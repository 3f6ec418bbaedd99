#include "actors/replicator_actor.hpp"

#include <optional>
#include <utility>

#include "actors/protocol/link_sender.hpp"
#include "schemas/codec.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 50ms;

spdlog::logger& log() {
  static const auto logger = log_of("replicator");
  return *logger;
}

struct replicator_state {
  std::shared_ptr<node_parts> node;
  std::string standby;
  std::unique_ptr<protocol::link_sender> sender;
  link_target target;
  std::optional<transports::connection_id> connection;
  bool welcomed = false;
  process_id peer;
  std::string carrier;
  steady::time_point retry_at{};
  std::string last_refusal;  // logged once, not at every attempt

  using pointer = replicator_actor::stateful_pointer<replicator_state>;

  void init(pointer self, std::shared_ptr<node_parts> parts, std::string name) {
    node = std::move(parts);
    standby = std::move(name);
    protocol::link_sender::options how;
    how.fingerprint = node->plane->how().fingerprint.hash();
    how.regions = node->plane->how().replicas.regions;
    how.bytes_per_token = node->plane->how().replicas.bytes_per_token;
    how.rows = node->plane->how().rows;
    how.prefill_chunk = node->engine->prefill_chunk();
    sender = std::make_unique<protocol::link_sender>(how);
    self->delayed_send(self, tick_period, tick_atom::value);
  }

  // --- the connection
  // -------------------------------------------------------------------------------------------------

  void connect(pointer self) {
    const auto to = caf::actor_cast<caf::actor_addr>(self);
    const auto deliver = [to](auto message) {
      if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(to))
        caf::anon_send(caf::actor_cast<replicator_actor>(strong), std::move(message));
    };
    auto connected = node->plane->connect(
        target.node, target.data_address,
        [deliver](transports::connection_id from, std::shared_ptr<const link_frame> frame) {
          deliver(inbound_frame{from, std::move(frame)});
        },
        [deliver](transports::connection_id from, const error& why) {
          deliver(connection_lost{from, why});
        });
    retry_at = steady::now() + 100ms;
    if (connected) connection = *connected;
  }

  void disconnect(pointer self) {
    if (!connection) return;
    node->transport->close(*connection);
    on_down(self);
  }

  void on_down(pointer self) {
    connection.reset();
    sender->on_disconnected();
    if (!welcomed) return;
    welcomed = false;
    log().info("link down standby={}", standby);
    self->send(node->primary, link_report{standby, peer, false, carrier});
  }

  void on_target(pointer self, const link_target& next) {
    if (next.node == target.node && next.data_address == target.data_address) return;
    disconnect(self);
    target = next;
    if (!target.data_address.empty()) connect(self);
  }

  void on_lost(pointer self, const connection_lost& lost) {
    if (!connection || *connection != lost.connection) return;
    log().debug("connection lost standby={} reason={}", standby, lost.reason.what);
    on_down(self);
  }

  void on_frame(pointer self, const inbound_frame& inbound) {
    if (!connection || *connection != inbound.connection) return;
    if (const auto* welcome = std::get_if<link_welcome>(inbound.frame.get())) {
      welcomed = true;
      peer = welcome->from;
      carrier = node->transport->carrier(*connection);
      last_refusal.clear();
      log().info("link up standby={} carrier={}", standby, carrier);
      self->send(node->primary, link_report{standby, peer, true, carrier});
      carry_out(self, sender->on_connected(steady::now(), welcome->rows));
    } else if (const auto* refusal = std::get_if<link_refusal>(inbound.frame.get())) {
      if (refusal->reason != last_refusal)
        log().error("link refused standby={} reason={}", standby, refusal->reason);
      last_refusal = refusal->reason;
      disconnect(self);
      retry_at = steady::now() + 1s;
    } else if (const auto* acks = std::get_if<acks_frame>(inbound.frame.get())) {
      for (const replica_ack& ack : acks->acks)
        carry_out(self, sender->on_ack(ack, steady::now()));
    }
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    if (!connection && !target.data_address.empty() && steady::now() >= retry_at) connect(self);
    if (welcomed) carry_out(self, sender->on_tick(steady::now()));
    self->send(node->primary, link_figures{standby, carrier, welcomed, sender->counted()});
  }

  // --- what the sender decides
  // ------------------------------------------------------------------------------------------

  void carry_out(pointer self, protocol::link_effects effects, const gpu::staging_slot* slot = nullptr) {
    for (protocol::link_effect& effect : effects) {
      if (auto* frame = std::get_if<protocol::send_frame>(&effect)) {
        send(self, node->transport->send_message(*connection, encode(frame->frame)));
      } else if (auto* rows = std::get_if<protocol::send_rows>(&effect)) {
        send_rows(self, *rows, *slot);
      } else if (std::holds_alternative<protocol::link_stalled>(effect)) {
        log().warn("link stalled standby={}", standby);
        disconnect(self);
        return;
      } else {
        self->send(node->primary, link_news{standby, std::move(effect)});
      }
      if (!connection) return;  // a failed send has taken the link down
    }
  }

  void send(pointer self, const result<void>& sent) {
    if (sent) return;
    log().warn("link send failed standby={} reason={}", standby, sent.failure().what);
    disconnect(self);
  }

  void send_rows(pointer self, const protocol::send_rows& rows, const gpu::staging_slot& slot) {
    const memory_region whole = slot.region();
    const memory_region part{whole.address, rows.rows.bytes, whole.kind};
    // The completion holds the slot: memory in flight is never reused (design rule 11).
    send(self,
         node->transport->send_rows(*connection, encode(rows.rows), part, [slot](const result<void>&) {}));
  }

  void on_packed(pointer self, const packed_slot& packed) {
    bool sent = false;
    carry_out(self, sender->on_packed(packed.rows, sent, steady::now()), &packed.slot);
  }

  void on_begin(pointer self, const protocol::begin_replication& order) {
    carry_out(self, sender->on_session(order.group, order.epoch, order.log, order.rows, steady::now()));
  }
};

replicator_actor::behavior_type replicator_behavior(replicator_actor::stateful_pointer<replicator_state> self,
                                                    std::shared_ptr<node_parts> node, std::string standby) {
  self->state.init(self, std::move(node), std::move(standby));
  auto& state = self->state;
  return {
      [self, &state](const link_target& target) { state.on_target(self, target); },
      [self, &state](const protocol::begin_replication& order) { state.on_begin(self, order); },
      [self, &state](const protocol::replicate_records& order) {
        state.carry_out(self, state.sender->on_records(order.step, steady::now()));
      },
      [self, &state](const protocol::end_replication& order) {
        state.carry_out(self, state.sender->on_session_ended(order.session, order.drop));
      },
      [&state](const rows_held& held) { state.sender->on_rows_held(held.session, held.rows); },
      [self, &state](const packed_slot& packed) { state.on_packed(self, packed); },
      [self, &state](const inbound_frame& frame) { state.on_frame(self, frame); },
      [self, &state](const connection_lost& lost) { state.on_lost(self, lost); },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

replicator_actor spawn_replicator_actor(caf::actor_system& system, std::shared_ptr<node_parts> node,
                                        std::string standby) {
  return system.spawn(replicator_behavior, std::move(node), std::move(standby));
}

}  // namespace baton::actors
