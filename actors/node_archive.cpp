#include "actors/node_archive.hpp"

#include <utility>

#include "actors/archive_actor.hpp"
#include "actors/replicator_actor.hpp"
#include "actors/restore_actor.hpp"
#include "gpu/host_device.hpp"
#include "transports/inproc_transport.hpp"

namespace baton::actors {

namespace {

constexpr const char* address = "inproc:archive";

}  // namespace

result<std::unique_ptr<archive_parts>> make_archive(const std::shared_ptr<node_parts>& parts,
                                                    const node_options& how) {
  auto made = std::make_unique<archive_parts>();
  auto store = transports::stores::open_object_store(how.archive);
  if (!store) return {store.code(), "archive: " + store.failure().what};
  made->store = std::move(*store);
  made->object_tokens = std::max(1U, how.archive_every_tokens);

  // All that a window may have under way lands in memory of its own.
  data_plane::options plane = parts->plane->how();
  const std::size_t delta_bytes = limits::delta_tokens * plane.replicas.bytes_per_token;
  made->device = gpu::make_host_device({std::max<std::size_t>(delta_bytes, 64), limits::link_window_deltas});
  made->places = std::make_shared<protocol::engine_places>(limits::node_sessions, 1);
  plane.replicas.places = made->places;
  plane.replicas.sessions = limits::node_sessions;
  const std::weak_ptr<node_parts> node = parts;
  made->plane = std::make_unique<data_plane>(
      std::move(plane), *made->device, [node](protocol::replica_effects effects, gpu::staging_slot slot) {
        if (const auto alive = node.lock(); alive && alive->archive)
          caf::anon_send(alive->archive->writer, replica_orders{std::move(effects), std::move(slot)});
      });
  made->transport = std::make_unique<transports::inproc_transport>(
      std::make_shared<transports::inproc_network>(), *made->plane);
  made->plane->attach(*made->transport);
  if (auto listening = made->transport->listen(address); !listening) return listening.failure();
  return made;
}

void spawn_archive(caf::actor_system& system, const std::shared_ptr<node_parts>& parts) {
  archive_parts& archive = *parts->archive;
  archive.writer = spawn_archive_actor(system, parts);
  archive.restorer = spawn_restore_actor(system, parts);
  archive.replicator = spawn_archive_replicator_actor(system, parts);
  caf::anon_send(archive.replicator, link_target{parts->self, address});
}

}  // namespace baton::actors
