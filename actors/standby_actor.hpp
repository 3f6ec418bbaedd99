#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// Keeps the replicas that this node holds for others ready to go on: every order that concerns replica rows
/// in the engine passes through here, so that imports, cuts and promotions reach it in one order. The replica
/// set itself lives in the data plane, which answers records on the transport's thread.
///
/// - `replica_orders`: imports to the gpu actor; cuts and drops to the engine; what concerns ownership
///   (`superseded`, `appointed`) to the primary.
/// - `unpacked_rows`: verified rows to the engine, unless the history was cut meanwhile.
/// - `import_done`: counted as synced, acknowledged.
/// - `take_replicas`: answered by `taken_replicas`; the group leaves the standby role.
/// - `return_replicas`: the group is back in it.
standby_actor spawn_standby_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
