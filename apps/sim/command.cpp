#include "apps/sim/command.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

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

/// Seeds, one after the other, on as many threads as asked for; a run shares nothing with another.
class campaign {
 public:
  campaign(const sim_options& how, left_out without)
      : how_(how),
        without_(without),
        first_(how.seed != 0 ? how.seed : how.first),
        seeds_(how.seed != 0     ? 1
               : how.faults != 0 ? ~std::uint64_t{0}
                                 : how.seeds) {}

  void run() {
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < how_.jobs; ++i)
      others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others)
      other.join();
  }

  [[nodiscard]] bool caught() const { return !violations_.empty(); }

  void report(double seconds) const {
    const double minute = seconds > 0 ? static_cast<double>(done_) * 60 / seconds : 0;
    if (how_.json) {
      ordered_json violations = ordered_json::array();
      for (const auto& [seed, what] : violations_)
        violations.push_back({{"seed", seed}, {"what", what}, {"repeat", repeat(seed)}});
      std::printf("%s\n", describe(sum_, done_, seconds, violations).dump().c_str());
      return;
    }
    for (const auto& [seed, what] : violations_)
      std::printf("%s\n  again: %s\n", what.c_str(), repeat(seed).c_str());
    std::printf(
        "%llu seeds, %llu events, %llu faults, %llu failovers, %llu of %llu turns finished, %zu violations; "
        "%.0f seeds a minute\n",
        static_cast<unsigned long long>(done_), static_cast<unsigned long long>(sum_.events),
        static_cast<unsigned long long>(sum_.all_faults()), static_cast<unsigned long long>(sum_.failovers),
        static_cast<unsigned long long>(sum_.finished), static_cast<unsigned long long>(sum_.turns),
        violations_.size(), minute);
  }

 private:
  static constexpr std::size_t enough_violations = 20;

  /// The next seed; nothing if it is enough.
  std::optional<std::uint64_t> next() {
    const std::lock_guard lock(guard_);
    const bool enough = how_.seed == 0 && how_.faults != 0 && sum_.all_faults() >= how_.faults;
    const std::size_t most = without_ == left_out::nothing ? enough_violations : 1;
    if (begun_ >= seeds_ || enough || violations_.size() >= most) return std::nullopt;
    return first_ + begun_++;
  }

  void work() {
    while (const auto seed = next()) {
      const outcome one = simulation(*seed, without_, how_.trace).run();
      const std::lock_guard lock(guard_);
      sum_.add(one);
      ++done_;
      if (!one.violation.empty()) violations_.emplace(*seed, one.violation);
    }
  }

  [[nodiscard]] std::string repeat(std::uint64_t seed) const {
    return "baton sim --seed " + std::to_string(seed) +
           (how_.without.empty() ? "" : " --without " + how_.without);
  }

  const sim_options& how_;
  const left_out without_;
  const std::uint64_t first_;
  const std::uint64_t seeds_;
  std::mutex guard_;
  outcome sum_;
  std::map<std::uint64_t, std::string> violations_;  // by seed
  std::uint64_t begun_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

int sim_command(const sim_options& how) {
  configure_log("off", "sim");
  if (!how.script.empty()) return scripts::script_command(how.script, how.rewrite);
  const auto without = how.without.empty() ? std::optional{left_out::nothing} : left_out_named(how.without);
  if (!without) {
    std::string known;
    for (const std::string_view name : std::span{left_out_names}.subspan(1))
      known += (known.empty() ? "" : ", ") + std::string(name);
    std::fprintf(stderr, "baton: sim: --without: expected one of %s, found \"%s\"\n", known.c_str(),
                 how.without.c_str());
    return exit_code::usage;
  }
  const auto begun = std::chrono::steady_clock::now();
  campaign all(how, *without);
  all.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  all.report(seconds);
  return all.caught() == (*without != left_out::nothing) ? exit_code::success : exit_code::failed;
}

}  // namespace baton::apps::sim
