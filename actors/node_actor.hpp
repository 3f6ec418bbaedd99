#pragma once

#include <memory>
#include <string>

#include "actors/dialer.hpp"
#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"
#include "actors/runtime.hpp"

namespace baton::actors {

/// Supervises one node: registers it with the orchestrator, sends heartbeats, keeps its lease, hands cluster
/// views to the primary and link targets to the replicators. Dials the orchestrator again whenever it is
/// away; serving goes on meanwhile.
///
/// | message | effect |
/// |---|---|
/// | `cluster_view` | to the primary and the replicators |
/// | `tick` | a heartbeat, or another attempt to reach the orchestrator |
caf::actor spawn_node_actor(caf::actor_system& system, std::shared_ptr<node_parts> node, node_options how,
                            std::string control_address, std::string data_address, directory_ptr local);

}  // namespace baton::actors
