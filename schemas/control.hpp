#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "schemas/session.hpp"

/// The control plane: membership, ownership, turns. Small messages between processes; none is on the path of
/// KV rows.
namespace baton {

// --- membership: nodes and gateways to the orchestrator
// --------------------------------------------------------------

/// Whose views a process has obeyed so far, and the latest of them: its store, term, and highest epoch. An
/// orchestrator whose store is another one, or is behind that, because it was lost or is an old copy, must
/// not decide anything for it: its epochs would be refused, or worse, would be taken for those of others.
struct allegiance {
  std::uint64_t store = 0;  ///< 0: nobody's yet
  std::uint64_t term = 0;
  baton::epoch epoch{};

  friend bool operator==(const allegiance&, const allegiance&) = default;
};

/// A node offers itself.
struct node_registration {
  process_id node;
  std::string control_address;            ///< where its control actor listens, "host:port"
  std::string data_address;               ///< where its transport listens
  std::vector<std::string> replicate_to;  ///< names of the nodes its links lead to
  std::vector<std::pair<std::string, std::string>> fingerprint;
  std::uint32_t capacity_sessions = 0;
  std::uint32_t context_tokens = 0;
  std::uint64_t fingerprint_hash = 0;  ///< the first link of every chain of this node's engine
  allegiance obeyed{};

  friend bool operator==(const node_registration&, const node_registration&) = default;
};

struct gateway_registration {
  process_id gateway;
  std::vector<process_id>
      unreachable;  ///< nodes that the orchestrator calls alive and it has not reached for a lease
  allegiance obeyed{};

  friend bool operator==(const gateway_registration&, const gateway_registration&) = default;
};

/// How a node stands in a group. `lag_tokens`: for an owner, what its slowest in-sync standby still lacks in
/// KV; for a standby, what it has logged but not synced.
struct group_status {
  group_id group{};
  baton::epoch epoch{};
  bool owner = false;
  std::uint32_t sessions = 0;
  std::uint64_t synced_tokens = 0;
  std::uint32_t lag_tokens = 0;

  friend bool operator==(const group_status&, const group_status&) = default;
};

/// Every `limits::heartbeat`. `progress` grows while the engine loop turns; `busy` says it has work.
struct heartbeat {
  process_id node;
  std::uint64_t sequence = 0;
  std::uint64_t progress = 0;
  bool busy = false;
  std::uint64_t view_version = 0;  ///< of the last cluster view it has applied
  std::vector<group_status> groups;
  std::string figures;    ///< JSON for people, in some beats only
  bool draining = false;  ///< it wants to own nothing any more

  friend bool operator==(const heartbeat&, const heartbeat&) = default;
};

/// The renewal of the lease: counts from the sending of the heartbeat it answers.
struct heartbeat_ack {
  std::uint64_t sequence = 0;
  std::uint64_t term = 0;
  bool known = true;     ///< false: register again
  bool foreign = false;  ///< not known, and never will be: see `allegiance`

  friend bool operator==(const heartbeat_ack&, const heartbeat_ack&) = default;
};

// --- ownership: the orchestrator to all
// ---------------------------------------------------------------------------------

/// The record of a placement group, as the store has it.
struct group_record {
  group_id group{};
  baton::epoch epoch{};             ///< of the last change of owner
  std::uint64_t revision = 0;       ///< of the last change at all; what a compare-and-swap compares
  process_id owner;                 ///< name empty: nobody can serve it now
  std::vector<process_id> in_sync;  ///< standbys whose acknowledgement the owner waits for

  friend bool operator==(const group_record&, const group_record&) = default;
};

struct node_view {
  process_id node;
  std::string control_address;
  std::string data_address;
  std::vector<std::string> replicate_to;
  bool alive = false;
  std::uint32_t sessions = 0;
  std::uint32_t capacity_sessions = 0;
  std::uint32_t context_tokens = 0;
  std::uint64_t fingerprint_hash = 0;
  bool draining = false;  ///< its groups are being moved away, and it gets none

  friend bool operator==(const node_view&, const node_view&) = default;
};

/// The owner is asked to hand the group over to a standby that is in sync (docs/protocol.md, M).
struct group_move {
  group_id group{};
  baton::epoch epoch{};  ///< of the owner that is asked
  process_id to;

  friend bool operator==(const group_move&, const group_move&) = default;
};

/// The whole cluster as the orchestrator knows it; sent to everybody at each change. Declarative: a receiver
/// compares it with what it does and acts on the difference, so a lost or repeated view does no harm.
struct cluster_view {
  std::uint64_t term = 0;     ///< of the orchestrator; lower ones are refused
  std::uint64_t version = 0;  ///< grows within a term
  std::vector<node_view> nodes;
  std::vector<process_id> gateways;
  std::vector<group_record> groups;
  std::vector<group_move> moves;
  std::uint64_t store = 0;  ///< that the records are in

  friend bool operator==(const cluster_view&, const cluster_view&) = default;
};

inline void obey(allegiance& who, const cluster_view& view) {
  if (who.store == view.store && view.term < who.term) return;  // late
  who.store = view.store;
  who.term = view.term;
  for (const group_record& it : view.groups)
    who.epoch = std::max(who.epoch, it.epoch);
}

/// An owner asks to change its in-sync set. Guarded by epoch and revision.
struct in_sync_change {
  group_id group{};
  baton::epoch epoch{};
  std::uint64_t revision = 0;
  process_id owner;
  process_id standby;
  bool add = false;  ///< else remove

  friend bool operator==(const in_sync_change&, const in_sync_change&) = default;
};

/// An owner has stopped decoding a group, and `to` holds all of it: it is to be the next owner. Answered by
/// an `in_sync_reply`.
struct hand_over {
  group_id group{};
  baton::epoch epoch{};
  process_id owner;
  process_id to;

  friend bool operator==(const hand_over&, const hand_over&) = default;
};

/// The record after the change, or as it really is.
struct in_sync_reply {
  bool changed = false;
  group_record record;

  friend bool operator==(const in_sync_reply&, const in_sync_reply&) = default;
};

// --- turns: gateway and owner
// --------------------------------------------------------------------------------------------

/// A gateway makes itself known to a node.
struct gateway_hello {
  process_id gateway;

  friend bool operator==(const gateway_hello&, const gateway_hello&) = default;
};

/// Opens or resumes the last turn of `history`. Generated tokens at its end have been released to the client
/// and are never sampled again.
struct open_turn {
  group_id group{};
  baton::epoch epoch{};
  session_piece history;
  turn_number turn = 0;
  process_id gateway;  ///< who shows the turn to a client
  /// Under which session an archive may have rows of this history; 0: none has. What an owner that holds
  /// nothing of it finds there need not be evaluated.
  session_id restore_from{};

  friend bool operator==(const open_turn&, const open_turn&) = default;
};

/// Answer to `open_turn`. `gap`: the owner lacks history before the piece; it has `have` and wants what
/// follows the longest common point.
struct open_turn_reply {
  bool accepted = false;
  errc refusal = errc::unavailable;
  std::string reason;
  history_point have;
  std::uint32_t cached_tokens = 0;  ///< of the log at the end of the prompt, rows that need not be evaluated

  friend bool operator==(const open_turn_reply&, const open_turn_reply&) = default;
};

struct token_report {
  float logprob = 0;
  std::vector<token_logprob> alternatives;

  friend bool operator==(const token_report&, const token_report&) = default;
};

/// Committed tokens of a turn; or none, and not the end: a sign that its owner gets on with evaluating it.
struct turn_tokens {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  turn_number turn = 0;
  position first = 0;
  chain_hash chain_before = 0;
  std::vector<token_id> tokens;
  std::vector<token_report> reports;  ///< one per token, or empty
  std::uint32_t lag_tokens = 0;
  bool last = false;  ///< the turn has ended with these
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t recomputed_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< as in `open_turn_reply`: a turn that a seal has opened gets no other
  position rows = 0;                ///< of the session that the owner's engine has

  friend bool operator==(const turn_tokens&, const turn_tokens&) = default;
};

/// The owner cannot go on with a turn.
struct turn_failure {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  turn_number turn = 0;
  errc code = errc::engine_failed;
  std::string reason;

  friend bool operator==(const turn_failure&, const turn_failure&) = default;
};

/// The gateway ends a turn: the log keeps [0, keep).
struct end_turn {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  turn_number turn = 0;
  position keep = 0;

  friend bool operator==(const end_turn&, const end_turn&) = default;
};

/// What a promoted node holds of a session.
struct held_session {
  session_id session{};
  history_point logged;

  friend bool operator==(const held_session&, const held_session&) = default;
};

/// A promoted node seals a gateway: from the answer on, it accepts no lower epoch of the group.
struct seal {
  group_id group{};
  baton::epoch epoch{};
  process_id owner;
  std::vector<held_session> held;

  friend bool operator==(const seal&, const seal&) = default;
};

/// The gateway's open turns of the group, each as the piece that the new owner lacks or must follow.
struct seal_reply {
  bool sealed = false;  ///< false: a higher epoch is known here
  baton::epoch highest{};
  std::vector<open_turn> turns;

  friend bool operator==(const seal_reply&, const seal_reply&) = default;
};

}  // namespace baton
