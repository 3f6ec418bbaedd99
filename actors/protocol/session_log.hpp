#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "schemas/session.hpp"

namespace baton::actors::protocol {

/// The history of one session: its tokens, the turns among them, and the hash chain over both. Tokens are the
/// truth; KV is a cache of them. Pure: no thread, clock or I/O; not thread-safe.
///
/// The chain: chain(0) = H(fingerprint, session); chain(i + 1) = H(c, token i), where c is chain(i), or
/// H(chain(i), turn) if a turn begins at i. So two equal chains mean the same model, the same requests and
/// the same tokens, in the same order (docs/protocol.md section D).
class session_log {
 public:
  /// An empty history of `session` under an engine with this fingerprint.
  session_log(session_id session, std::uint64_t fingerprint);

  [[nodiscard]] session_id session() const noexcept { return session_; }
  [[nodiscard]] position length() const noexcept { return static_cast<position>(tokens_.size()); }
  [[nodiscard]] std::span<const token_id> tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::span<const turn_header> turns() const noexcept { return turns_; }
  /// Chain of the log [0, length).
  [[nodiscard]] chain_hash chain() const noexcept { return chains_.back(); }
  /// Chain of the log [0, at); `at` <= length().
  [[nodiscard]] chain_hash chain_at(position at) const;
  [[nodiscard]] history_point point() const noexcept { return {length(), chain()}; }
  /// True if this log has the point in its past.
  [[nodiscard]] bool contains(history_point point) const noexcept;

  /// The last turn, if it is still open.
  [[nodiscard]] const turn_header* open_turn() const noexcept;
  /// The last turn, open or closed; nothing in an empty log.
  [[nodiscard]] const turn_header* last_turn() const noexcept {
    return turns_.empty() ? nullptr : &turns_.back();
  }

  /// Begins a turn at the end of the log. Closes an open one. `invalid_argument` if `turn.base` is not the
  /// length, or the number does not grow.
  result<void> begin_turn(turn_header turn);
  /// Appends tokens to the last turn, which is open from then on; `no_room` past `limits::session_tokens`,
  /// `invalid_argument` before the first turn.
  result<void> append(std::span<const token_id> tokens);
  void close_turn() noexcept { open_ = false; }
  /// Cuts to [0, length): turns that began at or after it go. If anything went, the last of those that stay
  /// is open: what follows is no longer known, so nor is that it has ended. Does nothing if already shorter.
  void truncate(position length);

  /// Applies one record as a standby does: `gap` or `fork` if it does not follow, then nothing has changed. A
  /// `drop_record` empties the log.
  result<void> apply(const session_record& record);

  /// Makes this log hold `piece`: what it already holds of it stays, also what follows within the same turn;
  /// at the first difference it is cut and the piece's rest appended. The last turn is open afterwards,
  /// unless what is held already closed it. Returns the length up to which nothing changed. `gap` if the log
  /// does not have the point that the piece stands on, `invalid_argument` or `no_room` if the piece itself is
  /// no history; then nothing has changed.
  result<position> adopt(const session_piece& piece);
  /// The length up to which `piece` and this log are equal; what `adopt` would answer, if it would refuse.
  [[nodiscard]] result<position> agreement(const session_piece& piece) const;

  /// The history from `first` on, as a piece.
  [[nodiscard]] session_piece piece_from(position first) const;
  /// The records that bring a log which holds exactly [0, first) of this history to its end, tokens cut to
  /// `limits::record_tokens` each. Its last turn is open or closed then as it is here.
  [[nodiscard]] std::vector<session_record> records_from(position first) const;

  /// Points to probe a peer with: the end, then `upto`, then exponentially further back, then the begin; at
  /// most `limits::resync_probes`, longest first. `upto` <= length().
  [[nodiscard]] std::vector<history_point> probes(position upto) const;
  [[nodiscard]] std::vector<history_point> probes() const { return probes(length()); }
  /// The length up to which none of a peer's `points`, longest first, contradicts this log, and which is not
  /// past the peer's end, the first of them: what lies beyond is surely not of the peer's history, what lies
  /// before may be.
  [[nodiscard]] position undisputed(std::span<const history_point> points) const;

 private:
  [[nodiscard]] const turn_header* turn_beginning_at(position at) const noexcept;
  [[nodiscard]] const turn_header* turn_after(position at) const noexcept;
  [[nodiscard]] position agreement_with(const session_piece& piece) const;
  [[nodiscard]] result<void> check_follows(const session_piece& piece, position same) const;
  [[nodiscard]] bool follows_without_last(const turn_header& turn) const noexcept;
  void push(token_id token);

  session_id session_;
  std::vector<token_id> tokens_;
  std::vector<chain_hash> chains_;  // chains_[i]: of the log [0, i)
  std::vector<turn_header> turns_;
  bool open_ = false;
};

}  // namespace baton::actors::protocol
