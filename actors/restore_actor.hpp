#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// Reads rows back out of a node's archive, on a thread of its own. Over `archive::reader`.
///
/// | message | reply |
/// |---|---|
/// | `fetch_rows` | `fetched_rows`, always: verified rows in the engine's own format, or none |
restore_actor spawn_restore_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
