#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/bench/bench.hpp"
#include "apps/demo/conversation.hpp"
#include "apps/demo/demo.hpp"
#include "apps/exit_codes.hpp"

namespace baton::apps::bench {
namespace {

constexpr std::uint32_t context = 200;

/// One side: a cluster that stays up, and what its turns took.
struct side {
  std::unique_ptr<demo::cluster> cluster;
  std::vector<double> decode_ms;  // the middle step of each turn

  result<void> run(const demo::turn_request& request) {
    const auto ran = demo::run_turn(cluster->gateway(), request);
    if (!ran) return cluster->explain(ran.failure());
    decode_ms.push_back(ran->decode_ms_p50());
    return {};
  }
};

result<side> start(demo::cluster_options how, bool linked, host::interrupt& signals, host::terminal& screen) {
  how.linked = linked;
  auto started = demo::cluster::start(how, signals, screen);
  if (!started) return started.failure();
  return side{std::move(*started), {}};
}

/// Both sides in turns, the first one changing, after one turn of each that does not count.
result<void> measure(side& with, side& without, const demo::turn_request& request, std::uint32_t rounds,
                     host::terminal& screen) {
  for (std::uint32_t round = 0; round <= rounds; ++round) {
    screen.progress("round " + std::to_string(round) + " of " + std::to_string(rounds), round);
    std::array<side*, 2> both{&with, &without};
    if (round % 2 == 1) std::swap(both[0], both[1]);
    for (auto* one : both)
      if (auto ran = one->run(request); !ran) return ran;
    if (round > 0) continue;
    with.decode_ms.clear();
    without.decode_ms.clear();
  }
  screen.progress_done();
  return {};
}

}  // namespace

int overhead_command(const bench_options& how) {
  host::terminal screen(how.json);
  host::interrupt signals;
  demo::demo_options options;
  options.cluster = how.cluster;
  options.scenario.context = context;
  options.scenario.tokens = how.tokens;
  if (const auto completed = demo::complete(options); !completed)
    return demo::refuse(completed.failure(), screen);
  const auto text = demo::make_text(options.cluster);
  if (!text) return demo::refuse(text.failure(), screen);
  auto with = start(options.cluster, true, signals, screen);
  if (!with) return demo::refuse(with.failure(), screen);
  auto without = start(options.cluster, false, signals, screen);
  if (!without) return demo::refuse(without.failure(), screen);

  demo::turn_request request;
  request.messages = demo::make_conversation(**text, context);
  request.max_tokens = how.tokens;
  request.prompt_tokens = context;
  if (const auto done = measure(*with, *without, request, how.rounds, screen); !done)
    return demo::refuse(done.failure(), screen);
  // Neighbours in time share the machine's moods: the middle of the pairs' ratios is steadier than the ratio
  // of middles.
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with->decode_ms.size(); ++i)
    ratios.push_back(with->decode_ms[i] / without->decode_ms[i]);
  const double on = demo::median(with->decode_ms);
  const double off = demo::median(without->decode_ms);
  const nlohmann::ordered_json summary{{"overhead_percent", (demo::median(ratios) - 1) * 100},
                                       {"decode_ms_with", on},
                                       {"decode_ms_without", off},
                                       {"overhead_percent_of_medians", (on / off - 1) * 100},
                                       {"rounds", how.rounds},
                                       {"tokens", how.tokens},
                                       {"every_tokens", how.cluster.every_tokens},
                                       {"standbys", 2},
                                       {"engine", options.cluster.engine}};
  if (how.json)
    std::printf("%s\n", summary.dump().c_str());
  else
    std::printf("a token takes %.3f ms with two standbys, %.3f ms with none: %+.2f %%\n", on, off,
                summary["overhead_percent"].get<double>());
  return exit_code::success;
}

}  // namespace baton::apps::bench
