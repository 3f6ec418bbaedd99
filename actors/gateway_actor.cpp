#include "actors/gateway_actor.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/gateway_service.hpp"
#include "actors/gateway_turn.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 20ms;
constexpr std::size_t sessions_remembered = limits::node_sessions;

spdlog::logger& log() {
  static const auto logger = log_of("gateway");
  return *logger;
}

struct gateway_counters {
  std::uint64_t turns = 0, finished = 0, failed = 0, cancelled = 0, tokens = 0, duplicates = 0, stale = 0,
                diverged = 0, seals = 0, reopened = 0;
};

struct gateway_state {
  gateway_options how;
  process_id self_id;
  std::string control_address;
  std::shared_ptr<const engines::tokenizer> text;
  directory_ptr local;
  std::shared_ptr<gateway_snapshot> snapshot;

  std::unique_ptr<gateway_sessions> sessions;
  std::map<session_id, std::unique_ptr<gateway_turn>> turns;
  std::map<turn_handle, session_id> handles;
  std::vector<token_id> end_tokens;
  gateway_counters counted;

  orchestrator_actor orchestrator;
  bool dialing = false;
  steady::time_point redial_at{};
  cluster_view view;
  std::map<group_id, epoch> sealed;
  struct connection {
    primary_actor primary;
    bool dialing = false;
    bool known = false;  // it has taken our hello
    steady::time_point redial_at{};
  };
  std::map<process_id, connection> nodes;
  std::string cluster_status = "{}";
  steady::time_point status_at{};

  using pointer = gateway_core_actor::stateful_pointer<gateway_state>;

  void init(pointer self) {
    sessions =
        std::make_unique<gateway_sessions>(*text, std::random_device{}() * 0x9e3779b97f4a7c15ULL ^
                                                      static_cast<std::uint64_t>(raw(self_id.incarnation)));
    for (token_id token = 0; token < static_cast<token_id>(text->vocabulary_size()); ++token)
      if (text->ends_generation(token)) end_tokens.push_back(token);
    self->set_down_handler([this, self](const caf::down_msg& down) { on_down(self, down); });
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
          self->request(orchestrator, limits::request_timeout,
                        wire<gateway_registration>{{self_id, control_address}},
                        caf::actor_cast<gateway_actor>(self))
              .then([](const wire<heartbeat_ack>&) {}, [this](const caf::error&) { lose_orchestrator(); });
        },
        [this](const error&) {
          dialing = false;
          lose_orchestrator();
        });
  }

  void lose_orchestrator() {
    orchestrator = nullptr;
    redial_at = steady::now() + 100ms;
  }

  void reach_nodes(pointer self) {
    for (const node_view& it : view.nodes) {
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
            self->request(found, limits::request_timeout, wire<gateway_hello>{{self_id}},
                          caf::actor_cast<gateway_actor>(self))
                .then(
                    [this, who](bool) {
                      nodes[who].dialing = false;
                      nodes[who].known = true;
                    },
                    [this, who, lost](const caf::error&) {
                      nodes[who].primary = nullptr;
                      lost();
                    });
          },
          [lost](const error&) { lost(); });
    }
  }

  void on_down(pointer self, const caf::down_msg& down) {
    if (orchestrator && orchestrator.address() == down.source) {
      log().warn("orchestrator away");
      lose_orchestrator();
      return;
    }
    for (auto& [who, node] : nodes) {
      if (!node.primary || node.primary.address() != down.source) continue;
      log().info("node connection lost name={}", who.name);
      node.primary = nullptr;
      node.known = false;
      node.redial_at = steady::now() + 100ms;
      for (auto& [id, turn] : turns)
        if (owner_of(turn->session().group) == &who || served_by(*turn, who)) unserve(*turn);
    }
    (void)self;
  }

  // --- routes
  // -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] const group_record* record_of(group_id group) const {
    const auto found = std::find_if(view.groups.begin(), view.groups.end(),
                                    [&](const group_record& it) { return it.group == group; });
    return found == view.groups.end() ? nullptr : &*found;
  }
  [[nodiscard]] const process_id* owner_of(group_id group) const {
    const group_record* record = record_of(group);
    return record == nullptr || record->owner.name.empty() ? nullptr : &record->owner;
  }
  [[nodiscard]] bool served_by(const gateway_turn& turn, const process_id& who) const {
    const process_id* owner = owner_of(turn.session().group);
    return owner != nullptr && *owner == who;
  }
  [[nodiscard]] const node_view* view_of(const process_id& who) const {
    const auto found = std::find_if(view.nodes.begin(), view.nodes.end(),
                                    [&](const node_view& it) { return it.node == who; });
    return found == view.nodes.end() ? nullptr : &*found;
  }

  /// A group that can take a new session: that of the least loaded node.
  [[nodiscard]] const group_record* choose_group() const {
    const group_record* best = nullptr;
    std::size_t best_load = 0;
    for (const group_record& record : view.groups) {
      const node_view* node = view_of(record.owner);
      if (node == nullptr || !node->alive) continue;
      const std::size_t load = sessions->in_group(record.group);
      if (best == nullptr || load < best_load) {
        best = &record;
        best_load = load;
      }
    }
    return best;
  }

  void unserve(gateway_turn& turn) {
    if (turn.served != epoch{}) turn.waiting_since = steady::now();
    turn.served = epoch{};
    turn.asking = false;
  }

  // --- turns
  // ------------------------------------------------------------------------------------------------------------

  void refuse(const submit_turn& order, errc code, std::string what) {
    ++counted.failed;
    order.events(turn_failed{{code, std::move(what)}});
  }

  void on_submit(pointer self, const submit_turn& order) {
    auto placed = sessions->place(*order.request);
    if (!placed) return refuse(order, placed.code(), placed.failure().what);
    gateway_session* session = placed->session;
    if (session == nullptr) {
      const group_record* record = choose_group();
      if (record == nullptr) return refuse(order, errc::unavailable, "no node can take a session now");
      session = &sessions->create(order.request->session, record->group,
                                  view_of(record->owner)->fingerprint_hash, steady::now());
    }
    open(self, order, *session, *placed);
    sessions->trim(sessions_remembered);
  }

  [[nodiscard]] std::uint32_t context_of(group_id group) const {
    const process_id* owner = owner_of(group);
    const node_view* node = owner == nullptr ? nullptr : view_of(*owner);
    if (node != nullptr) return node->context_tokens;
    return view.nodes.empty() ? limits::session_tokens : view.nodes.front().context_tokens;
  }

  void open(pointer self, const submit_turn& order, gateway_session& session, const placed_prompt& placed) {
    const completion_request& request = *order.request;
    turn_header header;
    const turn_header* last = session.stream.log().last_turn();
    header.number = last == nullptr ? 1 : last->number + 1;
    header.base = placed.base;
    header.prompt_end = placed.base + static_cast<position>(placed.tokens.size());
    const std::uint32_t context = context_of(session.group);
    if (header.prompt_end >= context)
      return refuse(order, errc::context_full,
                    "the prompt has " + std::to_string(header.prompt_end) + " tokens, the context holds " +
                        std::to_string(context));
    const std::uint32_t room = context - header.prompt_end;
    header.parameters.sampling = request.sampling;
    header.parameters.max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
    if (!request.ignore_end) header.parameters.end_tokens = end_tokens;
    for (const token_id token : placed.tokens)
      if (token < 0 || token >= static_cast<token_id>(text->vocabulary_size()))
        return refuse(order, errc::invalid_argument,
                      "token " + std::to_string(token) + " is not in the vocabulary");
    if (const auto opened = session.stream.open(header, placed.tokens); !opened)
      return refuse(order, opened.code(), opened.failure().what);
    std::erase_if(session.checkpoints, [&](const auto& it) { return it.length > header.base; });
    session.busy = true;
    session.used_at = steady::now();
    ++counted.turns;
    auto turn = std::make_unique<gateway_turn>(order.handle, request, order.events, session, header, 0);
    turn->waiting_since = steady::now();
    handles[order.handle] = session.id;
    gateway_turn& placed_turn = *(turns[session.id] = std::move(turn));
    ask_owner(self, placed_turn, session.stream.piece_for(point_at(session, header.base)));
  }

  [[nodiscard]] static history_point point_at(const gateway_session& session, position at) {
    return {at, session.stream.log().chain_at(at)};
  }

  /// Asks the owner of the turn's group to run it, given the part of its history that the owner is thought to
  /// lack.
  void ask_owner(pointer self, gateway_turn& turn, session_piece piece) {
    const group_record* record = record_of(turn.session().group);
    turn.retry_at = steady::now() + 50ms;
    if (record == nullptr || record->owner.name.empty() || turn.asking) return;
    const auto node = nodes.find(record->owner);
    if (node == nodes.end() || !node->second.known) return;
    turn.asking = true;
    open_turn request{record->group, record->epoch, std::move(piece), turn.number(), self_id};
    const session_id id = turn.session().id;
    const turn_handle handle = turn.handle();
    const epoch asked = record->epoch;
    self->request(node->second.primary, limits::request_timeout, wire<open_turn>{request})
        .then(
            [this, self, id, handle, asked](const wire<open_turn_reply>& message) {
              const auto reply = message.read();
              if (gateway_turn* it = find(id, handle); it != nullptr && reply)
                on_reply(self, *it, *reply, asked);
            },
            [this, id, handle](const caf::error&) {
              if (gateway_turn* it = find(id, handle)) it->asking = false;
            });
  }

  gateway_turn* find(session_id session, turn_handle handle) {
    const auto found = turns.find(session);
    return found == turns.end() || found->second->handle() != handle ? nullptr : found->second.get();
  }

  void on_reply(pointer self, gateway_turn& turn, const open_turn_reply& reply, epoch asked) {
    turn.asking = false;
    if (turn.served >= asked) return;  // a seal was quicker
    if (reply.accepted) {
      if (asked < sealed[turn.session().group]) return;  // by an owner that has been replaced meanwhile
      turn.served = asked;
      turn.started(reply.cached_tokens);
      return;
    }
    switch (reply.refusal) {
      case errc::gap:
      case errc::fork: {
        const auto& log = turn.session().stream.log();
        ask_owner(self, turn, log.piece_from(log.contains(reply.have) ? reply.have.length : 0));
        return;
      }
      case errc::not_owner:
      case errc::unavailable:
      case errc::stale_epoch:
        return;  // asked again on a tick
      default:
        fail(self, turn, {reply.refusal, reply.reason});
    }
  }

  void tell_owner_of_end(pointer self, const gateway_turn& turn, position keep) {
    const group_record* record = record_of(turn.session().group);
    if (record == nullptr) return;
    const auto node = nodes.find(record->owner);
    if (node != nodes.end() && node->second.primary)
      self->send(node->second.primary,
                 wire<end_turn>{{record->group, record->epoch, turn.session().id, turn.number(), keep}});
  }

  void end(gateway_turn& turn, position keep) {
    gateway_session& session = turn.session();
    session.stream.close(keep);
    session.busy = false;
    session.used_at = steady::now();
    handles.erase(turn.handle());
    turns.erase(session.id);  // ends `turn`
  }

  void fail(pointer self, gateway_turn& turn, const error& why) {
    ++counted.failed;
    log().warn("turn failed session={} code={}", raw(turn.session().id), name_of(why.code));
    turn.failed(why);
    tell_owner_of_end(self, turn, turn.keep());
    end(turn, turn.keep());
  }

  void on_cancel(pointer self, const cancel_turn& order) {
    const auto handle = handles.find(order.handle);
    if (handle == handles.end()) return;
    gateway_turn& turn = *turns.at(handle->second);
    ++counted.cancelled;
    const position keep = turn.session().stream.log().length();
    tell_owner_of_end(self, turn, keep);
    end(turn, keep);
  }

  // --- from owners
  // ------------------------------------------------------------------------------------------------------

  void on_tokens(pointer self, const wire<turn_tokens>& message) {
    const auto tokens = message.read();
    if (!tokens) return;
    const auto found = turns.find(tokens->session);
    if (found == turns.end()) return;
    gateway_turn& turn = *found->second;
    std::size_t fresh = 0;
    using verdict = protocol::client_stream::verdict;
    switch (turn.session().stream.accept(*tokens, sealed[tokens->group], fresh)) {
      case verdict::accepted:
        break;
      case verdict::duplicate:
        if (tokens->turn == turn.number() && tokens->last) break;  // all known, but the end is news
        ++counted.duplicates;
        return;
      case verdict::stale:
        ++counted.stale;
        return;
      case verdict::gap:
        unserve(turn);
        return;
      case verdict::diverged:
        ++counted.diverged;
        log().error("diverged session={} epoch={}", raw(tokens->session), raw(tokens->epoch));
        fail(self, turn, {errc::fork, "the owner's history contradicts what was released"});
        return;
    }
    turn.served = tokens->epoch;
    counted.tokens += fresh;
    const process_id* owner = owner_of(tokens->group);
    if (!turn.released(*tokens, fresh, owner == nullptr ? std::string{} : owner->name, *text)) return;
    ++counted.finished;
    const position keep = turn.keep();
    if (!tokens->last || keep < turn.session().stream.log().length()) tell_owner_of_end(self, turn, keep);
    gateway_session& session = turn.session();
    const completion_request request = turn.request();
    const std::string answer = turn.answer();
    end(turn, keep);
    sessions->remember(session, request, answer);
  }

  void on_failure(pointer self, const wire<turn_failure>& message) {
    const auto failure = message.read();
    if (!failure) return;
    const auto found = turns.find(failure->session);
    if (found == turns.end() || found->second->number() != failure->turn ||
        failure->epoch < sealed[failure->group])
      return;
    gateway_turn& turn = *found->second;
    unserve(turn);
    if (failure->code == errc::gap || failure->code == errc::fork) {
      ask_owner(self, turn, turn.session().stream.log().piece_from(0));
      return;
    }
    if (failure->code != errc::not_owner) fail(self, turn, {failure->code, failure->reason});
  }

  wire<seal_reply> on_seal(const wire<seal>& message) {
    seal_reply reply;
    const auto order = message.read();
    if (!order) return reply;
    epoch& highest = sealed[order->group];
    if (order->epoch < highest) {
      reply.highest = highest;
      return reply;
    }
    highest = order->epoch;
    ++counted.seals;
    reply.sealed = true;
    reply.highest = highest;
    // The seal names the owner: no need to wait for the view.
    for (group_record& record : view.groups)
      if (record.group == order->group && record.epoch < order->epoch) {
        record.epoch = order->epoch;
        record.owner = order->owner;
      }
    std::map<session_id, history_point> held;
    for (const held_session& it : order->held)
      held[it.session] = it.logged;
    // The others open their turns by themselves.
    constexpr std::size_t most_tokens = limits::control_bytes / (2 * sizeof(token_id));
    std::size_t tokens = 0;
    for (auto& [id, turn] : turns) {
      if (turn->session().group != order->group) continue;
      unserve(*turn);
      const auto& stream = turn->session().stream;
      const auto have = held.find(id);
      session_piece piece = have == held.end() ? stream.log().piece_from(0) : stream.piece_for(have->second);
      if (tokens += piece.tokens.size(); tokens > most_tokens) continue;
      turn->served = order->epoch;
      reply.turns.push_back({order->group, order->epoch, std::move(piece), turn->number(), self_id});
    }
    return reply;
  }

  // --- the cluster
  // ------------------------------------------------------------------------------------------------------

  void on_view(pointer self, const wire<cluster_view>& message) {
    auto next = message.read();
    if (!next || next->term < view.term || (next->term == view.term && next->version < view.version)) return;
    view = std::move(*next);
    for (const group_record& record : view.groups) {
      epoch& highest = sealed[record.group];
      if (record.epoch <= highest) continue;
      // The old owner is mute from here on; the new one seals us, or is asked on a tick.
      highest = record.epoch;
      for (auto& [id, turn] : turns)
        if (turn->session().group == record.group && turn->served < record.epoch)
          unserve(*turn), turn->retry_at = steady::now() + 200ms;
    }
    for (auto it = nodes.begin(); it != nodes.end();)
      it = view_of(it->first) == nullptr && !it->second.dialing ? nodes.erase(it) : std::next(it);
    reach_nodes(self);
    snapshot->ready = choose_group() != nullptr;
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    reach_orchestrator(self);
    reach_nodes(self);
    const auto now = steady::now();
    std::vector<session_id> waiting;
    for (const auto& [id, turn] : turns)
      if (turn->served == epoch{}) waiting.push_back(id);
    for (const session_id id : waiting) {
      gateway_turn& turn = *turns.at(id);
      if (now - turn.waiting_since > 3 * how.liveness.lease) {
        fail(self, turn, {errc::unavailable, "no node can serve this conversation now"});
      } else if (now >= turn.retry_at && !turn.asking) {
        ++counted.reopened;
        const auto& log = turn.session().stream.log();
        ask_owner(self, turn, log.piece_from(log.last_turn()->base));
      }
    }
    publish(self);
  }

  void publish(pointer self) {
    const auto now = steady::now();
    if (orchestrator && now - status_at > 250ms) {
      status_at = now;
      self->request(orchestrator, limits::request_timeout, status_atom::value)
          .then([this](std::string& status) { cluster_status = std::move(status); },
                [](const caf::error&) {});
    }
    using nlohmann::json;
    json out;
    out["gateway"] = {
        {"name", self_id.name},           {"sessions", sessions->size()}, {"open_turns", turns.size()},
        {"turns", counted.turns},         {"finished", counted.finished}, {"failed", counted.failed},
        {"cancelled", counted.cancelled}, {"tokens", counted.tokens},     {"duplicates", counted.duplicates},
        {"stale", counted.stale},         {"diverged", counted.diverged}, {"seals", counted.seals},
        {"reopened", counted.reopened}};
    out["cluster"] = json::parse(cluster_status, nullptr, false);
    const std::string status = out.dump();
    const std::string metrics = metrics_text();
    const std::lock_guard lock{snapshot->guard};
    snapshot->status = status;
    snapshot->metrics = metrics;
  }

  [[nodiscard]] std::string metrics_text() const {
    std::string out;
    const auto add = [&](const char* name, const char* kind, const char* help, std::uint64_t value) {
      out += std::string{"# HELP "} + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" + name +
             " " + std::to_string(value) + "\n";
    };
    add("baton_gateway_turns_total", "counter", "Turns opened by clients.", counted.turns);
    add("baton_gateway_turns_finished_total", "counter", "Turns that ended as they should.",
        counted.finished);
    add("baton_gateway_turns_failed_total", "counter", "Turns that ended with an error.", counted.failed);
    add("baton_gateway_turns_cancelled_total", "counter", "Turns whose client left.", counted.cancelled);
    add("baton_gateway_tokens_total", "counter", "Tokens released to clients.", counted.tokens);
    add("baton_gateway_tokens_duplicate_total", "counter", "Messages dropped: all of it was released before.",
        counted.duplicates);
    add("baton_gateway_tokens_stale_total", "counter", "Messages refused: of a replaced owner.",
        counted.stale);
    add("baton_gateway_tokens_diverged_total", "counter",
        "Messages refused: they contradict what was released.", counted.diverged);
    add("baton_gateway_seals_total", "counter", "Seals by new owners.", counted.seals);
    add("baton_gateway_open_turns", "gauge", "Turns open now.", turns.size());
    add("baton_gateway_sessions", "gauge", "Sessions known.", sessions->size());
    return out;
  }
};

gateway_core_actor::behavior_type gateway_behavior(gateway_core_actor::stateful_pointer<gateway_state> self,
                                                   gateway_options how, process_id self_id,
                                                   std::string control_address,
                                                   std::shared_ptr<const engines::tokenizer> text,
                                                   directory_ptr local,
                                                   std::shared_ptr<gateway_snapshot> snapshot) {
  auto& state = self->state;
  state.how = std::move(how);
  state.self_id = std::move(self_id);
  state.control_address = std::move(control_address);
  state.text = std::move(text);
  state.local = std::move(local);
  state.snapshot = std::move(snapshot);
  state.init(self);
  return {
      [&state](const wire<seal>& order) { return state.on_seal(order); },
      [self, &state](const wire<turn_tokens>& tokens) { state.on_tokens(self, tokens); },
      [self, &state](const wire<turn_failure>& failure) { state.on_failure(self, failure); },
      [self, &state](const wire<cluster_view>& view) { state.on_view(self, view); },
      [self, &state](const submit_turn& order) { state.on_submit(self, order); },
      [self, &state](const cancel_turn& order) { state.on_cancel(self, order); },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

gateway_handles spawn_gateway_actor(caf::actor_system& system, gateway_options how, process_id self,
                                    std::string control_address,
                                    std::shared_ptr<const engines::tokenizer> text, directory_ptr local) {
  auto snapshot = std::make_shared<gateway_snapshot>();
  auto actor = system.spawn(gateway_behavior, std::move(how), std::move(self), std::move(control_address),
                            text, std::move(local), snapshot);
  return {caf::actor_cast<gateway_actor>(actor), std::make_shared<gateway_service>(actor, text, snapshot)};
}

}  // namespace baton::actors
