#include "actors/orchestrator_actor.hpp"

#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/protocol/cluster_table.hpp"
#include "actors/store_actor.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

using orchestrator_core_actor = orchestrator_actor::extend<caf::reacts_to<tick_atom>>;

constexpr auto tick_period = 10ms;

spdlog::logger& log() {
  static const auto logger = log_of("orchestrator");
  return *logger;
}

struct orchestrator_state {
  std::unique_ptr<protocol::cluster_table> table;
  store_actor store;
  std::function<void(const error& why)> replaced;
  std::uint64_t term = 0;
  std::map<process_id, node_actor> nodes;
  std::map<process_id, gateway_actor> gateways;
  std::map<protocol::change_ticket, caf::typed_response_promise<wire<in_sync_reply>>> changes;
  std::map<std::string, std::string> figures;  // JSON by node
  std::set<process_id> refused;                // as foreign
  protocol::change_ticket next_ticket = 1;
  bool view_changed = false;
  std::size_t failovers_logged = 0;
  steady::time_point told_of_failure{};

  using pointer = orchestrator_core_actor::stateful_pointer<orchestrator_state>;

  void init(pointer self, store_actor records_of, std::unique_ptr<protocol::cluster_table> cluster,
            std::uint64_t of_term) {
    store = std::move(records_of);
    table = std::move(cluster);
    term = of_term;
    self->set_down_handler([this, self](const caf::down_msg& down) { on_down(self, down); });
    self->delayed_send(self, tick_period, tick_atom::value);
  }

  // --- effects
  // --------------------------------------------------------------------------------------------------------

  void carry_out(pointer self, protocol::cluster_effects effects) {
    for (protocol::cluster_effect& effect : effects) {
      if (auto* swap = std::get_if<protocol::swap_record>(&effect)) {
        self->request(store, caf::infinite, std::move(*swap))
            .then([this, self](const stores::swap_outcome& outcome) { on_swapped(self, outcome); });
      } else if (auto* reply = std::get_if<protocol::reply_change>(&effect)) {
        if (auto found = changes.extract(reply->to); !found.empty())
          reply->reply ? found.mapped().deliver(wire<in_sync_reply>{*reply->reply})
                       : found.mapped().deliver(caf::make_error(caf::sec::runtime_error));
      } else {
        view_changed = true;
      }
    }
  }

  void on_swapped(pointer self, const stores::swap_outcome& outcome) {
    if (outcome.why.code == errc::stale_epoch) {
      if (const auto tell = std::exchange(replaced, nullptr)) tell(outcome.why);
      self->quit();
      return;
    }
    if (!outcome.done) tell_of_failure(outcome.record.group, outcome.why);
    run(self, table->on_swapped(outcome.done, outcome.record, steady::now()));
  }

  /// Once a second at most: what is due is tried again on every tick.
  void tell_of_failure(group_id group, const error& why) {
    if (steady::now() - told_of_failure < 1s) return;
    told_of_failure = steady::now();
    log().error("compare-and-swap failed group={} reason={}", raw(group), why.what);
  }

  void publish(pointer self) {
    if (!view_changed) return;
    view_changed = false;
    const wire<cluster_view> view{table->view()};
    for (const auto& [id, node] : nodes)
      self->send(node, view);
    for (const auto& [id, gateway] : gateways)
      self->send(gateway, view);
    const auto& failovers = table->failovers();
    for (; failovers_logged < failovers.size(); ++failovers_logged) {
      const auto& event = failovers[failovers_logged];
      log().info("failover group={} from={} to={} epoch={} cause=\"{}\" detected_ms={}", raw(event.group),
                 event.from.name, event.to.name, raw(event.epoch), event.cause, event.detected_after.count());
    }
  }

  void run(pointer self, protocol::cluster_effects effects) {
    carry_out(self, std::move(effects));
    publish(self);
  }

  // --- events
  // ---------------------------------------------------------------------------------------------------------

  wire<heartbeat_ack> refuse(const char* kind, const process_id& who, const allegiance& obeyed) {
    if (refused.insert(who).second)
      log().critical(
          "{} refused name={}: it has obeyed another store, or later decisions than this one holds: this "
          "store "
          "was lost or is an old copy; its term={} epoch={}, here term={} (docs/operating.md says what to "
          "do)",
          kind, who.name, obeyed.term, raw(obeyed.epoch), term);
    return heartbeat_ack{0, term, false, true};
  }

  wire<heartbeat_ack> on_node(pointer self, const wire<node_registration>& message,
                              const node_actor& handle) {
    const auto node = message.read();
    if (!node) return heartbeat_ack{0, term, false};
    if (table->replaced(node->node)) return heartbeat_ack{0, term, false};
    if (table->foreign(node->obeyed)) return refuse("node", node->node, node->obeyed);
    log().info("node registered name={} data={}", node->node.name, node->data_address);
    nodes.insert_or_assign(node->node, handle);
    self->monitor(handle);
    view_changed = true;
    run(self, table->on_node(*node, steady::now()));
    return heartbeat_ack{0, term, true};
  }

  wire<heartbeat_ack> on_gateway(pointer self, const wire<gateway_registration>& message,
                                 const gateway_actor& handle) {
    const auto gateway = message.read();
    if (!gateway) return heartbeat_ack{0, term, false};
    if (table->foreign(gateway->obeyed)) return refuse("gateway", gateway->gateway, gateway->obeyed);
    if (gateways.insert_or_assign(gateway->gateway, handle).second) {
      log().info("gateway registered name={}", gateway->gateway.name);
      self->monitor(handle);
    }
    for (const process_id& node : gateway->unreachable)
      log().warn("gateway cannot reach a node gateway={} node={}", gateway->gateway.name, node.name);
    view_changed = true;
    run(self, table->on_gateway(*gateway, steady::now()));
    return heartbeat_ack{0, term, true};
  }

  wire<heartbeat_ack> on_heartbeat(pointer self, const wire<heartbeat>& message) {
    const auto beat = message.read();
    if (!beat) return heartbeat_ack{0, term, false};
    if (!beat->figures.empty()) figures[beat->node.name] = beat->figures;
    protocol::cluster_effects effects;
    const heartbeat_ack ack = table->on_heartbeat(*beat, steady::now(), effects);
    run(self, std::move(effects));
    return ack;
  }

  /// `decide(ticket, change)` of an owner's wish to change its record.
  template <class Change, class Decide>
  caf::result<wire<in_sync_reply>> on_wish(pointer self, const wire<Change>& message, Decide decide) {
    const auto change = message.read();
    if (!change) return wire<in_sync_reply>{in_sync_reply{}};
    auto promise = self->make_response_promise<wire<in_sync_reply>>();
    const protocol::change_ticket ticket = next_ticket++;
    changes.emplace(ticket, promise);
    run(self, decide(ticket, *change));
    return promise;
  }

  bool on_drain(pointer self, const std::string& node, bool on) {
    protocol::cluster_effects effects;
    const bool known = table->drain(node, on, effects);
    if (known) log().info("drain node={} on={}", node, on);
    run(self, std::move(effects));
    return known;
  }

  bool on_move(pointer self, group_id group, const std::string& node) {
    protocol::cluster_effects effects;
    const bool ordered = table->move(group, node, effects);
    if (ordered) log().info("move group={} to={}", raw(group), node);
    run(self, std::move(effects));
    return ordered;
  }

  /// Of the gateways one at most knows a session; those that do not answer do not.
  caf::result<std::uint64_t> on_locate(pointer self, const std::string& session) {
    auto promise = self->make_response_promise<std::uint64_t>();
    if (gateways.empty()) promise.deliver(std::uint64_t{0});
    auto answered = [promise,
                     left = std::make_shared<std::size_t>(gateways.size())](std::uint64_t group) mutable {
      if (*left == 0) return;  // told already
      *left = group != 0 ? 0 : *left - 1;
      if (*left == 0) promise.deliver(group);
    };
    for (const auto& [id, gateway] : gateways)
      self->request(gateway, limits::request_timeout, locate_atom::value, session)
          .then(answered, [answered](const caf::error&) mutable { answered(0); });
    return promise;
  }

  void on_down(pointer self, const caf::down_msg& down) {
    const auto lost = [&](auto& members) -> std::optional<process_id> {
      for (auto it = members.begin(); it != members.end(); ++it) {
        if (it->second.address() != down.source) continue;
        const process_id who = it->first;
        members.erase(it);
        return who;
      }
      return std::nullopt;
    };
    auto who = lost(nodes);
    if (!who) who = lost(gateways);
    if (!who) return;
    log().info("connection lost name={}", who->name);
    run(self, table->on_lost(*who, "connection closed", steady::now()));
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    run(self, table->on_tick(steady::now()));
  }

  [[nodiscard]] std::string status() const {
    using nlohmann::json;
    const cluster_view view = table->view();
    json out = {{"term", view.term}, {"version", view.version}};
    out["refused"] = json::array();
    for (const process_id& who : refused)
      out["refused"].push_back(who.name);
    out["links"] = json::array();
    out["nodes"] = json::array();
    for (const node_view& node : view.nodes) {
      json it = {{"name", node.node.name},
                 {"incarnation", raw(node.node.incarnation)},
                 {"alive", node.alive},
                 {"draining", node.draining},
                 {"control", node.control_address},
                 {"data", node.data_address},
                 {"sessions", node.sessions},
                 {"capacity", node.capacity_sessions}};
      if (const auto found = figures.find(node.node.name); found != figures.end()) {
        json figures_of = json::parse(found->second, nullptr, false);
        if (figures_of.is_object()) {
          for (auto& link : figures_of["links"]) {
            if (!node.alive) link["up"] = false;  // that is what it said last
            out["links"].push_back(std::move(link));
          }
          figures_of.erase("links");
          it["figures"] = std::move(figures_of);
        }
      }
      out["nodes"].push_back(std::move(it));
    }
    out["gateways"] = json::array();
    for (const process_id& gateway : view.gateways)
      out["gateways"].push_back({{"name", gateway.name}});
    out["groups"] = json::array();
    for (const group_record& group : view.groups) {
      json in_sync = json::array();
      for (const process_id& member : group.in_sync)
        in_sync.push_back(member.name);
      json it = {{"group", raw(group.group)}, {"epoch", raw(group.epoch)}, {"owner", group.owner.name}};
      it["in_sync"] = std::move(in_sync);
      if (const auto statuses = table->statuses().find(group.owner.name); statuses != table->statuses().end())
        for (const group_status& status : statuses->second)
          if (status.group == group.group && status.owner && status.epoch == group.epoch) {
            it["sessions"] = status.sessions;
            it["synced_tokens"] = status.synced_tokens;
            it["lag_tokens"] = status.lag_tokens;
          }
      out["groups"].push_back(std::move(it));
    }
    out["moves"] = json::array();
    for (const group_move& move : view.moves)
      out["moves"].push_back({{"group", raw(move.group)}, {"to", move.to.name}});
    out["failovers"] = json::array();
    for (const auto& event : table->failovers())
      out["failovers"].push_back({{"group", raw(event.group)},
                                  {"from", event.from.name},
                                  {"to", event.to.name},
                                  {"epoch", raw(event.epoch)},
                                  {"cause", event.cause},
                                  {"detected_ms", event.detected_after.count()}});
    return out.dump();
  }
};

orchestrator_core_actor::behavior_type orchestrator_behavior(
    orchestrator_core_actor::stateful_pointer<orchestrator_state> self, store_actor store,
    const std::shared_ptr<std::unique_ptr<protocol::cluster_table>>& table, std::uint64_t term,
    std::function<void(const error& why)> replaced) {
  auto& state = self->state;
  state.replaced = std::move(replaced);
  state.init(self, std::move(store), std::move(*table), term);
  return {
      [self, &state](const wire<node_registration>& node, const node_actor& handle) {
        return state.on_node(self, node, handle);
      },
      [self, &state](const wire<gateway_registration>& gateway, const gateway_actor& handle) {
        return state.on_gateway(self, gateway, handle);
      },
      [self, &state](const wire<heartbeat>& beat) { return state.on_heartbeat(self, beat); },
      [self, &state](const wire<in_sync_change>& message) {
        return state.on_wish(self, message,
                             [&](protocol::change_ticket ticket, const in_sync_change& change) {
                               return state.table->on_change(ticket, change, steady::now());
                             });
      },
      [self, &state](const wire<hand_over>& message) {
        return state.on_wish(self, message, [&](protocol::change_ticket ticket, const hand_over& change) {
          return state.table->on_hand_over(ticket, change, steady::now());
        });
      },
      [self, &state](drain_atom, const std::string& node, bool on) { return state.on_drain(self, node, on); },
      [self, &state](locate_atom, const std::string& session) { return state.on_locate(self, session); },
      [self, &state](move_atom, std::uint64_t group, const std::string& node) {
        return state.on_move(self, group_id{group}, node);
      },
      [&state](status_atom) { return state.status(); },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

result<orchestrator_handles> spawn_orchestrator_actor(caf::actor_system& system,
                                                      const orchestrator_options& how,
                                                      std::unique_ptr<stores::record_store> store,
                                                      std::function<void(const error& why)> replaced) {
  const auto begun = store->begin_term();
  if (!begun) return begun.failure();
  auto records = store->load();
  if (!records) return records.failure();
  protocol::cluster_table::options options;
  options.term = begun->term;
  options.store = begun->store;
  options.suspect_after = how.liveness.suspect_after;
  options.lease = how.liveness.lease;
  options.tick_period = tick_period;
  auto table = std::make_unique<protocol::cluster_table>(options, std::move(*records), steady::now());
  const store_actor owner = spawn_store_actor(system, std::move(store));
  auto actor = system.spawn<caf::detached>(
      orchestrator_behavior, owner,
      std::make_shared<std::unique_ptr<protocol::cluster_table>>(std::move(table)), begun->term,
      std::move(replaced));
  return orchestrator_handles{caf::actor_cast<orchestrator_actor>(actor), caf::actor_cast<caf::actor>(owner)};
}

}  // namespace baton::actors
