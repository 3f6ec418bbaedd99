#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/engines/sampler.hpp"
#include "actors/engines/tokenizer.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"

/// What the gateway offers to whatever faces its clients: open a turn, receive its text as it is committed,
/// cancel it. No CAF and no HTTP in here: `apps/http` stands on this, and so does an embedder's own server.
namespace baton::actors {

/// One request, already checked for syntax. Exactly one of the three prompts is set.
struct completion_request {
  std::string session;  ///< client's name of the conversation; empty: found by its messages, or a new one
  std::vector<engines::chat_message> messages;
  std::string prompt_text;
  std::vector<token_id> prompt_tokens;

  engines::sampling_parameters sampling;
  std::uint32_t max_tokens = 0;  ///< 0: up to the context
  std::vector<std::string> stop;
  bool ignore_end = false;  ///< go on past end-of-generation tokens (for benchmarks)
  /// Client's name of this very request; empty: none. One that is sent again gets the answer of the first.
  std::string idempotency_key;
  std::uint64_t request_hash = 0;  ///< of all that the client said: under one key it must be the same
};

enum class finish_reason : std::uint8_t {
  stop,   ///< an end-of-generation token or a stop string
  length  ///< `max_tokens` or the context
};

/// The turn has been accepted.
struct turn_started {
  session_id session{};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< of the prompt, not evaluated again
};

/// Logprobs of one released token, aligned with the text it belongs to.
struct released_token {
  token_id token = 0;
  std::string bytes;  ///< raw bytes of the token, maybe part of a character
  float logprob = 0;
  std::vector<engines::token_logprob> alternatives;
  std::vector<std::string> alternative_bytes;  ///< raw bytes, in the same order
};

/// Committed text. Always whole UTF-8 characters, never part of a stop string. May be empty when tokens were
/// released whose text is still held back.
struct turn_text {
  std::string text;
  position last = 0;  ///< position of the last token released so far; the SSE id
  std::vector<released_token>
      tokens;  ///< those whose text is in `text`; filled only if logprobs were asked for
  // Where the text comes from, for traces and the demo.
  std::string node;
  baton::epoch epoch{};
  std::uint32_t lag_tokens =
      0;  ///< tokens that the slowest in-sync standby still lacked in KV when this was released
};

struct turn_finished {
  finish_reason reason = finish_reason::stop;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint64_t evaluated_tokens = 0;  ///< by the node that finished, since it owned the turn
  /// By all that had the turn: known before, and evaluated again because their KV was missing.
  std::uint64_t recomputed_tokens = 0;
  std::uint32_t failovers = 0;  ///< changes of owner within the turn
};

/// The turn cannot go on. Text released before stays valid.
struct turn_failed {
  error reason;
};

/// Exactly one `turn_finished` or `turn_failed` ends a turn; nothing follows it.
using turn_event = std::variant<turn_started, turn_text, turn_finished, turn_failed>;

enum class turn_handle : std::uint64_t {};

/// Thread-safe. Events of one turn are delivered in order, from threads of the service; the receiver must not
/// block.
class completion_service {
 public:
  using receiver = std::function<void(const turn_event&)>;

  virtual ~completion_service() = default;

  /// Opens a turn. Never waits; a refusal comes as `turn_failed`.
  virtual turn_handle submit(completion_request request, receiver events) = 0;

  /// The client is gone or wants no more: decoding stops, no further event is delivered after those under
  /// way. Unknown handles are ignored.
  virtual void cancel(turn_handle which) = 0;

  [[nodiscard]] virtual const engines::tokenizer& text() const = 0;

  /// True while at least one node can take a turn.
  [[nodiscard]] virtual bool ready() const = 0;

  /// A snapshot of the cluster as this gateway knows it, as JSON text (see docs/operating.md).
  [[nodiscard]] virtual std::string status_json() const = 0;

  /// Metrics in the Prometheus text format.
  [[nodiscard]] virtual std::string metrics_text() const = 0;
};

}  // namespace baton::actors
