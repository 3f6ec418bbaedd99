#pragma once

#include <memory>
#include <string>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// One link, from this node to one standby: brings its `link_driver` what it needs, and what that reports to
/// the primary.
///
/// | message | effect |
/// |---|---|
/// | `link_target` | where the standby is now; an empty address closes |
/// | `begin_replication`, `replicate_records`, `end_replication` | what the primary does to its sessions |
/// | `appoint` | the last word to the new owner of a group |
/// | `rows_held`, `packed_slot` | rows that the engine has, and rows ready to send |
/// | `inbound_frame`, `connection_lost` | from the data plane |
/// | `tick` | deadlines, reconnects |
///
/// Reports to the primary: `link_report` when up or down, `link_news` for progress, fencing and wants,
/// `link_figures`.
replicator_actor spawn_replicator_actor(caf::actor_system& system, std::shared_ptr<node_parts> node,
                                        std::string standby);

/// The link to this node's own archive: the same, but that it reports only that it stands, and wants.
replicator_actor spawn_archive_replicator_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
