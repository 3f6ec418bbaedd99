#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "actors/protocol/engine_places.hpp"
#include "actors/protocol/evaluation_plan.hpp"
#include "actors/protocol/session_log.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "schemas/link.hpp"

namespace baton::actors::protocol {

/// Names the connection a frame came by, so that its acknowledgement goes back the same way. Grows: of two
/// connections of a node, the one made later has the larger handle.
using peer_handle = std::uint64_t;

/// Names landed rows between this object and whoever holds their memory.
using landing_ticket = std::uint64_t;

// --- effects: what whoever drives a replica_set must do, in order ------------------------------------------

struct send_ack {
  peer_handle to = 0;
  replica_ack ack;
};

/// Verify the landed rows against `checksum`, append them to the engine's rows of the session, then report by
/// `on_imported` with the same generation.
struct import_rows {
  session_id session{};
  std::uint64_t generation = 0;
  position first = 0;
  std::uint32_t count = 0;
  std::uint64_t checksum = 0;
  landing_ticket ticket = 0;
};

/// The rows of positions >= length are of another history: cut them. Those that follow are of `generation`.
struct cut_rows {
  session_id session{};
  position length = 0;
  std::uint64_t generation = 0;
};

/// The session is gone: free its rows. Its place is given back after that, unless another replica has it
/// already.
struct drop_rows {
  session_id session{};
  bool place_unused = true;
};

/// Another node owns, under a higher epoch, a group that this node believes to own itself.
struct superseded {
  group_id group{};
  baton::epoch epoch{};
};

/// The former owner of a group says that this node owns it now, and that it has said all.
struct appointed {
  group_id group{};
  baton::epoch epoch{};
};

using replica_effect = std::variant<send_ack, import_rows, cut_rows, drop_rows, superseded, appointed>;
using replica_effects = std::vector<replica_effect>;

/// A session as it changes hands between the standby and the primary of one node.
struct held_replica {
  group_id group{};
  session_log log;
  position synced = 0;  ///< rows [0, synced) are in the engine, verified
};

/// The receiving side of replication: the replicas that one node holds as a standby, for all groups and
/// peers. Accepts records and rows by the rules of docs/protocol.md sections S, G and E: lower epochs are
/// refused, what comes late by a connection that has been replaced is dropped, a record must fit the chain,
/// rows must fit the chain of this node's own log, and only verified rows count as synced. Pure; not
/// thread-safe.
class replica_set {
 public:
  struct options {
    std::uint64_t fingerprint = 0;  ///< of this node's engine
    std::uint32_t regions = 0;      ///< of its row layout
    std::uint64_t bytes_per_token = 0;
    std::uint32_t context_tokens = 0;       ///< rows past it cannot be held
    std::uint32_t prefill_chunk = 1;        ///< of the engine, as in `evaluation_plan`
    std::size_t sessions = 0;               ///< replicas at most
    std::shared_ptr<engine_places> places;  ///< of this node's engine; must be set
  };

  /// Counters for metrics; each refusal is counted once by its reason.
  struct counters {
    std::uint64_t records = 0, stale = 0, gaps = 0, forks = 0, corrupt = 0, refused_rows = 0, synced_rows = 0;
  };

  /// What this node holds of a group.
  struct group_summary {
    group_id group{};
    baton::epoch epoch{};
    std::uint32_t sessions = 0;
    std::uint64_t synced_tokens = 0;
    std::uint32_t lag_tokens = 0;  ///< worst session: tokens logged whose rows are missing
  };

  explicit replica_set(options how) : how_(std::move(how)) {}

  // From a primary.
  replica_effects on_records(peer_handle from, const session_records& records);
  replica_effects on_resync(peer_handle from, const resync_frame& frame);

  /// Whether rows announced by this descriptor may land (rules S1, S2, S4). On success they are expected, and
  /// the next ones after them; report them by `on_landed` or `on_landing_failed`, in the order of admission:
  /// what comes out of order is asked for again. A refusal is acknowledged by the effects.
  bool admit(peer_handle from, const delta_descriptor& rows, replica_effects& effects);
  replica_effects on_landed(const delta_descriptor& rows, landing_ticket ticket);
  /// Landing failed (connection), or memory was short: the rows are asked for again.
  replica_effects on_landing_failed(peer_handle from, const delta_descriptor& rows, errc why);

  // From whoever carries out `import_rows`.
  /// False if the history was cut since the rows landed: they must not reach the engine any more.
  [[nodiscard]] bool current(session_id session, std::uint64_t generation) const;
  replica_effects on_imported(session_id session, std::uint64_t generation, position end,
                              const result<void>& outcome);

  // Change of role.
  /// From now on lower epochs of the group are refused, whoever owns it.
  void fence(group_id group, baton::epoch epoch);
  [[nodiscard]] baton::epoch highest_epoch(group_id group) const;
  /// Takes this node out of its standby role for the group: returns its replicas, with rows under way given
  /// up, and treats the group as owned here until `take_back`. Nothing if a higher epoch is known; that is no
  /// longer ours to own.
  std::optional<std::vector<held_replica>> promote(group_id group, baton::epoch epoch);
  /// Back into the standby role: the sessions are replicas again, whose tails the new owner will cut. Those
  /// that find no room are dropped; the new owner learns of it when it asks.
  replica_effects take_back(group_id group, std::vector<held_replica> sessions);
  /// Forgets all replicas of a group.
  replica_effects drop_group(group_id group);

  [[nodiscard]] std::vector<group_summary> summaries() const;
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }
  [[nodiscard]] std::size_t size() const noexcept { return replicas_.size(); }
  [[nodiscard]] bool owned_here(group_id group) const;
  /// A replica as it is now, and of which generation its rows are; nothing if none is held.
  struct snapshot {
    session_log log;
    baton::epoch epoch{};
    std::uint64_t generation = 0;
  };
  [[nodiscard]] std::optional<snapshot> snapshot_of(session_id session) const;
  /// The log of a replica, until the next change; nothing if none is held.
  [[nodiscard]] const session_log* log_of(session_id session) const;
  /// Rows [0, n) of a replica are in the engine, verified.
  [[nodiscard]] position synced(session_id session) const;

 private:
  struct replica {
    group_id group{};
    session_log log;
    position synced = 0;
    position landed = 0;                      // next row to be imported
    position expected = 0;                    // next row that may land
    std::deque<delta_descriptor> landings{};  // admitted, [landed, expected)
    std::uint64_t generation = 0;             // of rows under way; a cut makes those of the past void
    baton::epoch epoch{};                     // of the last frame
    peer_handle peer = 0;
    std::uint64_t sequence = 0;  // of the last records or probes
    std::uint64_t touched = 0;   // when the last frame came, in the order of frames
    bool astray = false;  // records were refused, or the owner is another: none counts until probes have come
  };
  struct group_state {
    baton::epoch highest{};
    peer_handle peer = 0;  // the latest connection that spoke under `highest`
    bool owned = false;
    baton::epoch owned_under{};
  };

  [[nodiscard]] evaluation_plan plan_of(const replica& held) const;
  [[nodiscard]] replica_ack ack_of(const replica& held) const;
  replica_effect problem(peer_handle to, session_id session, group_id group, errc code,
                         bool about_rows) const;
  bool accept_epoch(peer_handle from, group_id group, baton::epoch epoch, session_id session,
                    replica_effects& effects);
  replica* place(peer_handle from, group_id group, baton::epoch epoch, session_id session,
                 std::uint64_t sequence, replica_effects& effects);
  bool find_place(replica_effects& effects);
  void cut_rows_to(replica& held, position length, replica_effects& effects);
  void give_up_landings(replica& held, replica_effects& effects);
  errc judge(const delta_descriptor& rows, const replica* held) const;

  options how_;
  counters counters_;
  std::uint64_t frames_ = 0;
  std::uint64_t next_generation_ = 1;  // over all sessions: none is used twice
  std::map<group_id, group_state> groups_;
  std::unordered_map<session_id, replica> replicas_;
};

}  // namespace baton::actors::protocol
