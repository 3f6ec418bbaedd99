#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <variant>
#include <vector>

#include "actors/protocol/session_log.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "schemas/limits.hpp"
#include "schemas/link.hpp"

namespace baton::actors::protocol {

using time_point = std::chrono::steady_clock::time_point;

/// Packed rows of positions [first, first + count), ready to send. `ticket` names the memory to whoever holds
/// it.
struct packed_rows {
  session_id session{};
  position first = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::uint64_t ticket = 0;
  std::uint64_t generation = 0;  ///< see cut_engine

  [[nodiscard]] position end() const noexcept { return first + count; }
};

// --- effects -----------------------------------------------------------------------------------------------

struct send_frame {
  link_frame frame;
};

/// Send the rows named by `ticket` under this descriptor.
struct send_rows {
  delta_descriptor rows;
  std::uint64_t ticket = 0;
};

/// Rows that the standby lacks and that nobody will bring by itself: export [first, first + count) for this
/// link.
struct want_rows {
  session_id session{};
  position first = 0;
  std::uint32_t count = 0;
};

/// The standby holds this much, verified against our own chain.
struct standby_progress {
  session_id session{};
  baton::epoch epoch{};
  position logged = 0;
  position synced = 0;
  chain_hash chain = 0;    ///< of the log [0, logged): counts only for a history that has it in its past
  std::uint64_t cuts = 0;  ///< of the history, see `on_session`: counts only if it has not been cut since
};

/// The standby knows a higher epoch: this node has been replaced as the owner.
struct fenced {
  group_id group{};
  baton::epoch epoch{};
};

/// The standby cannot hold the session (its reason is `code`): it does not protect it.
struct unprotected {
  session_id session{};
  errc code = errc::no_room;
};

/// The link must be closed and made anew: no acknowledgement within the deadline.
struct link_stalled {};

using link_effect =
    std::variant<send_frame, send_rows, want_rows, standby_progress, fenced, unprotected, link_stalled>;
using link_effects = std::vector<link_effect>;

/// The sending side of replication, for one standby: what of each session it has, what is under way, what to
/// send next. Records are sent at once; rows within a window. After a connection, and after every gap or
/// fork, the two sides find their longest common history and go on from there: the sender probes, the standby
/// cuts what the probes contradict and says what it has, the sender probes closer until its own history has
/// that (docs/protocol.md section G). Pure; not thread-safe.
class link_sender {
 public:
  struct options {
    std::uint64_t fingerprint = 0;
    std::uint32_t regions = 0;
    std::uint64_t bytes_per_token = 0;
    std::uint32_t prefill_chunk = 1;  ///< of the engine, as in `evaluation_plan`
    bool rows = true;                 ///< false: tokens only, the standby replays
    std::size_t window_deltas = limits::link_window_deltas;
    std::uint32_t delta_tokens = limits::delta_tokens;
    std::chrono::milliseconds deadline = limits::acknowledgement_deadline;
  };

  struct counters {
    std::uint64_t deltas = 0, delta_bytes = 0, delta_tokens = 0, resyncs = 0, retransmitted_tokens = 0;
  };

  explicit link_sender(options how) : how_(how) {}

  /// The connection stands and has been welcomed; every session begins with probes.
  link_effects on_connected(time_point now, bool standby_takes_rows);
  /// What was under way is lost.
  void on_disconnected();
  [[nodiscard]] bool connected() const noexcept { return connected_; }

  /// This node owns the session under `epoch`; `log` is its history so far, which has been cut `cuts` times,
  /// `rows` what the engine has of it. Also for an ownership under a higher epoch than before.
  link_effects on_session(group_id group, baton::epoch epoch, session_log log, position rows, time_point now,
                          std::uint64_t cuts = 0);
  /// The session is no longer ours, or is gone for good: then the standby is told to drop it, again after a
  /// reconnect if it may not have heard.
  link_effects on_session_ended(session_id session, bool drop);

  /// Records that have just been appended to the sessions' histories: one step's worth, sent as one frame.
  link_effects on_records(const std::vector<session_records>& step, time_point now);

  /// The engine holds rows [0, rows) of the session: after a cut of the history, or where it evaluates a
  /// batch again, fewer than before. What the standby holds of this history stays good.
  void on_rows_held(session_id session, position rows);
  /// The engine has made rows up to `end`, and there was no staging memory to pack them: they are asked for
  /// on a tick.
  void on_made(session_id session, position end);
  /// Rows have been packed. Sent if they are the next ones and the window allows; otherwise the rows that are
  /// missing in between are asked for when there is room. True in `sent` if the ticket is in use until its
  /// transfer completes.
  link_effects on_packed(const packed_rows& rows, bool& sent, time_point now);

  link_effects on_ack(const replica_ack& ack, time_point now);
  /// Probes that have gone unanswered are sent again; a link that owes an acknowledgement past the deadline
  /// has stalled.
  link_effects on_tick(time_point now);

  /// KV position up to which the standby is synced; 0 for unknown sessions.
  [[nodiscard]] position synced(session_id session) const;
  /// Tokens whose rows (of a standby that takes none: whose records) it is not known to hold, of the session
  /// that lacks most; what a failover to it would compute again.
  [[nodiscard]] std::uint32_t lag_tokens() const;
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }

 private:
  enum class phase : std::uint8_t {
    idle,     ///< no connection
    probing,  ///< waiting for the acknowledgement of probes
    streaming
  };
  struct outbound {
    group_id group{};
    baton::epoch epoch{};
    session_log log;
    phase state = phase::idle;
    time_point probing_since{};
    time_point probed_at{};
    position logged = 0;     // acknowledged
    position rows_held = 0;  // by our engine
    position rows_sent = 0;  // next row to send
    position rows_synced = 0;
    position high_sent = 0;  // rows sent at least once
    bool wanted = false;     // an export for this link is under way
    time_point wanted_at{};
    time_point owed_since{};  // oldest record without acknowledgement
    bool owed = false;
    std::uint64_t cuts = 0;
    std::uint64_t believed_from =
        0;  // acknowledgements of a lower sequence are of before a cut, or no answer to probes
    std::size_t refusals_due = 0;             // of rows sent behind ones that were refused
    bool doubted = false;                     // the standby has acknowledged another history
    bool refused = false;                     // the standby has no room
    std::chrono::milliseconds refused_for{};  // asked again after that, which grows with each refusal
  };

  void follow(outbound& session, const session_record& record);
  void probe(outbound& session, position upto, time_point now, link_effects& effects);
  void stream_from(outbound& session, position at, time_point now, link_effects& effects);
  void ask_for_rows(outbound& session, time_point now, link_effects& effects);
  void cut_rows(outbound& session, position rows);
  void follow_expected(outbound& session, position expected);
  void on_problem(outbound& session, const replica_ack& ack, time_point now, link_effects& effects);
  void owe(outbound& session, time_point now);
  void set_rows_sent(outbound& session, position at);
  [[nodiscard]] bool rows_flow(const outbound& session) const;

  struct farewell {
    group_id group{};
    baton::epoch epoch{};
    time_point sent_at{};
    bool sent = false;
  };
  struct flight {
    position first = 0;
    position end = 0;
  };

  options how_;
  counters counters_;
  bool connected_ = false;
  bool peer_takes_rows_ = true;
  std::size_t in_flight_ = 0;
  std::uint64_t sequence_ = 0;
  std::unordered_map<session_id, outbound> sessions_;
  std::map<session_id, std::deque<flight>> flights_;  // deltas under way
  std::map<session_id, farewell> farewells_;          // sessions to drop, until the standby has surely heard
};

}  // namespace baton::actors::protocol
