#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// Runs sessions and owns groups: carries out what its `primary_table` decides, and knows the gateways.
///
/// | message | reply | effect |
/// |---|---|---|
/// | `gateway_hello`, handle | true | the gateway is known and watched |
/// | `open_turn` | `open_turn_reply` | the turn runs |
/// | `end_turn` | | the turn ends, the log keeps its released part |
/// | `engine_step`, `engine_failed` | | shipped, committed, released |
/// | `packed_slot` | | to every link |
/// | `import_done` | | rows out of the archive are in the engine: the next ones, or the turn runs |
/// | `link_report`, `link_news`, `link_figures`, `archive_figures` | | in-sync set, commit |
/// | `view_update`, `superseded`, `appointed` | | ownership |
/// | `lease_state`, `tick` | | what the lease held back |
/// | `status` | JSON | sessions and links as this node sees them |
primary_core_actor spawn_primary_actor(caf::actor_system& system, std::shared_ptr<node_parts> node,
                                       protocol::primary_table::options options);

}  // namespace baton::actors
