#include "actors/gateway_actor.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/gateway_core.hpp"
#include "actors/gateway_service.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 20ms;

spdlog::logger& log() {
  static const auto logger = log_of("gateway");
  return *logger;
}

struct gateway_state {
  gateway_options how;
  process_id self_id;
  directory_ptr local;
  std::shared_ptr<gateway_snapshot> snapshot;
  std::unique_ptr<gateway_core> core;

  conversation_actor conversations;
  std::size_t keeping = 0;  // to be written
  std::uint64_t keeps_failed = 0;

  orchestrator_actor orchestrator;
  bool dialing = false;
  steady::time_point redial_at{};
  allegiance obeyed;
  bool refused = false;  // by the orchestrator, at the last try
  struct connection {
    primary_actor primary;
    bool dialing = false;
    steady::time_point redial_at{};
  };
  std::map<process_id, connection> nodes;
  std::string cluster_status = "{}";
  steady::time_point status_at{};

  using pointer = gateway_core_actor::stateful_pointer<gateway_state>;

  void init(pointer self, std::shared_ptr<const engines::tokenizer> text) {
    gateway_core::options options;
    options.self = self_id;
    options.lease = how.liveness.lease;
    options.poison_after = how.poison_after;
    options.archive = static_cast<bool>(conversations);
    options.seed =
        std::random_device{}() * 0x9e3779b97f4a7c15ULL ^ static_cast<std::uint64_t>(raw(self_id.incarnation));
    core = std::make_unique<gateway_core>(std::move(options), std::move(text));
    self->set_down_handler([this](const caf::down_msg& down) { on_down(down); });
    self->delayed_send(self, tick_period, tick_atom::value);
    reach_orchestrator(self);
  }

  // --- connections
  // ------------------------------------------------------------------------------------------------------

  void reach_orchestrator(pointer self) {
    if (dialing || orchestrator || steady::now() < redial_at) return;
    dialing = true;
    dial<orchestrator_actor>(
        self, local, how.orchestrator,
        [this, self](orchestrator_actor found) {
          dialing = false;
          orchestrator = std::move(found);
          self->monitor(orchestrator);
          register_here(self);
        },
        [this](const error&) {
          dialing = false;
          lose_orchestrator();
        });
  }

  void register_here(pointer self) {
    self->request(orchestrator, how.liveness.greeted_within(),
                  wire<gateway_registration>{{self_id, core->unreachable(), obeyed}},
                  caf::actor_cast<gateway_actor>(self))
        .then(
            [this](const wire<heartbeat_ack>& reply) {
              const auto ack = reply.read();
              if (ack && ack->known) {
                refused = false;
                return;
              }
              if (!std::exchange(refused, true))
                log().error(
                    "registration refused: the orchestrator's store is not the one that this gateway has "
                    "obeyed, "
                    "or an old copy of it (docs/operating.md says what to do)");
              lose_orchestrator();
            },
            [this](const caf::error&) { lose_orchestrator(); });
  }

  void lose_orchestrator() {
    orchestrator = nullptr;
    redial_at = steady::now() + 100ms;
  }

  void reach_nodes(pointer self) {
    for (const node_view& it : core->view().nodes) {
      connection& node = nodes[it.node];
      if (!it.alive || node.primary || node.dialing || steady::now() < node.redial_at) continue;
      node.dialing = true;
      const process_id who = it.node;
      const auto lost = [this, who] {
        nodes[who].dialing = false;
        nodes[who].redial_at = steady::now() + 100ms;
      };
      dial<primary_actor>(
          self, local, it.control_address,
          [this, self, who, lost](const primary_actor& found) {
            nodes[who].primary = found;
            self->monitor(found);
            self->request(found, how.liveness.greeted_within(), wire<gateway_hello>{{self_id}},
                          caf::actor_cast<gateway_actor>(self))
                .then(
                    [this, who](bool) {
                      nodes[who].dialing = false;
                      core->on_node_known(who);
                    },
                    [this, who, lost](const caf::error&) {
                      nodes[who].primary = nullptr;
                      lost();
                    });
          },
          [lost](const error&) { lost(); });
    }
  }

  void on_down(const caf::down_msg& down) {
    if (orchestrator && orchestrator.address() == down.source) {
      log().warn("orchestrator away");
      lose_orchestrator();
      return;
    }
    for (auto& [who, node] : nodes) {
      if (!node.primary || node.primary.address() != down.source) continue;
      log().info("node connection lost name={}", who.name);
      node.primary = nullptr;
      node.redial_at = steady::now() + 100ms;
      core->on_node_lost(who, steady::now());
    }
  }

  void on_view(pointer self, const wire<cluster_view>& message) {
    auto next = message.read();
    if (!next) return;
    obey(obeyed, *next);
    core->on_view(std::move(*next), steady::now());
    const auto& known = core->view().nodes;
    std::erase_if(nodes, [&](const auto& it) {
      return !it.second.dialing && std::none_of(known.begin(), known.end(),
                                                [&](const node_view& node) { return node.node == it.first; });
    });
    reach_nodes(self);
    snapshot->ready = core->ready();
  }

  // --- effects
  // ----------------------------------------------------------------------------------------------------------

  void carry_out(pointer self, gateway_effects effects) {
    for (gateway_effect& effect : effects)
      std::visit([&](auto& what) { act(self, what); }, effect);
  }

  void act(pointer self, ask_owner& effect) {
    const session_id session = effect.request.history.session;
    log().debug("turn opened session={} turn={} epoch={} at={}", raw(session), effect.request.turn,
                raw(effect.request.epoch), effect.owner.name);
    const auto answered = [this, self, session,
                           ticket = effect.ticket](const result<open_turn_reply>& reply) {
      if (!reply || !reply->accepted)
        log().debug("turn not taken session={} reason=\"{}\"", raw(session),
                    reply ? reply->reason : reply.failure().what);
      carry_out(self, core->on_open_reply(ticket, reply, steady::now()));
    };
    const auto node = nodes.find(effect.owner);
    if (node == nodes.end() || !node->second.primary) {
      answered(error{errc::connection_lost, "the owner is not connected"});
      return;
    }
    self->request(node->second.primary, limits::request_timeout, wire<open_turn>{effect.request})
        .then([answered](const wire<open_turn_reply>& reply) { answered(reply.read()); },
              [answered](const caf::error&) {
                answered(error{errc::timed_out, "no answer to an open_turn"});
              });
  }
  void act(pointer self, tell_owner& effect) {
    const auto node = nodes.find(effect.owner);
    if (node != nodes.end() && node->second.primary)
      self->send(node->second.primary, wire<end_turn>{effect.what});
  }
  void act(pointer, note_failed& effect) {
    log().warn("turn failed session={} code={}", raw(effect.session), name_of(effect.code));
  }
  void act(pointer self, report_unreachable&) {
    for (const process_id& node : core->unreachable())
      log().warn("node cannot be reached name={}", node.name);
    if (orchestrator) register_here(self);
  }
  void act(pointer, note_diverged& effect) {
    log().error("diverged session={} epoch={}", raw(effect.session), raw(effect.epoch));
  }
  void act(pointer self, recall_conversation& effect) {
    const auto answered = [this, self, ticket = effect.ticket](const recalled_conversation& answer) {
      if (answer.found) log().debug("conversation found session={}", raw(answer.found->log.session));
      carry_out(self, core->on_recalled(ticket, answer.found, steady::now()));
    };
    self->request(conversations, caf::infinite, std::move(effect))
        .then(answered, [answered](const caf::error&) { answered({}); });
  }
  void act(pointer self, keep_conversation& effect) {
    const auto ended = [this](bool written) {
      --keeping;
      if (!written) ++keeps_failed;
    };
    if (keeping >= limits::keeps_waiting) {
      ++keeps_failed;
      return;
    }
    ++keeping;
    self->request(conversations, caf::infinite, std::move(effect)).then(ended, [ended](const caf::error&) {
      ended(false);
    });
  }

  // --- events
  // -----------------------------------------------------------------------------------------------------------

  void on_submit(pointer self, const submit_turn& order) {
    carry_out(self, core->on_submit(order.handle, *order.request, order.events, steady::now()));
  }

  void on_tokens(pointer self, const wire<turn_tokens>& message) {
    if (const auto tokens = message.read()) carry_out(self, core->on_tokens(*tokens, steady::now()));
  }

  void on_failure(pointer self, const wire<turn_failure>& message) {
    const auto failure = message.read();
    if (!failure) return;
    log().debug("turn given up session={} epoch={} code={} reason=\"{}\"", raw(failure->session),
                raw(failure->epoch), name_of(failure->code), failure->reason);
    carry_out(self, core->on_failure(*failure, steady::now()));
  }

  wire<seal_reply> on_seal(const wire<seal>& message) {
    const auto order = message.read();
    if (!order) return seal_reply{};
    seal_reply reply = core->on_seal(*order, steady::now());
    log().debug("seal group={} epoch={} by={} sealed={} turns={}", raw(order->group), raw(order->epoch),
                order->owner.name, reply.sealed, reply.turns.size());
    return reply;
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    reach_orchestrator(self);
    reach_nodes(self);
    carry_out(self, core->on_tick(steady::now()));
    snapshot->ready = core->ready();
    publish(self);
  }

  // --- reports
  // ----------------------------------------------------------------------------------------------------------

  void publish(pointer self) {
    const auto now = steady::now();
    if (orchestrator && now - status_at > 250ms) {
      status_at = now;
      self->request(orchestrator, limits::request_timeout, status_atom::value)
          .then([this](std::string& status) { cluster_status = std::move(status); },
                [](const caf::error&) {});
    }
    using nlohmann::json;
    const gateway_core::counters& counted = core->counted();
    json out;
    out["gateway"] = {{"name", self_id.name},
                      {"orchestrator", static_cast<bool>(orchestrator)},
                      {"reached", reached()},
                      {"sessions", core->sessions()},
                      {"open_turns", core->open_turns()},
                      {"turns", counted.turns},
                      {"refused", counted.refused},
                      {"finished", counted.finished},
                      {"failed", counted.failed},
                      {"cancelled", counted.cancelled},
                      {"tokens", counted.tokens},
                      {"duplicates", counted.duplicates},
                      {"stale", counted.stale},
                      {"diverged", counted.diverged},
                      {"seals", counted.seals},
                      {"reopened", counted.reopened},
                      {"poisoned", counted.poisoned},
                      {"attached", counted.attached},
                      {"kept", counted.kept},
                      {"keeps_failed", keeps_failed},
                      {"recalled", counted.recalled}};
    out["cluster"] = json::parse(cluster_status, nullptr, false);
    const std::string status = out.dump();
    const std::string metrics = metrics_text();
    const std::lock_guard lock{snapshot->guard};
    snapshot->status = status;
    snapshot->metrics = metrics;
  }

  /// Names of the nodes that turns can be opened at.
  [[nodiscard]] nlohmann::json reached() const {
    nlohmann::json names = nlohmann::json::array();
    for (const auto& [who, node] : nodes)
      if (core->reaches(who)) names.push_back(who.name);
    return names;
  }

  [[nodiscard]] std::string metrics_text() const {
    const gateway_core::counters& counted = core->counted();
    std::string out;
    const auto add = [&](const char* name, const char* kind, const char* help, std::uint64_t value) {
      out += std::string{"# HELP "} + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" + name +
             " " + std::to_string(value) + "\n";
    };
    add("baton_gateway_turns_total", "counter", "Turns opened by clients.", counted.turns);
    add("baton_gateway_turns_refused_total", "counter",
        "Requests that were no turn: refused before they began.", counted.refused);
    add("baton_gateway_turns_finished_total", "counter", "Turns that ended as they should.",
        counted.finished);
    add("baton_gateway_turns_failed_total", "counter", "Turns that began and ended with an error.",
        counted.failed);
    add("baton_gateway_turns_poisoned_total", "counter", "Turns refused because nodes died of them.",
        counted.poisoned);
    add("baton_gateway_turns_attached_total", "counter",
        "Requests answered by an earlier one with their idempotency key.", counted.attached);
    add("baton_gateway_turns_cancelled_total", "counter", "Turns whose client left.", counted.cancelled);
    add("baton_gateway_tokens_total", "counter", "Tokens released to clients.", counted.tokens);
    add("baton_gateway_tokens_duplicate_total", "counter", "Messages dropped: all of it was released before.",
        counted.duplicates);
    add("baton_gateway_tokens_stale_total", "counter", "Messages refused: of a replaced owner.",
        counted.stale);
    add("baton_gateway_tokens_diverged_total", "counter",
        "Messages refused: they contradict what was released.", counted.diverged);
    add("baton_gateway_seals_total", "counter", "Seals by new owners.", counted.seals);
    add("baton_gateway_conversations_kept_total", "counter",
        "Conversations given to the object store after a turn.", counted.kept);
    add("baton_gateway_conversations_kept_failed_total", "counter",
        "Of those, what was not written: the store failed, or is too slow.", keeps_failed);
    add("baton_gateway_conversations_recalled_total", "counter",
        "Conversations that went on from the object store.", counted.recalled);
    add("baton_gateway_open_turns", "gauge", "Turns open now.", core->open_turns());
    add("baton_gateway_sessions", "gauge", "Sessions known.", core->sessions());
    return out;
  }
};

gateway_core_actor::behavior_type gateway_behavior(gateway_core_actor::stateful_pointer<gateway_state> self,
                                                   gateway_options how, process_id self_id,
                                                   std::shared_ptr<const engines::tokenizer> text,
                                                   directory_ptr local, conversation_actor conversations,
                                                   std::shared_ptr<gateway_snapshot> snapshot) {
  auto& state = self->state;
  state.how = std::move(how);
  state.self_id = std::move(self_id);
  state.local = std::move(local);
  state.conversations = std::move(conversations);
  state.snapshot = std::move(snapshot);
  state.init(self, std::move(text));
  return {
      [&state](const wire<seal>& order) { return state.on_seal(order); },
      [self, &state](const wire<turn_tokens>& tokens) { state.on_tokens(self, tokens); },
      [self, &state](const wire<turn_failure>& failure) { state.on_failure(self, failure); },
      [self, &state](const wire<cluster_view>& view) { state.on_view(self, view); },
      [&state](locate_atom, const std::string& session) {
        const gateway_session* found = state.core->find_session(session);
        return found == nullptr ? std::uint64_t{0} : raw(found->group);
      },
      [self, &state](const submit_turn& order) { state.on_submit(self, order); },
      [self, &state](const cancel_turn& order) {
        state.carry_out(self, state.core->on_cancel(order.handle, steady::now()));
      },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

result<gateway_handles> spawn_gateway_actor(caf::actor_system& system, gateway_options how, process_id self,
                                            std::shared_ptr<const engines::tokenizer> text,
                                            directory_ptr local) {
  gateway_handles out;
  if (!how.archive.empty()) {
    auto store = transports::stores::open_object_store(how.archive);
    if (!store) return store.failure();
    out.conversations = spawn_conversation_actor(system, std::move(*store));
  }
  auto snapshot = std::make_shared<gateway_snapshot>();
  auto actor = system.spawn(gateway_behavior, std::move(how), std::move(self), text, std::move(local),
                            out.conversations, snapshot);
  out.actor = caf::actor_cast<gateway_actor>(actor);
  out.service = std::make_shared<gateway_service>(actor, text, snapshot);
  return out;
}

}  // namespace baton::actors
