#include "apps/demo/report.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace baton::apps::demo {
namespace {

using host::style;

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string milliseconds(double value) {
  return value >= 10'000 ? number(value / 1000, 1) + " s" : number(value, value < 100 ? 1 : 0) + " ms";
}

std::string reprefill_row(const scenario_result& outcome, const scenario_options& asked) {
  if (!outcome.reprefill_ms) return "not measured: " + outcome.no_reprefill;
  std::string text = milliseconds(*outcome.reprefill_ms);
  if (outcome.gap_ms > 0) text += ", " + number(*outcome.reprefill_ms / outcome.gap_ms, 1) + " times the gap";
  if (asked.temperature == 0)
    text += "; " + std::to_string(outcome.differing_after_reprefill) + " of the next " +
            std::to_string(outcome.compared_after_reprefill) + " tokens come out different";
  return text;
}

}  // namespace

const char* name_of(loss how) {
  return how == loss::killed ? "kill" : how == loss::frozen ? "stop" : how == loss::ended ? "term" : "cut";
}

std::string table_of(const scenario_result& outcome, const scenario_options& asked,
                     const host::terminal& screen) {
  std::vector<std::pair<std::string, std::string>> rows;
  const auto verdict = [&screen](bool good, const std::string& text) {
    return screen.paint(good ? style::good : style::bad, text);
  };
  rows.emplace_back("the answer", outcome.equal
                                      ? verdict(true, "equal to the undisturbed run, all " +
                                                          std::to_string(outcome.tokens) + " tokens")
                                      : verdict(false, "NOT EQUAL: " + outcome.difference));
  if (!outcome.node.empty())
    rows.emplace_back("lost", "node " + outcome.node + ", after token " + std::to_string(outcome.killed_at) +
                                  " of " + std::to_string(outcome.tokens) + "; " +
                                  (outcome.successor.empty() ? "nobody" : "node " + outcome.successor) +
                                  " went on");
  rows.emplace_back("gap at the client", milliseconds(outcome.gap_ms) + " (a token takes " +
                                             milliseconds(outcome.decode_ms_p50) + ")");
  rows.emplace_back("computed again", std::to_string(outcome.recomputed_tokens) + " of " +
                                          std::to_string(outcome.prompt_tokens + outcome.killed_at) +
                                          " (lag shown before: " + std::to_string(outcome.lag_tokens) + ")");
  rows.emplace_back("prefilling again", reprefill_row(outcome, asked));
  if (outcome.wire_bytes_per_token > 0)
    rows.emplace_back("on the wire",
                      number(outcome.wire_bytes_per_token, 0) + " bytes per token and standby, of " +
                          number(outcome.kv_bytes_per_token, 0) + " bytes of KV, over " + outcome.transport);
  if (outcome.zombie_harmless)
    rows.emplace_back("its return", *outcome.zombie_harmless
                                        ? verdict(true, "changed nothing")
                                        : verdict(false, "DID HARM: " + outcome.zombie_harm));
  std::string text;
  for (const auto& [name, value] : rows) {
    constexpr std::size_t width = 20;
    text += "  " + screen.paint(style::bold, name) + std::string(width - name.size(), ' ') + value + "\n";
  }
  return text;
}

std::string json_of(const scenario_result& outcome, const scenario_options& asked,
                    const cluster_options& on) {
  using nlohmann::ordered_json;
  ordered_json all{{"equal", outcome.equal},
                   {"tokens", outcome.tokens},
                   {"killed_at", outcome.killed_at},
                   {"gap_ms", outcome.gap_ms},
                   {"gaps_ms", outcome.gaps_ms},
                   {"decode_ms_p50", outcome.decode_ms_p50},
                   {"recomputed_tokens", outcome.recomputed_tokens},
                   {"evaluated_tokens_after", outcome.evaluated_tokens_after},
                   {"reprefill_ms", nullptr},
                   {"wire_bytes_per_token", outcome.wire_bytes_per_token},
                   {"kv_bytes_per_token", outcome.kv_bytes_per_token},
                   {"transport", outcome.transport},
                   {"lag_tokens", outcome.lag_tokens},
                   {"reprefill_over_gap", nullptr},
                   {"tokens_compared_after_reprefill", outcome.compared_after_reprefill},
                   {"tokens_differing_after_reprefill", nullptr},
                   {"kill", name_of(asked.how)},
                   {"node", outcome.node},
                   {"successor", outcome.successor},
                   {"failovers", outcome.failovers},
                   {"context", outcome.prompt_tokens},
                   {"engine", on.engine},
                   {"commit", on.commit},
                   {"every_tokens", on.every_tokens},
                   {"zombie_harmless", nullptr}};
  if (outcome.reprefill_ms) {
    all["reprefill_ms"] = *outcome.reprefill_ms;
    if (outcome.gap_ms > 0) all["reprefill_over_gap"] = *outcome.reprefill_ms / outcome.gap_ms;
    all["tokens_differing_after_reprefill"] = outcome.differing_after_reprefill;
  }
  if (outcome.zombie_harmless) all["zombie_harmless"] = *outcome.zombie_harmless;
  if (!outcome.difference.empty()) all["difference"] = outcome.difference;
  if (!outcome.zombie_harm.empty()) all["zombie_harm"] = outcome.zombie_harm;
  if (!outcome.no_reprefill.empty()) all["no_reprefill"] = outcome.no_reprefill;
  return all.dump();
}

}  // namespace baton::apps::demo
