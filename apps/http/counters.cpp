#include "apps/http/counters.hpp"

#include <algorithm>

namespace baton::apps::http {

void counters::answered(unsigned status) {
  const auto found = std::find(statuses.begin(), statuses.end(), status);
  answered_[static_cast<std::size_t>(found - statuses.begin())].fetch_add(1, std::memory_order_relaxed);
}

std::string counters::text() const {
  std::string text =
      "# HELP baton_http_connections Client connections open now.\n"
      "# TYPE baton_http_connections gauge\n"
      "baton_http_connections " +
      std::to_string(connections_.load(std::memory_order_relaxed)) +
      "\n"
      "# HELP baton_http_responses_total Responses begun, by status.\n"
      "# TYPE baton_http_responses_total counter\n";
  for (std::size_t i = 0; i < answered_.size(); ++i) {
    const std::uint64_t count = answered_[i].load(std::memory_order_relaxed);
    if (count == 0) continue;
    text += "baton_http_responses_total{status=\"" +
            (i < statuses.size() ? std::to_string(statuses[i]) : std::string("other")) + "\"} " +
            std::to_string(count) + "\n";
  }
  text +=
      "# HELP baton_http_turns_abandoned_total Turns given up before their end, by reason.\n"
      "# TYPE baton_http_turns_abandoned_total counter\n";
  for (std::size_t i = 0; i < reasons.size(); ++i)
    text += "baton_http_turns_abandoned_total{reason=\"" + std::string(reasons[i]) + "\"} " +
            std::to_string(abandoned_[i].load(std::memory_order_relaxed)) + "\n";
  return text;
}

}  // namespace baton::apps::http
