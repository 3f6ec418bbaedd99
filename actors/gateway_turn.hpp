#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "actors/completion_service.hpp"
#include "actors/gateway_sessions.hpp"
#include "actors/protocol/poison_watch.hpp"
#include "actors/text/text_stream.hpp"
#include "schemas/control.hpp"

namespace baton::actors {

/// One open request at a gateway: from released tokens to events for its client. Not thread-safe.
class gateway_turn {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  gateway_turn(turn_handle handle, completion_request request, completion_service::receiver events,
               gateway_session& session, const turn_header& header);

  [[nodiscard]] turn_handle handle() const noexcept { return handle_; }
  [[nodiscard]] gateway_session& session() const noexcept { return *session_; }
  [[nodiscard]] turn_number number() const noexcept { return number_; }
  [[nodiscard]] const completion_request& request() const noexcept { return request_; }
  [[nodiscard]] const std::string& answer() const noexcept { return answer_; }

  /// An owner has it, or is about to, under this epoch.
  void taken(epoch under);
  /// The owner has taken the turn; said to the client once. With its first tokens an owner that restores rows
  /// may name more: then the end of the turn does.
  void started(std::uint32_t cached_tokens);

  /// Tokens that have just been released into the session's stream, `fresh` of them new. True if the turn is
  /// over: then `keep()` says how much of the log stays and the client has its last event.
  bool released(const turn_tokens& tokens, std::size_t fresh, const std::string& node,
                const engines::tokenizer& text);

  void failed(const error& why);

  /// Log length to keep when the turn is over.
  [[nodiscard]] position keep() const noexcept { return keep_; }

  /// Nobody serves it from now on.
  void unserve(time_point now);

  // Where the turn is served; kept by `gateway_core`.
  epoch served{};            ///< epoch under which an owner has taken it; 0: none yet
  time_point waiting_since;  ///< since when none serves it
  time_point retry_at{};
  bool asking = false;  ///< an open_turn is under way
  protocol::poison_watch watch;
  std::optional<std::uint64_t> known_poison;  ///< its prompt, by hash, if it is on its second chance
  /// What a client is told if nobody serves it in time.
  error refusal{errc::unavailable, "no node can serve this conversation now"};

 private:
  void show(text::text_piece piece, const turn_tokens& tokens, const std::string& node);
  void finish(const turn_tokens& tokens, finish_reason reason);
  released_token describe(const turn_tokens& tokens, std::size_t index, const engines::tokenizer& text) const;

  turn_handle handle_;
  completion_request request_;
  completion_service::receiver events_;
  gateway_session* session_;
  turn_number number_;
  position prompt_end_;
  std::vector<token_id> end_tokens_;
  text::text_stream text_;
  std::string answer_;
  std::deque<released_token> undescribed_;
  std::uint32_t cached_ = 0;
  bool said_started_ = false;
  position keep_ = 0;
  epoch taken_under_{};
  /// By the owner that has it, as it last said, and by those before it.
  std::uint64_t recomputed_ = 0, recomputed_before_ = 0;
  std::uint32_t failovers_ = 0;
};

}  // namespace baton::actors
