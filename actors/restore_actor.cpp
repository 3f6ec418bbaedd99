#include "actors/restore_actor.hpp"

#include <map>
#include <utility>

#include "actors/archive/reader.hpp"
#include "schemas/hash.hpp"

namespace baton::actors {

namespace {

/// Restores under way whose manifests are remembered; those of others are read again.
constexpr std::size_t most_remembered = 64;

struct restore_state {
  std::shared_ptr<node_parts> node;
  struct under_way {
    std::uint64_t generation = 0;
    archive::reader reader;
  };
  std::map<session_id, under_way> restores;

  archive::reader& reader_of(const fetch_rows& order) {
    const auto found = restores.find(order.session);
    if (found != restores.end() && found->second.generation == order.generation) return found->second.reader;
    if (restores.size() >= most_remembered) restores.clear();
    const auto& replicas = node->archive->plane->how().replicas;
    const archive::row_format format{replicas.fingerprint, replicas.bytes_per_token, replicas.prefill_chunk};
    restores.erase(order.session);
    under_way fresh{order.generation, archive::reader{*node->archive->store, order.from, *order.log, format}};
    return restores.emplace(order.session, std::move(fresh)).first->second.reader;
  }

  fetched_rows fetch(const fetch_rows& order) {
    fetched_rows out{order.session, order.generation, order.first, nullptr};
    archive::bytes rows = reader_of(order).read(order.first);
    if (!rows.empty()) out.image = image_of(order.first, rows);
    if (out.image == nullptr) restores.erase(order.session);
    return out;
  }

  /// nullptr if the engine has no room for them.
  [[nodiscard]] std::shared_ptr<gpu::kv_image> image_of(position first, archive::bytes& rows) const {
    const gpu::kv_layout& layout = node->engine->layout();
    const auto count = static_cast<std::uint32_t>(rows.size() / layout.bytes_per_token());
    auto image = std::make_shared<gpu::kv_image>();
    const memory_region region{rows.data(), rows.size()};
    if (!node->engine->prepare_image(first, count, *image) ||
        !node->device->unpack(layout, region, count, hash_bytes(rows), *image))
      return nullptr;
    return image;
  }
};

restore_actor::behavior_type restore_behavior(restore_actor::stateful_pointer<restore_state> self,
                                              std::shared_ptr<node_parts> node) {
  self->state.node = std::move(node);
  return {[self](const fetch_rows& order) { return self->state.fetch(order); }};
}

}  // namespace

restore_actor spawn_restore_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  return system.spawn<caf::detached>(restore_behavior, std::move(node));
}

}  // namespace baton::actors
