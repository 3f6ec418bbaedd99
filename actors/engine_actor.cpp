#include "actors/engine_actor.hpp"

#include <utility>

#include "actors/engine_loop.hpp"

namespace baton::actors {

namespace {

struct engine_state {
  std::shared_ptr<node_parts> node;
  std::unique_ptr<engine_loop> loop;
  bool scheduled = false;

  using pointer = engine_actor::stateful_pointer<engine_state>;

  void init(pointer self, std::shared_ptr<node_parts> parts) {
    node = std::move(parts);
    engine_loop::outlets out;
    out.step = [this, self](protocol::engine_step step) { self->send(node->primary, std::move(step)); };
    out.failed = [this, self](engine_failed failure) { self->send(node->primary, std::move(failure)); };
    out.imported = [this, self](import_done done) {
      if (done.restored)
        self->send(node->primary, std::move(done));
      else
        self->send(node->standby, std::move(done));
    };
    out.exported = [this, self](exported_rows rows) { self->send(node->gpu, std::move(rows)); };
    out.broken = [this](const error& why) { node->break_down(why); };
    loop = std::make_unique<engine_loop>(*node->engine, std::move(out));
  }

  /// Every order ends here: progress is shown, and the loop is kept turning while there is work.
  void settled(pointer self) {
    node->progress.fetch_add(1, std::memory_order_relaxed);
    const bool work = loop->has_work();
    node->busy.store(work, std::memory_order_relaxed);
    if (!work || scheduled) return;
    scheduled = true;
    self->send(self, step_atom::value);
  }
};

engine_actor::behavior_type engine_behavior(engine_actor::stateful_pointer<engine_state> self,
                                            std::shared_ptr<node_parts> node) {
  self->state.init(self, std::move(node));
  auto& state = self->state;
  return {
      [self, &state](const protocol::run_engine& order) { state.loop->run(order), state.settled(self); },
      [self, &state](const protocol::allow_engine& order) { state.loop->allow(order), state.settled(self); },
      [self, &state](const protocol::stop_engine& order) {
        state.loop->stop(order.session, order.run), state.settled(self);
      },
      [self, &state](const protocol::pause_engine& order) {
        state.loop->pause(order.session, order.run), state.settled(self);
      },
      [self, &state](const protocol::cut_engine& order) { state.loop->cut(order), state.settled(self); },
      [self, &state](const protocol::drop_engine& order) {
        state.loop->drop(order.session), state.settled(self);
      },
      [self, &state](const import_order& order) { state.loop->import(order), state.settled(self); },
      [self, &state](const export_order& order) { state.loop->export_range(order), state.settled(self); },
      [self, &state](const export_policy& policy) {
        state.loop->set_policy(policy);
        self->send(state.node->primary, policy);  // behind the steps of before
      },
      [self, &state](step_atom) {
        state.scheduled = false;
        state.loop->step();
        state.settled(self);
      }};
}

}  // namespace

engine_actor spawn_engine_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  return system.spawn<caf::detached>(engine_behavior, std::move(node));
}

}  // namespace baton::actors
