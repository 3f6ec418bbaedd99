#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/archive/writer.hpp"
#include "actors/protocol/link_sender.hpp"
#include "actors/protocol/primary_table.hpp"
#include "actors/protocol/replica_set.hpp"
#include "gpu/kv_layout.hpp"
#include "gpu/staging_ring.hpp"
#include "transports/transport.hpp"

/// What the actors of one process say to each other. Never leaves the process, so it may hold shared memory;
/// what crosses processes is a `wire<T>`. The effects of the protocol objects are messages as they are. Free
/// of CAF, which learns of them in `interfaces.hpp`.
namespace baton::actors {

// --- engine
// -------------------------------------------------------------------------------------------------------------------

struct engine_failed {
  session_id session{};
  protocol::run_number run = 0;
  error why{};
};

/// Rows to append to a session's, already verified and in the engine's own format.
struct import_order {
  session_id session{};
  std::uint64_t generation = 0;
  position first = 0;
  std::shared_ptr<gpu::kv_image> image;
  bool restored = false;  ///< for the primary, out of an archive; otherwise for the standby
};

struct import_done {
  session_id session{};
  std::uint64_t generation = 0;
  position end = 0;
  result<void> outcome;
  bool restored = false;
};

/// Export [first, first + count) for a link that lacks it.
struct export_order {
  session_id session{};
  position first = 0;
  std::uint32_t count = 0;
};

/// Whether fresh rows are exported at all, and after how many tokens at the latest.
struct export_policy {
  bool on = false;
  std::uint32_t every_tokens = 1;
};

// --- gpu
// ------------------------------------------------------------------------------------------------------------------------

/// Rows as the engine exported them, to be packed.
struct exported_rows {
  session_id session{};
  std::uint64_t generation = 0;  ///< see protocol::cut_engine
  position first = 0;
  std::shared_ptr<gpu::kv_image> image;
};

/// Packed rows in staging memory; every link that sends them holds the slot.
struct packed_slot {
  protocol::packed_rows rows;
  gpu::staging_slot slot;  ///< empty: there was none; links ask for the rows again
};

/// Landed rows, to be verified and unpacked.
struct unpack_order {
  protocol::import_rows rows;
  gpu::staging_slot slot;
};

struct unpacked_rows {
  protocol::import_rows rows;
  std::shared_ptr<gpu::kv_image> image;
  result<void> outcome;
};

// --- standby
// --------------------------------------------------------------------------------------------------------------------

/// What the data plane's thread leaves to the standby actor: effects of the replica set other than
/// acknowledgements.
struct replica_orders {
  protocol::replica_effects effects;
  gpu::staging_slot slot;  ///< of the import among them, if any
};

struct taken_replicas {
  group_id group{};
  baton::epoch epoch{};
  bool taken = false;
  std::vector<protocol::held_replica> sessions;
};

// --- archive
// --------------------------------------------------------------------------------------------------------------------

/// Rows of a history from `first` on, for `restore_rows`.
struct fetch_rows {
  session_id session{};
  session_id from{};
  std::uint64_t generation = 0;
  position first = 0;
  std::shared_ptr<const protocol::session_log> log;
};

struct fetched_rows {
  session_id session{};
  std::uint64_t generation = 0;
  position first = 0;
  std::shared_ptr<gpu::kv_image> image;  ///< nullptr: there are none
};

/// Of this node's archive, for reports.
struct archive_figures {
  archive::writer::counters counted{};
  std::size_t waiting_bytes = 0;
};

// --- links
// ----------------------------------------------------------------------------------------------------------------------

/// Where a link leads now; an empty address takes it down.
struct link_target {
  process_id node;
  std::string data_address;
};

struct inbound_frame {
  transports::connection_id connection{};
  std::shared_ptr<const link_frame> frame;
};

struct connection_lost {
  transports::connection_id connection{};
  error reason{};
};

/// A link as its replicator reports it to the primary.
struct link_report {
  std::string standby;
  process_id who;
  bool up = false;
  std::string carrier;
  bool archive = false;  ///< not a standby: nobody waits for it
};

/// Progress, fencing, refusal or want of a link.
struct link_news {
  std::string standby;
  protocol::link_effect what;
};

/// The engine holds rows [0, rows) of the session.
struct rows_held {
  session_id session{};
  position rows = 0;
};

/// Counters of one link, for reports.
struct link_figures {
  std::string standby;
  std::string carrier;
  bool up = false;
  protocol::link_sender::counters counted{};
  std::uint32_t lag_tokens = 0;  ///< see protocol::link_sender::lag_tokens
  bool archive = false;
};

// --- node
// -----------------------------------------------------------------------------------------------------------------------

struct view_update {
  std::shared_ptr<const cluster_view> view;
};

/// The node's lease as it knows it: it runs before `until`.
struct lease_state {
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::min();
};

}  // namespace baton::actors
