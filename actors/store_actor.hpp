#pragma once

#include <memory>
#include <utility>

#include <caf/all.hpp>

#include "actors/protocol/cluster_table.hpp"
#include "actors/stores/record_store.hpp"

namespace baton::actors {

/// Owns the record store, on a thread of its own: a disk or a network may take seconds, and the orchestrator
/// has heartbeats to answer meanwhile. One request after the other, in order.
///
/// | message | reply |
/// |---|---|
/// | `swap_record` | `swap_outcome`, always |
using store_actor = caf::typed_actor<caf::replies_to<protocol::swap_record>::with<stores::swap_outcome>>;

store_actor spawn_store_actor(caf::actor_system& system, std::unique_ptr<stores::record_store> store);

}  // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::protocol::swap_record)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::stores::swap_outcome)
