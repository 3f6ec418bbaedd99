#pragma once

#include <functional>
#include <memory>

#include "actors/interfaces.hpp"
#include "actors/runtime.hpp"
#include "actors/stores/record_store.hpp"

namespace baton::actors {

/// Knows the members, calls the dead dead, and moves groups: carries out what its `cluster_table` decides on
/// the record store. On a thread of its own, so that no other actor keeps heartbeats waiting. Never on the
/// data path: while it is away, streams go on and only promotion waits.
///
/// | message | reply | effect |
/// |---|---|---|
/// | `node_registration`, handle | `heartbeat_ack` | the node is a member, its connection watched |
/// | `gateway_registration`, handle | `heartbeat_ack` | the gateway is told of every change |
/// | `heartbeat` | `heartbeat_ack` | the node's lease is renewed |
/// | `in_sync_change` | `in_sync_reply` | compare-and-swap |
/// | `hand_over` | `in_sync_reply` | compare-and-swap of the owner, for a planned move |
/// | drain, a node's name, on or off | whether it is alive | it is to own nothing, or may again |
/// | locate, a session's name | its group, 0 if unknown | the gateways are asked |
/// | move, a group, a node's name | whether that can be | the node is to own the group |
/// | `status` | JSON | for people |
/// | `tick` | | silence becomes suspicion |
struct orchestrator_handles {
  orchestrator_actor actor;
  caf::actor store;  ///< ends after it: only then has the store been given up
};
/// `replaced` is called, once, when another orchestrator has begun a term: this one then does nothing more.
result<orchestrator_handles> spawn_orchestrator_actor(caf::actor_system& system,
                                                      const orchestrator_options& how,
                                                      std::unique_ptr<stores::record_store> store,
                                                      std::function<void(const error& why)> replaced);

}  // namespace baton::actors
