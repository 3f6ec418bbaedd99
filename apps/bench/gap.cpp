#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/bench/bench.hpp"
#include "apps/demo/demo.hpp"
#include "apps/demo/report.hpp"
#include "apps/exit_codes.hpp"

namespace baton::apps::bench {
namespace {

using nlohmann::ordered_json;

/// What a failover adds to the step that would have come anyway; no less than a millisecond, so that ratios
/// mean something.
double pause_of(const demo::scenario_result& outcome) {
  return std::max(1.0, outcome.gap_ms - outcome.decode_ms_p50);
}

using outcomes = std::map<std::uint32_t, demo::scenario_result>;

ordered_json ratio_of_pauses(const outcomes& all, std::uint32_t large, std::uint32_t small) {
  if (!all.contains(large) || !all.contains(small)) return nullptr;
  return pause_of(all.at(large)) / pause_of(all.at(small));
}

ordered_json reprefill_ratio(const outcomes& all, std::uint32_t context) {
  if (!all.contains(context)) return nullptr;
  const auto& one = all.at(context);
  if (!one.reprefill_ms || one.gap_ms <= 0) return nullptr;
  return *one.reprefill_ms / one.gap_ms;
}

void print(const outcomes& all, const ordered_json& summary) {
  std::printf("%8s %6s %12s %12s %14s %16s %8s\n", "context", "equal", "gap ms", "decode ms", "gap less step",
              "prefill again ms", "ratio");
  for (const auto& [context, one] : all)
    std::printf("%8u %6s %12.1f %12.1f %14.1f %16.0f %8.0f\n", context, one.equal ? "yes" : "NO", one.gap_ms,
                one.decode_ms_p50, one.gap_ms - one.decode_ms_p50, one.reprefill_ms.value_or(0),
                one.gap_ms > 0 ? one.reprefill_ms.value_or(0) / one.gap_ms : 0.0);
  for (const auto* name : {"gap_ratio_2k_to_500", "gap_ratio_8k_to_500"})
    if (summary[name].is_number())
      std::printf("%s, gaps less a decode step: %.2f (flat is 1)\n", name, summary[name].get<double>());
}

/// A cluster for conversations of one length.
struct measured {
  demo::demo_options how;
  std::shared_ptr<const actors::engines::tokenizer> text;
  std::unique_ptr<demo::cluster> on;
  std::optional<demo::scenario> losses;
};

result<void> prepare(measured& it, const bench_options& how, std::uint32_t context, host::interrupt& signals,
                     host::terminal& screen) {
  it.how.cluster = how.cluster;
  it.how.scenario.tokens = how.tokens;
  it.how.scenario.losses = how.losses;
  // The longest is all that the usual model was trained for.
  it.how.scenario.context = context < 8000 ? context : 8192 - demo::tokens_beside_prompt(it.how.scenario);
  if (auto completed = demo::complete(it.how); !completed) return completed;
  auto text = demo::make_text(it.how.cluster);
  if (!text) return text.failure();
  it.text = std::move(*text);
  auto started = demo::cluster::start(it.how.cluster, signals, screen);
  if (!started) return started.failure();
  it.on = std::move(*started);
  it.losses.emplace(*it.on, *it.text, it.how.scenario, screen);
  return {};
}

/// A loss in each cluster in turn, so that all lengths see the same machine.
result<void> lose_all(std::map<std::uint32_t, measured>& clusters, std::uint32_t losses) {
  for (auto& [context, it] : clusters)
    if (auto begun = it.losses->begin(); !begun) return begun;
  for (std::uint32_t number = 2; number <= losses; ++number)
    for (auto& [context, it] : clusters)
      if (auto lost = it.losses->lose_again(number); !lost) return lost;
  return {};
}

}  // namespace

int gap_command(const bench_options& how) {
  host::terminal screen(true);
  host::interrupt signals;
  std::vector<std::uint32_t> contexts{500, 2000};
  if (how.full) contexts.push_back(8000);
  std::map<std::uint32_t, measured> clusters;
  for (const auto context : contexts)
    if (const auto ready = prepare(clusters[context], how, context, signals, screen); !ready)
      return demo::refuse(ready.failure(), screen);
  if (const auto lost = lose_all(clusters, how.losses); !lost) return demo::refuse(lost.failure(), screen);
  outcomes all;
  bool passed = true;
  auto runs = ordered_json::array();
  for (auto& [context, it] : clusters) {
    const auto outcome = it.losses->conclude();
    passed = passed && outcome.passed();
    auto run = ordered_json::parse(demo::json_of(outcome, it.how.scenario, it.how.cluster));
    run["gap_less_decode_ms"] = outcome.gap_ms - outcome.decode_ms_p50;
    runs.push_back(std::move(run));
    all.emplace(context, outcome);
  }
  const ordered_json summary{{"equal", passed},
                             {"gap_ratio_2k_to_500", ratio_of_pauses(all, 2000, 500)},
                             {"gap_ratio_8k_to_500", ratio_of_pauses(all, 8000, 500)},
                             {"reprefill_ratio_500", reprefill_ratio(all, 500)},
                             {"reprefill_ratio_2k", reprefill_ratio(all, 2000)},
                             {"reprefill_ratio_8k", reprefill_ratio(all, 8000)},
                             {"runs", runs}};
  if (how.json)
    std::printf("%s\n", summary.dump().c_str());
  else
    print(all, summary);
  return passed ? exit_code::success : exit_code::failed;
}

}  // namespace baton::apps::bench
