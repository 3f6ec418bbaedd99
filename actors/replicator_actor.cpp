#include "actors/replicator_actor.hpp"

#include <memory>
#include <utility>

#include "actors/link_driver.hpp"
#include "actors/node_settings.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 50ms;

/// An archive acknowledges rows when it has taken them, which may be once its store has answered.
constexpr auto archive_deadline = 30s;

struct replicator_state {
  std::shared_ptr<node_parts> node;
  data_plane* plane = nullptr;
  bool archive = false;
  std::unique_ptr<link_driver> link;

  using pointer = replicator_actor::stateful_pointer<replicator_state>;

  void init(pointer self, std::shared_ptr<node_parts> parts, std::string to, bool to_archive) {
    node = std::move(parts);
    archive = to_archive;
    plane = archive ? node->archive->plane.get() : node->plane.get();
    auto options = link_settings(plane->how());
    if (archive) options.deadline = archive_deadline;
    link = std::make_unique<link_driver>(plane->transport(), options, std::move(to), outlets(self));
    self->delayed_send(self, tick_period, tick_atom::value);
  }

  [[nodiscard]] link_driver::outlets outlets(pointer self) {
    link_driver::outlets out;
    out.connect = [this, self](const process_id& standby, const std::string& address) {
      return connect(self, standby, address);
    };
    out.report = [this, self](link_report report) {
      report.archive = archive;
      self->send(node->primary, std::move(report));
    };
    out.news = [this, self](link_news news) {
      // What an archive holds, or does not, makes no difference to what is released.
      if (!archive || std::holds_alternative<protocol::want_rows>(news.what))
        self->send(node->primary, std::move(news));
    };
    return out;
  }

  /// What arrives comes from the transport's thread, as a message.
  result<transports::connection_id> connect(pointer self, const process_id& standby,
                                            const std::string& address) {
    const auto to = caf::actor_cast<caf::actor_addr>(self);
    const auto deliver = [to](auto message) {
      if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(to))
        caf::anon_send(caf::actor_cast<replicator_actor>(strong), std::move(message));
    };
    return plane->connect(
        standby, address,
        [deliver](transports::connection_id from, std::shared_ptr<const link_frame> frame) {
          deliver(inbound_frame{from, std::move(frame)});
        },
        [deliver](transports::connection_id from, const error& why) {
          deliver(connection_lost{from, why});
        });
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    link->on_tick(steady::now());
    link_figures figures = link->figures();
    figures.archive = archive;
    self->send(node->primary, std::move(figures));
  }
};

replicator_actor::behavior_type replicator_behavior(replicator_actor::stateful_pointer<replicator_state> self,
                                                    std::shared_ptr<node_parts> node, std::string to,
                                                    bool to_archive) {
  self->state.init(self, std::move(node), std::move(to), to_archive);
  auto& state = self->state;
  return {
      [&state](const link_target& target) { state.link->on_target(target, steady::now()); },
      [&state](const protocol::begin_replication& order) { state.link->on_begin(order, steady::now()); },
      [&state](const protocol::replicate_records& order) { state.link->on_records(order, steady::now()); },
      [&state](const protocol::end_replication& order) { state.link->on_end(order); },
      [&state](const protocol::appoint& order) { state.link->on_appoint(order); },
      [&state](const rows_held& held) { state.link->on_rows_held(held); },
      [&state](const packed_slot& packed) { state.link->on_packed(packed, steady::now()); },
      [&state](const inbound_frame& frame) { state.link->on_frame(frame, steady::now()); },
      [&state](const connection_lost& lost) { state.link->on_lost(lost); },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

replicator_actor spawn_replicator_actor(caf::actor_system& system, std::shared_ptr<node_parts> node,
                                        std::string standby) {
  return system.spawn(replicator_behavior, std::move(node), std::move(standby), false);
}

replicator_actor spawn_archive_replicator_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  std::string where = node->archive->store->where();
  return system.spawn(replicator_behavior, std::move(node), std::move(where), true);
}

}  // namespace baton::actors
