#pragma once

#include <memory>

#include "actors/data_plane.hpp"
#include "actors/engines/engine.hpp"
#include "actors/protocol/engine_places.hpp"
#include "actors/protocol/link_sender.hpp"
#include "actors/protocol/primary_table.hpp"

/// What the objects of a node are told of its engine: the same for its actors and for a simulation.
namespace baton::actors {

/// `rows`: whether this engine's rows can be moved. `places`: of the engine, the same as of its table.
[[nodiscard]] data_plane::options plane_settings(const process_id& self, const engines::engine& engine,
                                                 bool rows, std::shared_ptr<protocol::engine_places> places);

/// Of a link that leaves the node of this data plane.
[[nodiscard]] protocol::link_sender::options link_settings(const data_plane::options& plane);

/// What a deployment says of replication; see `primary_table::options`.
struct replication_settings {
  protocol::commit_rule commit;
  bool wait_for_standbys = true;  ///< links are configured
  std::size_t replicas = 0;
  std::chrono::milliseconds replace_after = limits::lease;
  bool rows = true;      ///< this engine's rows can be moved
  bool archive = false;  ///< the node has one
};

[[nodiscard]] protocol::primary_table::options table_settings(const process_id& self,
                                                              const engines::engine& engine,
                                                              std::shared_ptr<protocol::engine_places> places,
                                                              const replication_settings& how);

}  // namespace baton::actors
