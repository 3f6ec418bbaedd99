#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/completion_service.hpp"
#include "schemas/errors.hpp"

/// The OpenAI dialect: request bodies to `completion_request`, turn events to response bodies and stream
/// chunks. Pure: no socket, no thread, no clock, no randomness; what differs from call to call comes in with
/// `request_stamp`.
namespace baton::apps::http {

/// Which of the two completion interfaces a request uses.
enum class endpoint : std::uint8_t {
  chat,  ///< POST /v1/chat/completions
  text   ///< POST /v1/completions
};

/// Longest conversation name and idempotency key: they are kept in memory and shown in the status, so a UUID
/// or a path fits and a document does not.
inline constexpr std::size_t name_bytes = 256;
/// Longest model name: it is repeated in each chunk of a stream.
inline constexpr std::size_t model_name_bytes = 256;
/// Most entries of `logit_bias`; each is added to the logits at every step.
inline constexpr std::size_t logit_bias_entries = 1024;
/// Most alternatives per token, as OpenAI.
inline constexpr std::uint32_t top_logprobs = 20;
/// Deepest nesting of a request body. Ours go 5 deep; a parser's memory grows with depth.
inline constexpr std::size_t body_nesting = 32;
/// Tokens that `/v1/completions` generates unless told otherwise, as OpenAI.
inline constexpr std::uint32_t default_text_tokens = 16;

/// A refusal as OpenAI clients read it.
struct api_error {
  unsigned status = 500;  ///< HTTP status
  std::string message;
  std::string type;   ///< "invalid_request_error", "rate_limit_error" or "server_error"
  std::string param;  ///< the parameter at fault, e.g. "messages[0].role"; empty: none
  std::string code;   ///< stable word for programs; empty: none
};

/// What the caller decides per request, so that the functions here stay pure.
struct request_stamp {
  std::string id;                 ///< unique, without prefix
  std::int64_t created_unix_s{};  ///< wall clock
  std::uint64_t seed{};  ///< used if the client names none; at most 2^53 so that every JSON reader keeps it
};

/// How the answer of one request is to be written.
struct response_plan {
  endpoint kind = endpoint::chat;
  bool stream = false;
  bool include_usage = false;  ///< of a stream; a whole body always has it
  bool trace = false;          ///< adds the "baton" objects
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;
  std::string model;  ///< echoed
  std::string id;     ///< with prefix, "chatcmpl-" or "cmpl-"
  std::int64_t created_unix_s = 0;
  std::uint64_t seed = 0;
};

/// A request that is fit to be submitted, and how to answer it.
struct parsed_request {
  actors::completion_request request;
  response_plan plan;
};

/// What belongs to a request apart from its body. The views need to live through `parse_request` only.
struct request_context {
  endpoint kind = endpoint::chat;
  std::string_view session_header;      ///< X-Session-Id; empty: none
  std::string_view idempotency_header;  ///< Idempotency-Key; empty: none
  std::string_view default_model;       ///< echoed if the body names no model
  std::uint32_t vocabulary_size = 0;    ///< token ids at or above it are refused; 0: not checked
  request_stamp stamp;
};

/// Reads a request body. Whatever is not understood or not supported is refused and named in
/// `api_error::param`: a parameter is never silently dropped, but for a short list of those that cannot
/// change the text (such as "user"). Takes time and memory linear in the body, whatever it holds.
[[nodiscard]] std::variant<parsed_request, api_error> parse_request(std::string_view body,
                                                                    const request_context& context);

/// The HTTP status and the OpenAI words of a failure of the service.
[[nodiscard]] api_error describe(const error& failure);

/// `{"error":{"message","type","param","code"}}`
[[nodiscard]] std::string error_body(const api_error& failure);

/// Body of GET /v1/models/<name>: a model's entry.
[[nodiscard]] std::string model_body(std::string_view model, std::int64_t created_unix_s);

/// Body of GET /v1/models: the one model there is.
[[nodiscard]] std::string models_body(std::string_view model, std::int64_t created_unix_s);

/// JSON of the chunks of one streamed response. Methods are called in the order of the events; an empty
/// string means that the event has no chunk.
class chunk_writer {
 public:
  explicit chunk_writer(response_plan plan);

  /// The role chunk of a chat; a text completion has none.
  [[nodiscard]] std::string started(const actors::turn_started& event) const;
  /// Empty if the event has neither text nor tokens, unless the trace is on.
  [[nodiscard]] std::string text(const actors::turn_text& event);
  [[nodiscard]] std::string finished(const actors::turn_finished& event) const;
  /// The usage chunk, if it was asked for.
  [[nodiscard]] std::string usage(const actors::turn_finished& event) const;

  [[nodiscard]] const response_plan& plan() const noexcept { return plan_; }

 private:
  response_plan plan_;
  std::size_t offset_characters_ = 0;  ///< characters sent so far, for `text_offset`
};

/// Collects one response that is sent as a whole.
class body_writer {
 public:
  explicit body_writer(response_plan plan);

  void add(const actors::turn_started& event);
  void add(const actors::turn_text& event);
  /// The body; call once, last.
  [[nodiscard]] std::string finish(const actors::turn_finished& event) const;

  [[nodiscard]] const response_plan& plan() const noexcept { return plan_; }

 private:
  response_plan plan_;
  actors::turn_started started_;
  actors::turn_text last_;  ///< its trace fields only
  std::string text_;
  std::vector<actors::released_token> tokens_;
};

/// True if `bytes` is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

}  // namespace baton::apps::http
