#include "actors/standby_actor.hpp"

#include <utility>

#include "schemas/log.hpp"

namespace baton::actors {

namespace {

struct standby_state {
  std::shared_ptr<node_parts> node;

  using pointer = standby_actor::stateful_pointer<standby_state>;

  void carry_out(pointer self, const protocol::replica_effects& effects, const gpu::staging_slot& slot) {
    for (const protocol::replica_effect& effect : effects) {
      if (const auto* rows = std::get_if<protocol::import_rows>(&effect))
        self->send(node->gpu, unpack_order{*rows, slot});
      else if (const auto* cut = std::get_if<protocol::cut_rows>(&effect))
        self->send(node->engine_loop, protocol::cut_engine{cut->session, cut->length});
      else if (const auto* drop = std::get_if<protocol::drop_rows>(&effect))
        this->drop(self, *drop);
      else if (const auto* higher = std::get_if<protocol::superseded>(&effect))
        self->send(node->primary, *higher);
      else if (const auto* ours = std::get_if<protocol::appointed>(&effect))
        self->send(node->primary, *ours);
    }
  }

  void drop(pointer self, const protocol::drop_rows& order) {
    self->send(node->engine_loop, protocol::drop_engine{order.session});
    if (order.place_unused) node->places->give_back();
  }

  void on_unpacked(pointer self, const unpacked_rows& rows) {
    const protocol::import_rows& what = rows.rows;
    bool wanted = false;
    auto effects =
        node->plane->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
          wanted = replicas.current(what.session, what.generation);
          if (wanted && !rows.outcome)
            return replicas.on_imported(what.session, what.generation, what.first + what.count, rows.outcome);
          return {};
        });
    if (!rows.outcome)
      log_of("standby")->warn("rows refused reason={}", rows.outcome.failure().what);
    else if (wanted)
      self->send(node->engine_loop, import_order{what.session, what.generation, what.first, rows.image});
    carry_out(self, effects, {});
  }

  void on_imported(pointer self, const import_done& done) {
    if (!done.outcome) log_of("standby")->warn("import failed reason={}", done.outcome.failure().what);
    carry_out(self, node->plane->with_replicas([&](protocol::replica_set& replicas) {
      return replicas.on_imported(done.session, done.generation, done.end, done.outcome);
    }),
              {});
  }

  taken_replicas take(const protocol::take_replicas& order) {
    taken_replicas out{order.group, order.epoch, false, {}};
    node->plane->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
      if (auto taken = replicas.promote(order.group, order.epoch)) {
        out.taken = true;
        out.sessions = std::move(*taken);
      }
      return {};
    });
    return out;
  }

  void take_back(pointer self, const protocol::return_replicas& order) {
    carry_out(self, node->plane->with_replicas([&](protocol::replica_set& replicas) {
      return replicas.take_back(order.group, order.sessions);
    }),
              {});
  }
};

standby_actor::behavior_type standby_behavior(standby_actor::stateful_pointer<standby_state> self,
                                              std::shared_ptr<node_parts> node) {
  self->state.node = std::move(node);
  auto& state = self->state;
  return {
      [self, &state](const replica_orders& orders) { state.carry_out(self, orders.effects, orders.slot); },
      [self, &state](const unpacked_rows& rows) { state.on_unpacked(self, rows); },
      [self, &state](const import_done& done) { state.on_imported(self, done); },
      [&state](const protocol::take_replicas& order) { return state.take(order); },
      [self, &state](const protocol::return_replicas& order) { state.take_back(self, order); }};
}

}  // namespace

standby_actor spawn_standby_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  return system.spawn(standby_behavior, std::move(node));
}

}  // namespace baton::actors
