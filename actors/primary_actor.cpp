#include "actors/primary_actor.hpp"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 50ms;
/// An archive that takes longer for one object is not waited for: what it would bring is computed again.
constexpr auto restore_timeout = 5s;

spdlog::logger& log() {
  static const auto logger = log_of("primary");
  return *logger;
}

struct primary_state {
  std::shared_ptr<node_parts> node;
  std::unique_ptr<protocol::primary_table> table;
  std::map<process_id, gateway_actor> gateways;
  orchestrator_actor orchestrator;
  std::map<protocol::request_ticket, caf::typed_response_promise<wire<open_turn_reply>>> open_requests;
  std::map<std::string, link_figures> links;
  archive_figures archive;
  link_figures archive_link;
  struct restoring {
    session_id from{};
    std::uint64_t generation = 0;
    std::shared_ptr<const protocol::session_log> log;
    position rows = 0;  // in the engine
  };
  std::map<session_id, restoring> restores;
  protocol::request_ticket next_ticket = 1;
  steady::time_point lease_until = steady::time_point::min();

  using pointer = primary_core_actor::stateful_pointer<primary_state>;

  void init(pointer self, std::shared_ptr<node_parts> parts, protocol::primary_table::options options) {
    node = std::move(parts);
    table = std::make_unique<protocol::primary_table>(std::move(options));
    self->set_down_handler([this, self](const caf::down_msg& down) { on_down(self, down); });
    self->delayed_send(self, tick_period, tick_atom::value);
  }

  /// By the clock of now: this process may have been stopped since it last heard of its lease.
  [[nodiscard]] bool lease_valid() const { return steady::now() < lease_until; }

  void carry_out(pointer self, protocol::primary_effects effects) {
    for (protocol::primary_effect& effect : effects)
      std::visit([&](auto& what) { act(self, what); }, effect);
  }

  template <class Message>
  void to_all_links(pointer self, const Message& message) {
    for (const auto& [name, replicator] : node->replicators)
      self->send(replicator, message);
    if (node->archive) self->send(node->archive->replicator, message);
  }
  /// To those that it names, or all.
  template <class Order>
  void to_its_links(pointer self, const Order& order) {
    if (order.standbys.empty())
      for (const auto& [name, replicator] : node->replicators)
        self->send(replicator, order);
    for (const std::string& name : order.standbys)
      if (const auto found = node->replicators.find(name); found != node->replicators.end())
        self->send(found->second, order);
  }

  // --- effects
  // --------------------------------------------------------------------------------------------------------

  void act(pointer self, protocol::take_replicas& order) {
    log().info("taking over group={} epoch={}", raw(order.group), raw(order.epoch));
    self->request(node->standby, limits::request_timeout, order).then([this, self](taken_replicas& taken) {
      on_taken(self, taken);
    });
  }
  void act(pointer self, protocol::return_replicas& order) {
    log().info("stepping down group={} sessions={}", raw(order.group), order.sessions.size());
    self->send(node->standby, std::move(order));
  }
  void act(pointer self, protocol::seal_gateway& effect) {
    const auto gateway = gateways.find(effect.gateway);
    const group_id group = effect.order.group;
    const baton::epoch epoch = effect.order.epoch;
    const process_id who = effect.gateway;
    const auto answered = [this, self, who, group, epoch](const result<seal_reply>& reply) {
      carry_out(self, table->on_seal_reply(who, group, epoch, reply, steady::now()));
    };
    if (gateway == gateways.end()) {
      // It has not said hello to this node: it will, and then opens its turns by itself.
      answered(error{errc::connection_lost, "gateway unknown here"});
      return;
    }
    self->request(gateway->second, limits::request_timeout, wire<seal>{effect.order})
        .then([answered](const wire<seal_reply>& reply) { answered(reply.read()); },
              [answered](const caf::error&) {
                answered(error{errc::timed_out, "no answer to a seal"});
              });
  }
  void act(pointer, protocol::reply_open& effect) {
    const auto found = open_requests.find(effect.to);
    if (found == open_requests.end()) return;
    found->second.deliver(wire<open_turn_reply>{effect.reply});
    open_requests.erase(found);
  }
  void act(pointer self, protocol::emit_tokens& effect) {
    if (const auto to = gateways.find(effect.gateway); to != gateways.end())
      self->send(to->second, wire<turn_tokens>{effect.tokens});
  }
  void act(pointer self, protocol::emit_failure& effect) {
    log().warn("turn failed session={} reason={}", raw(effect.failure.session), effect.failure.reason);
    if (const auto to = gateways.find(effect.gateway); to != gateways.end())
      self->send(to->second, wire<turn_failure>{effect.failure});
  }
  using record_handler = protocol::primary_effects (protocol::primary_table::*)(group_id,
                                                                                const result<in_sync_reply>&,
                                                                                protocol::time_point);

  /// Asks the orchestrator for a change of a record; `answered` of the table hears the answer.
  template <class Change>
  void wish(pointer self, const Change& change, record_handler answered) {
    if (!orchestrator) return;  // asked again on a tick
    self->request(orchestrator, limits::request_timeout, wire<Change>{change})
        .then(
            [this, self, group = change.group, answered](const wire<in_sync_reply>& reply) {
              carry_out(self, ((*table).*answered)(group, reply.read(), steady::now()));
            },
            [](const caf::error&) {});
  }
  void act(pointer self, protocol::ask_in_sync& effect) {
    wish(self, effect.change, &protocol::primary_table::on_in_sync_reply);
  }
  void act(pointer self, protocol::ask_hand_over& effect) {
    log().info("handing over group={} epoch={} to={}", raw(effect.change.group), raw(effect.change.epoch),
               effect.change.to.name);
    wish(self, effect.change, &protocol::primary_table::on_hand_over_reply);
  }
  void act(pointer self, protocol::appoint& order) {
    if (const auto found = node->replicators.find(order.standby); found != node->replicators.end())
      self->send(found->second, order);
  }
  void act(pointer self, protocol::begin_replication& order) { to_its_links(self, order); }
  void act(pointer self, protocol::replicate_records& order) { to_all_links(self, order); }
  void act(pointer self, protocol::begin_archiving& order) {
    self->send(node->archive->replicator, std::move(order.what));
  }
  void act(pointer self, protocol::end_replication& order) {
    to_its_links(self, order);
    // What the archive has written stays; only who goes on with the session may go on writing.
    if (node->archive && order.standbys.empty())
      self->send(node->archive->replicator, protocol::end_replication{order.session, true, {}});
  }
  void act(pointer self, protocol::cut_engine& order) {
    to_all_links(self, rows_held{order.session, order.rows});
    self->send(node->engine_loop, order);
  }
  void act(pointer self, protocol::restore_rows& order) {
    log().info("restoring session={} from={}", raw(order.session), raw(order.from));
    restores.insert_or_assign(order.session,
                              restoring{order.from, order.generation,
                                        std::make_shared<protocol::session_log>(std::move(order.log)), 0});
    fetch(self, order.session);
  }
  void act(pointer self, protocol::run_engine& order) { self->send(node->engine_loop, std::move(order)); }
  void act(pointer self, protocol::allow_engine& order) { self->send(node->engine_loop, order); }
  void act(pointer self, protocol::stop_engine& order) { self->send(node->engine_loop, order); }
  void act(pointer self, protocol::pause_engine& order) { self->send(node->engine_loop, order); }
  void act(pointer self, protocol::drop_engine& order) {
    self->send(node->engine_loop, order);
    if (order.place_unused) node->places->give_back();
  }

  // --- events
  // ---------------------------------------------------------------------------------------------------------

  void on_taken(pointer self, taken_replicas& taken) {
    std::optional<std::vector<protocol::held_replica>> sessions;
    if (taken.taken) sessions = std::move(taken.sessions);
    carry_out(self, table->on_replicas(taken.group, taken.epoch, std::move(sessions), steady::now()));
  }

  bool on_hello(pointer self, const wire<gateway_hello>& message, const gateway_actor& handle) {
    const auto hello = message.read();
    if (!hello) return false;
    log().debug("gateway known name={}", hello->gateway.name);
    gateways.insert_or_assign(hello->gateway, handle);
    self->monitor(handle);
    return true;
  }

  void on_down(pointer self, const caf::down_msg& down) {
    for (auto it = gateways.begin(); it != gateways.end(); ++it) {
      if (it->second.address() != down.source) continue;
      const process_id lost = it->first;
      gateways.erase(it);
      log().info("gateway lost name={}", lost.name);
      carry_out(self, table->on_gateway_lost(lost));
      return;
    }
  }

  caf::result<wire<open_turn_reply>> on_open(pointer self, const wire<open_turn>& message) {
    const auto request = message.read();
    if (!request) {
      open_turn_reply reply;
      reply.refusal = request.code();
      reply.reason = request.failure().what;
      return wire<open_turn_reply>{reply};
    }
    auto promise = self->make_response_promise<wire<open_turn_reply>>();
    const protocol::request_ticket ticket = next_ticket++;
    open_requests.emplace(ticket, promise);
    carry_out(self, table->on_open_turn(ticket, *request, lease_valid(), steady::now()));
    return promise;
  }

  // --- rows out of the archive
  // ------------------------------------------------------------------------------------------------------

  /// One object after the other: each is in the engine before the next is read.
  void fetch(pointer self, session_id session) {
    const restoring& it = restores.at(session);
    const std::uint64_t generation = it.generation;
    self->request(node->archive->restorer, restore_timeout,
                  fetch_rows{session, it.from, generation, it.rows, it.log})
        .then([this, self](const fetched_rows& rows) { on_fetched(self, rows); },
              [this, self, session, generation](const caf::error&) {
                log().warn("archive slow session={}", raw(session));
                restored(self, session, generation);
              });
  }

  restoring* restore_of(session_id session, std::uint64_t generation) {
    const auto found = restores.find(session);
    return found == restores.end() || found->second.generation != generation ? nullptr : &found->second;
  }

  void on_fetched(pointer self, const fetched_rows& rows) {
    if (restore_of(rows.session, rows.generation) == nullptr) return;
    // The engine has been cut meanwhile: it takes rows of the history as it is now only.
    if (rows.image == nullptr || !table->exports_current(rows.session, rows.generation))
      restored(self, rows.session, rows.generation);
    else
      self->send(node->engine_loop,
                 import_order{rows.session, rows.generation, rows.first, rows.image, true});
  }

  void on_imported(pointer self, const import_done& done) {
    restoring* it = restore_of(done.session, done.generation);
    if (it == nullptr) return;
    if (!done.outcome) {
      log().warn("restored rows refused reason={}", done.outcome.failure().what);
      restored(self, done.session, done.generation);
      return;
    }
    it->rows = done.end;
    fetch(self, done.session);
  }

  void restored(pointer self, session_id session, std::uint64_t generation) {
    const restoring* it = restore_of(session, generation);
    if (it == nullptr) return;
    const position rows = it->rows;
    restores.erase(session);
    log().info("restored session={} rows={}", raw(session), rows);
    carry_out(self, table->on_restored(session, generation, rows, lease_valid()));
  }

  void on_packed(pointer self, const packed_slot& packed) {
    if (table->exports_current(packed.rows.session, packed.rows.generation)) to_all_links(self, packed);
  }

  void on_link(pointer self, const link_report& report) {
    const auto now = steady::now();
    if (!report.archive)
      carry_out(self, report.up ? table->on_link_up(report.standby, report.who, now)
                                : table->on_link_down(report.standby, now));
    link_figures& link = report.archive ? archive_link : links[report.standby];
    link.standby = report.standby;
    link.up = report.up;
    link.carrier = report.carrier;
    bool any = archive_link.up;
    for (const auto& [name, it] : links)
      any = any || it.up;
    self->send(node->engine_loop, export_policy{any && node->plane->how().rows, node->every_tokens});
  }

  /// From here on fresh rows are exported as the policy says; those of before must be asked for by the links.
  void on_policy(pointer self) {
    for (const auto& [session, rows] : table->rows_held())
      to_all_links(self, rows_held{session, rows});
  }

  void on_news(pointer self, const link_news& news) {
    if (const auto* progress = std::get_if<protocol::standby_progress>(&news.what))
      carry_out(self, table->on_progress(news.standby, *progress, lease_valid(), steady::now()));
    else if (const auto* fenced = std::get_if<protocol::fenced>(&news.what))
      carry_out(self, table->on_fenced(fenced->group, fenced->epoch));
    else if (const auto* unprotected = std::get_if<protocol::unprotected>(&news.what))
      carry_out(self, table->on_unprotected(news.standby, unprotected->session, steady::now()));
    else if (const auto* wanted = std::get_if<protocol::want_rows>(&news.what))
      self->send(node->engine_loop, export_order{wanted->session, wanted->first, wanted->count});
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    carry_out(self, table->on_tick(lease_valid(), steady::now()));
  }

  [[nodiscard]] nlohmann::json archive_status() const {
    const auto& counted = archive.counted;
    return {{"to", archive_link.standby},
            {"up", archive_link.up},
            {"lag_tokens", archive_link.lag_tokens},
            {"waiting_bytes", archive.waiting_bytes},
            {"objects", counted.objects},
            {"object_bytes", counted.object_bytes},
            {"manifests", counted.manifests},
            {"removed", counted.removed},
            {"failures", counted.failures},
            {"refused", counted.refused}};
  }

  void report() { node->publish(table->statuses(), figures()); }

  [[nodiscard]] std::string figures() const {
    nlohmann::json out = nlohmann::json::object();
    const auto& counted = table->counted();
    out["sessions"] = table->sessions();
    out["turns"] = counted.turns;
    out["tokens"] = counted.tokens;
    out["released"] = counted.released;
    out["recomputed"] = counted.recomputed;
    out["promotions"] = counted.promotions;
    out["demotions"] = counted.demotions;
    out["refused"] = counted.refused;
    out["restored"] = counted.restored;
    if (node->archive) out["archive"] = archive_status();
    const auto replicas = node->plane->counted();
    out["replica"] = {{"records", replicas.records},
                      {"stale", replicas.stale},
                      {"gaps", replicas.gaps},
                      {"forks", replicas.forks},
                      {"corrupt", replicas.corrupt},
                      {"refused_rows", replicas.refused_rows},
                      {"synced_rows", replicas.synced_rows}};
    out["places"] = {{"total", node->places->total()}, {"unused", node->places->unused()}};
    out["replica"]["held"] = nlohmann::json::array();
    for (const auto& group : node->plane->summaries())
      out["replica"]["held"].push_back(
          {{"group", raw(group.group)}, {"epoch", raw(group.epoch)}, {"sessions", group.sessions}});
    const auto staging = node->device->staging().used();
    out["staging"] = {{"slots", staging.total}, {"lent", staging.lent}, {"quarantined", staging.quarantined}};
    out["kv_bytes_per_token"] = node->engine->layout().bytes_per_token();
    out["links"] = nlohmann::json::array();
    for (const auto& [name, link] : links)
      out["links"].push_back({{"from", node->self.name},
                              {"to", link.standby},
                              {"up", link.up},
                              {"carrier", link.carrier},
                              {"lag_tokens", link.lag_tokens},
                              {"deltas", link.counted.deltas},
                              {"delta_bytes", link.counted.delta_bytes},
                              {"delta_tokens", link.counted.delta_tokens},
                              {"retransmitted_tokens", link.counted.retransmitted_tokens},
                              {"resyncs", link.counted.resyncs}});
    return out.dump();
  }
};

primary_core_actor::behavior_type primary_behavior(primary_core_actor::stateful_pointer<primary_state> self,
                                                   std::shared_ptr<node_parts> node,
                                                   protocol::primary_table::options options) {
  self->state.init(self, std::move(node), std::move(options));
  auto& state = self->state;
  return {
      [self, &state](const wire<gateway_hello>& hello, const gateway_actor& gateway) {
        return state.on_hello(self, hello, gateway);
      },
      [self, &state](const wire<open_turn>& request) { return state.on_open(self, request); },
      [self, &state](const wire<end_turn>& message) {
        if (const auto request = message.read()) state.carry_out(self, state.table->on_end_turn(*request));
      },
      [&state](status_atom) { return state.figures(); },
      [self, &state](const protocol::engine_step& step) {
        state.carry_out(self, state.table->on_step(step, state.lease_valid(), steady::now()));
      },
      [self, &state](const engine_failed& failure) {
        state.carry_out(self, state.table->on_engine_failure(failure.session, failure.run, failure.why));
      },
      [self, &state](const packed_slot& packed) { state.on_packed(self, packed); },
      [self, &state](const link_report& report) { state.on_link(self, report); },
      [self, &state](const link_news& news) { state.on_news(self, news); },
      [&state](const link_figures& figures) {
        (figures.archive ? state.archive_link : state.links[figures.standby]) = figures;
      },
      [self, &state](const export_policy&) { state.on_policy(self); },
      [self, &state](const import_done& done) { state.on_imported(self, done); },
      [&state](const archive_figures& figures) { state.archive = figures; },
      [self, &state](const view_update& update) {
        state.carry_out(self, state.table->on_view(*update.view, steady::now()));
      },
      [&state](const lease_state& lease) {
        state.lease_until = lease.until;
        state.report();
      },
      [self, &state](const protocol::superseded& higher) {
        state.carry_out(self, state.table->on_fenced(higher.group, higher.epoch));
      },
      [self, &state](const protocol::appointed& what) {
        state.carry_out(self, state.table->on_appointed(what));
      },
      [&state](const orchestrator_actor& orchestrator) { state.orchestrator = orchestrator; },
      [self, &state](tick_atom) { state.on_tick(self); },
  };
}

}  // namespace

primary_core_actor spawn_primary_actor(caf::actor_system& system, std::shared_ptr<node_parts> node,
                                       protocol::primary_table::options options) {
  return system.spawn(primary_behavior, std::move(node), std::move(options));
}

}  // namespace baton::actors
