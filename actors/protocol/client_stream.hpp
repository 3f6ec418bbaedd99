#pragma once

#include <cstdint>

#include "actors/protocol/session_log.hpp"
#include "schemas/control.hpp"

namespace baton::actors::protocol {

/// A gateway's own copy of a session: exactly what its client has been given, and the last word on it
/// (docs/protocol.md section O). Tokens are accepted only under the sealed epoch, in order, on the one chain;
/// what comes twice is dropped. Pure.
class client_stream {
 public:
  enum class verdict : std::uint8_t {
    accepted,
    duplicate,  ///< released before; nothing new in it
    stale,      ///< of a lower epoch than the sealed one: a replaced owner speaks
    gap,        ///< something before it is missing
    diverged    ///< another history: never released, the turn must end
  };

  /// `log` is empty for a new session.
  explicit client_stream(session_log log) : log_(std::move(log)) {}

  /// Begins a turn: the log is cut to `turn.base` and the prompt appended. `gap` if the log does not reach
  /// `turn.base`, `invalid_argument` if the prompt does not fill the turn or the number does not grow,
  /// `no_room` past a bound; then nothing has been cut.
  result<void> open(const turn_header& turn, std::span<const token_id> prompt);

  /// Judges tokens against `sealed`, the highest epoch of the group. If accepted, `fresh` is the number of
  /// tokens at their end that are new.
  verdict accept(const turn_tokens& tokens, epoch sealed, std::size_t& fresh);

  /// Cuts what was released beyond `keep` (after a stop string) and closes the turn.
  void close(position keep);

  [[nodiscard]] const session_log& log() const noexcept { return log_; }

  /// What a node that holds `have` lacks of this history: from the common point on; nothing but the end, if
  /// it says it holds more (it will answer `gap` if that is more of something else); all of it, if its
  /// history is another.
  [[nodiscard]] session_piece piece_for(history_point have) const;

 private:
  session_log log_;
};

}  // namespace baton::actors::protocol
