#include "apps/sim/orchestrator.hpp"

#include <utility>

#include "apps/sim/gateway.hpp"
#include "apps/sim/node.hpp"

namespace baton::apps::sim {

using namespace actors;

namespace {

constexpr nanoseconds tick_period = 10ms;
constexpr nanoseconds store_patience = 1s;

}  // namespace

bool orchestrator::start() {
  const auto begun = store_.begin_term();
  auto records = store_.load();
  if (!begun || !records) return false;
  term_ = begun->term;
  protocol::cluster_table::options options;
  options.term = term_;
  options.store = begun->store;
  options.suspect_after = in_.how.suspect_after;
  options.lease = in_.how.lease;
  options.tick_period = std::chrono::duration_cast<std::chrono::milliseconds>(tick_period);
  table_ = std::make_unique<protocol::cluster_table>(options, std::move(*records), host_->now());
  host_->every(tick_period, [this] { on_tick(); });
  return true;
}

void orchestrator::carry_out(protocol::cluster_effects effects) {
  for (protocol::cluster_effect& effect : effects) {
    if (auto* swap = std::get_if<protocol::swap_record>(&effect)) {
      swaps_.push_back(std::move(*swap));
      if (swaps_.size() == 1) next_swap();
    } else if (auto* reply = std::get_if<protocol::reply_change>(&effect)) {
      if (auto found = changes_.extract(reply->to); !found.empty() && reply->reply)
        found.mapped()(*reply->reply);
    } else {
      view_changed_ = true;
    }
  }
}

/// As the store's actor does it: one after the other. What takes too long is given up, and may be written
/// yet, also when this process is no more.
void orchestrator::next_swap() {
  const auto [there, back] = store_.next_ways();
  const auto answered = std::make_shared<bool>(false);
  const auto answer = [self = shared_from_this(), answered](const stores::swap_outcome& outcome) {
    if (std::exchange(*answered, true)) return;
    self->host_->run([self, outcome] {
      self->swaps_.pop_front();
      if (!self->swaps_.empty()) self->next_swap();
      self->run(self->table_->on_swapped(outcome.done, outcome.record, self->host_->now()));
    });
  };
  stores::swap_outcome unknown;
  unknown.record.group = swaps_.front().desired.group;
  in_.time.after(store_patience, [answer, unknown] { answer(unknown); });
  in_.time.after(there, [self = shared_from_this(), back = back, answer, swap = swaps_.front()] {
    self->in_.time.after(back, [answer, outcome = stores::try_swap(self->store_, swap)] { answer(outcome); });
  });
}

void orchestrator::publish() {
  if (!std::exchange(view_changed_, false)) return;
  const cluster_view view = table_->view();
  for (const auto& [who, to] : nodes_)
    tell(in_, to, view, &node::on_view);
  for (const auto& [who, to] : gateways_)
    tell(in_, to, view, &gateway::on_view);
}

void orchestrator::run(protocol::cluster_effects effects) {
  carry_out(std::move(effects));
  publish();
}

void orchestrator::on_node(const node_registration& what, const wire_ptr& wire,
                           const std::function<void(const heartbeat_ack&)>& reply) {
  if (table_->replaced(what.node)) return reply({0, term_, false});
  if (table_->foreign(what.obeyed)) return reply({0, term_, false, true});
  nodes_[what.node] = {in_.process_at<node>(what.control_address), wire, 1};
  wire->on_lost(1, [this, who = what.node, wire] { lost(who, wire); });
  view_changed_ = true;
  run(table_->on_node(what, host_->now()));
  reply({0, term_, true});
}

void orchestrator::on_gateway(const gateway_registration& what, const wire_ptr& wire,
                              const std::function<void(const heartbeat_ack&)>& reply) {
  if (table_->foreign(what.obeyed)) return reply({0, term_, false, true});
  gateways_[what.gateway] = {in_.process_at<gateway>(control_address(what.gateway.name)), wire, 1};
  wire->on_lost(1, [this, who = what.gateway, wire] { lost(who, wire); });
  view_changed_ = true;
  run(table_->on_gateway(what, host_->now()));
  reply({0, term_, true});
}

void orchestrator::on_heartbeat(const heartbeat& beat, const wire_ptr&,
                                const std::function<void(const heartbeat_ack&)>& reply) {
  protocol::cluster_effects effects;
  const heartbeat_ack ack = table_->on_heartbeat(beat, host_->now(), effects);
  run(std::move(effects));
  reply(ack);
}

void orchestrator::on_change(const in_sync_change& change, const wire_ptr&,
                             const std::function<void(const in_sync_reply&)>& reply) {
  const protocol::change_ticket ticket = next_ticket_++;
  changes_.emplace(ticket, reply);
  run(table_->on_change(ticket, change, host_->now()));
}

void orchestrator::on_hand_over(const hand_over& change, const wire_ptr&,
                                const std::function<void(const in_sync_reply&)>& reply) {
  const protocol::change_ticket ticket = next_ticket_++;
  changes_.emplace(ticket, reply);
  run(table_->on_hand_over(ticket, change, host_->now()));
}

void orchestrator::lost(const process_id& who, const wire_ptr& wire) {
  const auto by_wire = [&](auto& members) {
    const auto found = members.find(who);
    if (found == members.end() || found->second.wire != wire) return false;
    members.erase(found);
    return true;
  };
  if (by_wire(nodes_) || by_wire(gateways_)) run(table_->on_lost(who, "connection closed", host_->now()));
}

void orchestrator::on_tick() {
  run(table_->on_tick(host_->now()));
}

}  // namespace baton::apps::sim
