#include "actors/store_actor.hpp"

namespace baton::actors {

namespace {

struct store_state {
  std::unique_ptr<stores::record_store> store;
};

store_actor::behavior_type store_behavior(
    store_actor::stateful_pointer<store_state> self,
    const std::shared_ptr<std::unique_ptr<stores::record_store>>& store) {
  self->state.store = std::move(*store);
  return {[self](const protocol::swap_record& swap) { return stores::try_swap(*self->state.store, swap); }};
}

}  // namespace

store_actor spawn_store_actor(caf::actor_system& system, std::unique_ptr<stores::record_store> store) {
  return system.spawn<caf::detached>(
      store_behavior, std::make_shared<std::unique_ptr<stores::record_store>>(std::move(store)));
}

}  // namespace baton::actors
