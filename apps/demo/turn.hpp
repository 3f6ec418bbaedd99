#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/engines/tokenizer.hpp"
#include "apps/demo/sse_client.hpp"
#include "schemas/ids.hpp"

namespace baton::apps::demo {

/// A streamed request as its client sends it. Either `messages` or `prompt`.
struct turn_request {
  std::string session;  ///< empty: a new one without a name
  std::vector<actors::engines::chat_message> messages;
  std::vector<token_id> prompt;
  std::uint32_t max_tokens = 64;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::uint32_t prompt_tokens = 0;  ///< about, for the time it may take
};

/// Tokens that came in one event, with where they came from.
struct arrival {
  time_point at;
  position last = 0;  ///< of the last token so far
  std::string node;
  std::uint64_t epoch = 0;
  std::uint32_t lag_tokens = 0;
  std::string text;
};

/// All that the client saw of one turn.
struct turn_record {
  time_point sent;
  std::vector<arrival> arrivals;  ///< those that brought a new token
  std::string text;
  std::vector<std::string> tokens;  ///< the bytes of each token
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t recomputed_tokens = 0;
  std::uint32_t failovers = 0;
  std::string finish;

  [[nodiscard]] double first_token_ms() const;
  /// Milliseconds per token between events of one node, the middle one.
  [[nodiscard]] double decode_ms_p50() const;
};

double milliseconds_between(time_point from, time_point to);
/// The middle value; 0 without any.
double median(std::vector<double> values);

/// Sends the request and reads the answer to its end. `seen` is called with each arrival, at once. An error
/// names what was waited for.
result<turn_record> run_turn(const http_client& gateway, const turn_request& request,
                             const std::function<void(const arrival&)>& seen = {});

}  // namespace baton::apps::demo
