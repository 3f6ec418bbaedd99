#include "apps/sim/gateway.hpp"

#include <algorithm>
#include <utility>

#include "apps/sim/node.hpp"
#include "apps/sim/orchestrator.hpp"

namespace baton::apps::sim {

using namespace actors;

namespace {

constexpr nanoseconds tick_period = 20ms;
constexpr nanoseconds redial_after = 100ms;

}  // namespace

gateway::gateway(world& in, std::shared_ptr<host> on, observer released)
    : in_(in),
      host_(std::move(on)),
      core_({host_->self(), in.how.lease, in.random.number()}, in.text),
      released_(std::move(released)) {}

void gateway::start() {
  host_->every(tick_period, [this] { on_tick(); });
  reach_orchestrator();
}

turn_handle gateway::submit(const completion_request& request, completion_service::receiver events) {
  const turn_handle handle{next_handle_++};
  carry_out(core_.on_submit(handle, request, std::move(events), host_->now()));
  return handle;
}

void gateway::cancel(turn_handle which) {
  carry_out(core_.on_cancel(which, host_->now()));
}

void gateway::carry_out(gateway_effects effects) {
  for (gateway_effect& effect : effects) {
    if (auto* question = std::get_if<ask_owner>(&effect)) {
      const auto to = nodes_.find(question->owner);
      remote<node> nobody;
      ask<open_turn_reply>(*host_, to == nodes_.end() ? nobody : to->second.line, question->request,
                           &node::on_open,
                           [this, ticket = question->ticket](const result<open_turn_reply>& reply) {
                             carry_out(core_.on_open_reply(ticket, reply, host_->now()));
                           });
    } else if (const auto* news = std::get_if<tell_owner>(&effect)) {
      if (const auto to = nodes_.find(news->owner); to != nodes_.end())
        tell(in_, to->second.line, news->what, &node::on_end);
    } else if (std::holds_alternative<report_unreachable>(effect)) {
      if (orchestrator_) register_here();
    } else if (const auto* diverged = std::get_if<note_diverged>(&effect)) {
      in_.blame("INV1: an owner contradicts what was released, session " +
                std::to_string(raw(diverged->session)));
    }
  }
}

void gateway::on_seal(const seal& order, const wire_ptr&,
                      const std::function<void(const seal_reply&)>& reply) {
  reply(core_.on_seal(order, host_->now()));
}

void gateway::on_tokens(const turn_tokens& tokens, const wire_ptr& wire) {
  process_id from;
  for (const auto& [who, it] : nodes_)
    if (const auto at = it.line.process.lock(); at && it.line.wire == wire) from = at->on().self();
  turn_tokens said = tokens;
  if (in_.without == left_out::gateway_epochs) said.epoch = std::max(said.epoch, core_.sealed(said.group));
  auto effects = core_.on_tokens(said, host_->now());
  released_(tokens, from);
  carry_out(std::move(effects));
}

void gateway::on_failure(const turn_failure& failure, const wire_ptr&) {
  carry_out(core_.on_failure(failure, host_->now()));
}

void gateway::on_view(const cluster_view& view, const wire_ptr&) {
  obey(obeyed_, view);
  core_.on_view(view, host_->now());
  std::erase_if(nodes_, [this](const auto& it) {
    const auto& nodes = core_.view().nodes;
    return !it.second.dialing && std::none_of(nodes.begin(), nodes.end(),
                                              [&](const node_view& known) { return known.node == it.first; });
  });
  reach_nodes();
}

void gateway::reach_orchestrator() {
  if (dialing_ || orchestrator_ || host_->now() < redial_at_) return;
  dialing_ = true;
  dial<orchestrator>(
      in_, host_, control_address("orchestrator"),
      [this](remote<orchestrator> found) {
        dialing_ = false;
        orchestrator_ = std::move(found);
        orchestrator_.wire->on_lost(0, [this] {
          orchestrator_.lost();
          lose_orchestrator();
        });
        register_here();
      },
      [this] {
        dialing_ = false;
        lose_orchestrator();
      });
}

void gateway::lose_orchestrator() {
  orchestrator_ = {};
  redial_at_ = host_->now() + redial_after;
}

void gateway::register_here() {
  ask<heartbeat_ack>(*host_, orchestrator_, gateway_registration{host_->self(), core_.unreachable(), obeyed_},
                     &orchestrator::on_gateway, [this](const result<heartbeat_ack>& reply) {
                       if (!reply || !reply->known) lose_orchestrator();
                     });
}

void gateway::reach_nodes() {
  for (const node_view& it : core_.view().nodes)
    if (it.alive) reach(it);
}

void gateway::reach(const node_view& view) {
  known_node& it = nodes_[view.node];
  if (it.line || it.dialing || host_->now() < it.redial_at) return;
  it.dialing = true;
  const process_id who = view.node;
  dial<node>(
      in_, host_, view.control_address,
      [this, who](remote<node> found) {
        remote<node>& line = nodes_[who].line;
        line = std::move(found);
        line.wire->on_lost(0, [this, who] { lose_node(who); });
        ask<heartbeat_ack>(*host_, line, gateway_hello{host_->self()}, &node::on_hello,
                           [this, who](const result<heartbeat_ack>& reply) {
                             nodes_[who].dialing = false;
                             if (reply)
                               core_.on_node_known(who);
                             else if (nodes_[who].line)
                               lose_node(who);
                           });
      },
      [this, who] {
        nodes_[who].dialing = false;
        nodes_[who].redial_at = host_->now() + redial_after;
      });
}

void gateway::lose_node(const process_id& who) {
  known_node& it = nodes_[who];
  it.redial_at = host_->now() + redial_after;
  core_.on_node_lost(who, host_->now());
  it.line.lost();
}

void gateway::on_tick() {
  reach_orchestrator();
  reach_nodes();
  carry_out(core_.on_tick(host_->now()));
}

}  // namespace baton::apps::sim
