#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// The receiving end of a node's link to its archive: verifies rows and writes them into the object store, on
/// a thread of its own, for a store may take seconds. Over `archive::writer`.
///
/// | message | effect |
/// |---|---|
/// | `replica_orders` | rows are taken, then acknowledged; what was cut is cut |
/// | `tick` | what is due is written |
///
/// Reports to the primary: `archive_figures`.
archive_actor spawn_archive_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
