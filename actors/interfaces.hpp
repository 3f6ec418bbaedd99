#pragma once

#include <utility>

#include <caf/all.hpp>

#include <string>

#include "actors/messages.hpp"
#include "actors/wire.hpp"

/// Who says what to whom. The first three interfaces cross processes; the others stay within a node.
namespace baton::actors {

using tick_atom = caf::atom_constant<caf::atom("tick")>;
using step_atom = caf::atom_constant<caf::atom("step")>;
using locate_atom = caf::atom_constant<caf::atom("locate")>;
using move_atom = caf::atom_constant<caf::atom("move")>;
using drain_atom = caf::atom_constant<caf::atom("drain")>;
using status_atom = caf::atom_constant<caf::atom("status")>;

// --- between processes
// -----------------------------------------------------------------------------------------------------

/// Says of open turns what the client is shown; see actors/gateway_actor.hpp.
using gateway_actor =
    caf::typed_actor<caf::replies_to<wire<seal>>::with<wire<seal_reply>>, caf::reacts_to<wire<turn_tokens>>,
                     caf::reacts_to<wire<turn_failure>>, caf::reacts_to<wire<cluster_view>>,
                     caf::replies_to<locate_atom, std::string>::with<std::uint64_t>>;

/// Runs sessions; see actors/primary_actor.hpp. A node publishes this one.
using primary_actor =
    caf::typed_actor<caf::replies_to<wire<gateway_hello>, gateway_actor>::with<bool>,
                     caf::replies_to<wire<open_turn>>::with<wire<open_turn_reply>>,
                     caf::reacts_to<wire<end_turn>>, caf::replies_to<status_atom>::with<std::string>>;

/// A node towards its orchestrator; see actors/node_actor.hpp.
using node_actor = caf::typed_actor<caf::reacts_to<wire<cluster_view>>>;

/// See actors/orchestrator_actor.hpp.
using orchestrator_actor =
    caf::typed_actor<caf::replies_to<wire<node_registration>, node_actor>::with<wire<heartbeat_ack>>,
                     caf::replies_to<wire<gateway_registration>, gateway_actor>::with<wire<heartbeat_ack>>,
                     caf::replies_to<wire<heartbeat>>::with<wire<heartbeat_ack>>,
                     caf::replies_to<wire<in_sync_change>>::with<wire<in_sync_reply>>,
                     caf::replies_to<wire<hand_over>>::with<wire<in_sync_reply>>,
                     caf::replies_to<drain_atom, std::string, bool>::with<bool>,
                     caf::replies_to<locate_atom, std::string>::with<std::uint64_t>,
                     caf::replies_to<move_atom, std::uint64_t, std::string>::with<bool>,
                     caf::replies_to<status_atom>::with<std::string>>;

// --- within a node
// -----------------------------------------------------------------------------------------------------------

using engine_actor =
    caf::typed_actor<caf::reacts_to<protocol::run_engine>, caf::reacts_to<protocol::allow_engine>,
                     caf::reacts_to<protocol::stop_engine>, caf::reacts_to<protocol::pause_engine>,
                     caf::reacts_to<protocol::cut_engine>, caf::reacts_to<protocol::drop_engine>,
                     caf::reacts_to<import_order>, caf::reacts_to<export_order>,
                     caf::reacts_to<export_policy>, caf::reacts_to<step_atom>>;

using gpu_actor = caf::typed_actor<caf::reacts_to<exported_rows>, caf::reacts_to<unpack_order>>;

using standby_actor = caf::typed_actor<caf::reacts_to<replica_orders>, caf::reacts_to<unpacked_rows>,
                                       caf::reacts_to<import_done>,
                                       caf::replies_to<protocol::take_replicas>::with<taken_replicas>,
                                       caf::reacts_to<protocol::return_replicas>>;

using replicator_actor =
    caf::typed_actor<caf::reacts_to<link_target>, caf::reacts_to<protocol::begin_replication>,
                     caf::reacts_to<protocol::replicate_records>, caf::reacts_to<protocol::end_replication>,
                     caf::reacts_to<protocol::appoint>, caf::reacts_to<rows_held>,
                     caf::reacts_to<packed_slot>, caf::reacts_to<inbound_frame>,
                     caf::reacts_to<connection_lost>, caf::reacts_to<tick_atom>>;

/// See actors/archive_actor.hpp.
using archive_actor = caf::typed_actor<caf::reacts_to<replica_orders>, caf::reacts_to<tick_atom>>;

/// See actors/restore_actor.hpp.
using restore_actor = caf::typed_actor<caf::replies_to<fetch_rows>::with<fetched_rows>>;

/// The whole of the primary, of which `primary_actor` is what others see.
using primary_core_actor = primary_actor::extend<
    caf::reacts_to<protocol::engine_step>, caf::reacts_to<engine_failed>, caf::reacts_to<packed_slot>,
    caf::reacts_to<link_report>, caf::reacts_to<link_news>, caf::reacts_to<link_figures>,
    caf::reacts_to<export_policy>, caf::reacts_to<import_done>, caf::reacts_to<archive_figures>,
    caf::reacts_to<view_update>, caf::reacts_to<lease_state>, caf::reacts_to<protocol::superseded>,
    caf::reacts_to<protocol::appointed>, caf::reacts_to<orchestrator_actor>, caf::reacts_to<tick_atom>>;

}  // namespace baton::actors

// Messages that never leave the process: CAF need not know how to write them.
#define BATON_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)
BATON_LOCAL_MESSAGE(baton::actors::protocol::run_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::allow_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::stop_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::pause_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::cut_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::drop_engine)
BATON_LOCAL_MESSAGE(baton::actors::protocol::engine_step)
BATON_LOCAL_MESSAGE(baton::actors::protocol::take_replicas)
BATON_LOCAL_MESSAGE(baton::actors::protocol::return_replicas)
BATON_LOCAL_MESSAGE(baton::actors::protocol::begin_replication)
BATON_LOCAL_MESSAGE(baton::actors::protocol::replicate_records)
BATON_LOCAL_MESSAGE(baton::actors::protocol::end_replication)
BATON_LOCAL_MESSAGE(baton::actors::protocol::appoint)
BATON_LOCAL_MESSAGE(baton::actors::protocol::superseded)
BATON_LOCAL_MESSAGE(baton::actors::protocol::appointed)
BATON_LOCAL_MESSAGE(baton::actors::engine_failed)
BATON_LOCAL_MESSAGE(baton::actors::import_order)
BATON_LOCAL_MESSAGE(baton::actors::import_done)
BATON_LOCAL_MESSAGE(baton::actors::export_order)
BATON_LOCAL_MESSAGE(baton::actors::export_policy)
BATON_LOCAL_MESSAGE(baton::actors::exported_rows)
BATON_LOCAL_MESSAGE(baton::actors::packed_slot)
BATON_LOCAL_MESSAGE(baton::actors::unpack_order)
BATON_LOCAL_MESSAGE(baton::actors::unpacked_rows)
BATON_LOCAL_MESSAGE(baton::actors::replica_orders)
BATON_LOCAL_MESSAGE(baton::actors::taken_replicas)
BATON_LOCAL_MESSAGE(baton::actors::fetch_rows)
BATON_LOCAL_MESSAGE(baton::actors::fetched_rows)
BATON_LOCAL_MESSAGE(baton::actors::archive_figures)
BATON_LOCAL_MESSAGE(baton::actors::link_target)
BATON_LOCAL_MESSAGE(baton::actors::inbound_frame)
BATON_LOCAL_MESSAGE(baton::actors::connection_lost)
BATON_LOCAL_MESSAGE(baton::actors::link_report)
BATON_LOCAL_MESSAGE(baton::actors::link_news)
BATON_LOCAL_MESSAGE(baton::actors::rows_held)
BATON_LOCAL_MESSAGE(baton::actors::link_figures)
BATON_LOCAL_MESSAGE(baton::actors::view_update)
BATON_LOCAL_MESSAGE(baton::actors::lease_state)
#undef BATON_LOCAL_MESSAGE
