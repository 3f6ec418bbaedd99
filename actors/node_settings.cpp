#include "actors/node_settings.hpp"

#include <utility>

namespace baton::actors {

data_plane::options plane_settings(const process_id& self, const engines::engine& engine, bool rows,
                                   std::shared_ptr<protocol::engine_places> places) {
  data_plane::options plane;
  plane.self = self;
  plane.fingerprint = engine.identity();
  plane.rows = rows;
  plane.replicas.fingerprint = engine.identity().hash();
  plane.replicas.regions = static_cast<std::uint32_t>(engine.layout().row_bytes.size());
  plane.replicas.bytes_per_token = engine.layout().bytes_per_token();
  plane.replicas.context_tokens = engine.context_tokens();
  plane.replicas.prefill_chunk = engine.prefill_chunk();
  plane.replicas.sessions = places->replica_share();
  plane.replicas.places = std::move(places);
  return plane;
}

protocol::link_sender::options link_settings(const data_plane::options& plane) {
  protocol::link_sender::options link;
  link.fingerprint = plane.replicas.fingerprint;
  link.regions = plane.replicas.regions;
  link.bytes_per_token = plane.replicas.bytes_per_token;
  link.prefill_chunk = plane.replicas.prefill_chunk;
  link.rows = plane.rows;
  return link;
}

protocol::primary_table::options table_settings(const process_id& self, const engines::engine& engine,
                                                std::shared_ptr<protocol::engine_places> places,
                                                const replication_settings& how) {
  protocol::primary_table::options table;
  table.self = self;
  table.fingerprint = engine.identity().hash();
  table.prefill_chunk = engine.prefill_chunk();
  table.context_tokens = engine.context_tokens();
  table.exact = engine.max_batch() == 1;
  table.sessions = places->own_share();
  table.places = std::move(places);
  table.commit = how.commit;
  table.wait_for_standbys = how.wait_for_standbys;
  table.replicas = how.replicas;
  table.replace_after = how.replace_after;
  table.rows_move = how.rows;
  table.archive = how.archive;
  return table;
}

}  // namespace baton::actors
