#pragma once

#include <memory>

#include "actors/engines/engine.hpp"
#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// Owns the copies of a device: packs what the engine exports into staging memory, verifies and unpacks what
/// has landed. Off the decode path: the engine never waits for it. When the staging ring is exhausted it
/// drops exported rows; the links ask for them again when there is room.
///
/// | message | effect |
/// |---|---|
/// | `exported_rows` | packs, then `packed_slot` to the primary |
/// | `unpack_order` | verifies, unpacks, then `unpacked_rows` to the standby |
gpu_actor spawn_gpu_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
