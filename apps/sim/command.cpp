#include "apps/sim/command.hpp"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/exit_codes.hpp"
#include "apps/sim/scripts/script.hpp"
#include "apps/sim/simulation.hpp"
#include "schemas/log.hpp"

namespace baton::apps::sim {

namespace {

using nlohmann::ordered_json;

ordered_json faults_of(const outcome& sum) {
  ordered_json kinds;
  for (std::size_t i = 0; i < fault_kinds; ++i)
    kinds[std::string{name_of(static_cast<fault_kind>(i))}] = sum.faults[i];
  kinds["flipped_rows"] = sum.flipped_rows;
  kinds["messages_doubled"] = sum.doubled_messages;
  return kinds;
}

ordered_json describe(const outcome& sum, std::uint64_t seeds, double seconds,
                      const ordered_json& violations) {
  return {{"seeds", seeds},
          {"events", sum.events},
          {"faults", sum.all_faults()},
          {"faults_by_kind", faults_of(sum)},
          {"failovers", sum.failovers},
          {"turns", sum.turns},
          {"turns_finished", sum.finished},
          {"turns_failed", sum.failed},
          {"turns_cancelled", sum.cancelled},
          {"turns_lost_with_gateway", sum.broken},
          {"tokens", sum.tokens},
          {"owner_changes_within_finished_turns", sum.survived},
          {"stale_messages_refused", sum.stale},
          {"corrupt_rows_refused", sum.corrupt},
          {"simulated_seconds", sum.simulated_seconds},
          {"seconds", seconds},
          {"seeds_per_minute", seconds > 0 ? static_cast<double>(seeds) * 60 / seconds : 0},
          {"failovers_per_second", seconds > 0 ? static_cast<double>(sum.failovers) / seconds : 0},
          {"violations", violations}};
}

}  // namespace

int sim_command(const sim_options& how) {
  configure_log("off", "sim");
  if (!how.script.empty()) return scripts::script_command(how.script, how.rewrite);
  const auto without = how.without.empty() ? std::optional{left_out::nothing} : left_out_named(how.without);
  if (!without) {
    std::fprintf(stderr,
                 "baton: sim: --without: expected gateway_epochs, seals, commit_wait, checksums or "
                 "generations, found \"%s\"\n",
                 how.without.c_str());
    return exit_code::usage;
  }
  const std::string repeat = how.without.empty() ? "" : " --without " + how.without;
  const auto begun = std::chrono::steady_clock::now();
  outcome sum;
  ordered_json violations = ordered_json::array();
  std::uint64_t done = 0;
  const std::uint64_t first = how.seed != 0 ? how.seed : how.first;
  const std::uint64_t most = how.seed != 0 ? 1 : how.faults != 0 ? ~std::uint64_t{0} : how.seeds;
  while (done < most && (how.seed != 0 || how.faults == 0 || sum.all_faults() < how.faults)) {
    const std::uint64_t seed = first + done++;
    const outcome one = simulation(seed, *without, how.trace).run();
    sum.add(one);
    if (one.violation.empty()) continue;
    violations.push_back({{"seed", seed},
                          {"what", one.violation},
                          {"repeat", "baton sim --seed " + std::to_string(seed) + repeat}});
    if (!how.json)
      std::printf("%s\n  again: baton sim --seed %llu%s\n", one.violation.c_str(),
                  static_cast<unsigned long long>(seed), repeat.c_str());
    constexpr std::size_t enough = 20;
    if (*without != left_out::nothing || violations.size() >= enough) break;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (how.json)
    std::printf("%s\n", describe(sum, done, seconds, violations).dump().c_str());
  else
    std::printf(
        "%llu seeds, %llu events, %llu faults, %llu failovers, %llu of %llu turns finished, %zu violations; "
        "%.0f seeds a minute\n",
        static_cast<unsigned long long>(done), static_cast<unsigned long long>(sum.events),
        static_cast<unsigned long long>(sum.all_faults()), static_cast<unsigned long long>(sum.failovers),
        static_cast<unsigned long long>(sum.finished), static_cast<unsigned long long>(sum.turns),
        violations.size(), static_cast<double>(done) * 60 / seconds);
  const bool caught = !violations.empty();
  return caught == (*without != left_out::nothing) ? exit_code::success : exit_code::failed;
}

}  // namespace baton::apps::sim
