#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "schemas/session.hpp"

/// What travels on a link, from a node to its standby and back. Records and acknowledgements are messages; KV
/// rows travel as the payload of a `delta_descriptor`.
namespace baton {

/// First frame of the node that connects.
struct link_hello {
  process_id from;
  process_id to;  ///< whom it means to reach: a restarted standby refuses a stale address
  std::string software;
  std::vector<std::pair<std::string, std::string>> fingerprint;

  friend bool operator==(const link_hello&, const link_hello&) = default;
};

/// The answer of the standby: it will take what follows.
struct link_welcome {
  process_id from;
  bool rows = true;  ///< false: this engine takes tokens only and will replay them

  friend bool operator==(const link_welcome&, const link_welcome&) = default;
};

/// The answer of a standby that cannot take this node's sessions; the connection closes after it.
struct link_refusal {
  errc code = errc::invalid_argument;
  std::string reason;  ///< names the differing field

  friend bool operator==(const link_refusal&, const link_refusal&) = default;
};

/// Records of one session. `sequence` grows with each of these and of `resync_frame` on a connection.
struct session_records {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  std::vector<session_record> records;
  std::uint64_t sequence = 0;

  friend bool operator==(const session_records&, const session_records&) = default;
};

/// Records of one step, of all sessions that have some.
struct records_frame {
  std::vector<session_records> sessions;

  friend bool operator==(const records_frame&, const records_frame&) = default;
};

/// Points of the primary's history, longest first: the standby cuts what they contradict and acknowledges the
/// rest. Begins every connection, and answers every gap and fork.
struct resync_frame {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  std::vector<history_point> probes;
  std::uint64_t sequence = 0;

  friend bool operator==(const resync_frame&, const resync_frame&) = default;
};

/// What a standby holds of a session. Positive unless `problem` is set; then it tells what was refused, and
/// the position is what it still has.
struct replica_ack {
  session_id session{};
  baton::epoch epoch{};  ///< highest known for the group
  position logged = 0;
  chain_hash chain = 0;   ///< of the log [0, logged)
  position synced = 0;    ///< KV verified and usable up to here; <= logged
  position expected = 0;  ///< next KV position it would take: synced and what has landed since
  bool has_problem = false;
  errc problem = errc::gap;
  bool about_rows = false;  ///< the problem is with rows (send them again from `expected`), not with records
  std::uint64_t sequence = 0;  ///< of the last records or probes of the session that this takes account of

  friend bool operator==(const replica_ack&, const replica_ack&) = default;
};

struct acks_frame {
  std::vector<replica_ack> acks;

  friend bool operator==(const acks_frame&, const acks_frame&) = default;
};

/// The last word of a group's owner to the node that the group moves to, behind all that it had to say of it:
/// the record names you the owner, under this epoch (which is the record's revision, too).
struct appointment_frame {
  group_id group{};
  baton::epoch epoch{};

  friend bool operator==(const appointment_frame&, const appointment_frame&) = default;
};

using link_frame = std::variant<link_hello, link_welcome, link_refusal, records_frame, resync_frame,
                                acks_frame, appointment_frame>;

/// How the rows of a delta are coded on the wire.
enum class row_codec : std::uint8_t { none = 0 };

/// Stands before the rows of positions [first, first + count) of a session, made under `epoch`.
struct delta_descriptor {
  group_id group{};
  baton::epoch epoch{};
  session_id session{};
  position first = 0;
  std::uint32_t count = 0;
  chain_hash chain_before = 0;  ///< of the log [0, first)
  chain_hash chain_after = 0;   ///< of the log [0, first + count)
  std::uint64_t fingerprint = 0;
  std::uint32_t first_region = 0;  ///< regions [first_region, first_region + regions) of the layout
  std::uint32_t regions = 0;
  row_codec codec = row_codec::none;
  std::uint64_t bytes = 0;     ///< on the wire
  std::uint64_t checksum = 0;  ///< XXH3-64 of the rows, uncoded

  friend bool operator==(const delta_descriptor&, const delta_descriptor&) = default;
};

}  // namespace baton
