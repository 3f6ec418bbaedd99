#include "actors/gpu_actor.hpp"

#include <utility>

#include "schemas/log.hpp"

namespace baton::actors {

namespace {

struct gpu_state {
  std::shared_ptr<node_parts> node;

  void pack(gpu_actor::stateful_pointer<gpu_state> self, const exported_rows& rows) {
    const gpu::kv_layout& layout = node->engine->layout();
    const std::size_t bytes = rows.image->count * layout.bytes_per_token();
    packed_slot packed;
    packed.rows = {rows.session, rows.first, rows.image->count, bytes, 0, 0, rows.generation};
    if (auto slot = node->device->staging().acquire(bytes)) {
      const auto checksum = node->device->pack(layout, *rows.image, slot->region());
      BATON_ASSERT(checksum.ok());  // our own engine's image fits its own layout
      packed.rows.checksum = *checksum;
      packed.slot = std::move(*slot);
    }
    self->send(node->primary, std::move(packed));
  }

  void unpack(gpu_actor::stateful_pointer<gpu_state> self, const unpack_order& order) {
    unpacked_rows out{order.rows, std::make_shared<gpu::kv_image>(), {}};
    out.outcome = node->engine->prepare_image(order.rows.first, order.rows.count, *out.image);
    if (out.outcome)
      out.outcome = node->device->unpack(node->engine->layout(), order.slot.region(), order.rows.count,
                                         order.rows.checksum, *out.image);
    self->send(node->standby, std::move(out));
  }
};

gpu_actor::behavior_type gpu_behavior(gpu_actor::stateful_pointer<gpu_state> self,
                                      std::shared_ptr<node_parts> node) {
  self->state.node = std::move(node);
  return {[self](const exported_rows& rows) { self->state.pack(self, rows); },
          [self](const unpack_order& order) { self->state.unpack(self, order); }};
}

}  // namespace

gpu_actor spawn_gpu_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  return system.spawn(gpu_behavior, std::move(node));
}

}  // namespace baton::actors
