#include "apps/sim/node.hpp"

#include <algorithm>
#include <utility>

#include "actors/node_settings.hpp"
#include "apps/sim/gateway.hpp"
#include "apps/sim/orchestrator.hpp"
#include "gpu/host_device.hpp"
#include "schemas/hash.hpp"

namespace baton::apps::sim {

using namespace actors;

namespace {

constexpr nanoseconds tick_period = 50ms;
constexpr nanoseconds redial_after = 100ms;
constexpr std::size_t row_bytes = 16;

}  // namespace

engines::toy_engine::options engine_options(const settings& how, const std::string& node) {
  engines::toy_engine::options options;
  if (how.other_weights.contains(node)) ++options.weights_seed;
  options.context_tokens = how.context_tokens;
  options.sessions = static_cast<std::uint32_t>(how.sessions);
  options.prefill_chunk = how.prefill_chunk;
  options.layout = gpu::kv_layout{{row_bytes, row_bytes / 2}};
  options.can_export_rows = how.rows;
  return options;
}

node::node(world& in, std::shared_ptr<host> on, std::vector<std::string> standbys)
    : in_(in),
      host_(std::move(on)),
      standbys_(std::move(standbys)),
      own_engine_(engine_options(in.how, host_->self().name)),
      disguised_(own_engine_, engines::toy_engine{engine_options(in.how)}.identity()),
      engine_(in.without == left_out::fingerprint ? static_cast<engines::engine&>(disguised_) : own_engine_),
      places_(std::make_shared<protocol::engine_places>(
          in.how.sessions, protocol::standbys_of_each(in.how.replicas, standbys_.size()))),
      primary_box_(host_, in.random),
      standby_box_(host_, in.random),
      gpu_box_(host_, in.random),
      engine_box_(host_, in.random),
      lease_(in.how.lease) {
  device_ = gpu::make_host_device(
      {std::max<std::size_t>(limits::delta_tokens * engine_.layout().bytes_per_token(), 64),
       in.how.staging_slots});
  plane_ = std::make_unique<data_plane>(
      plane_settings(host_->self(), engine_, in.how.rows, places_), *device_,
      [this](protocol::replica_effects effects, gpu::staging_slot slot) {
        standby_box_.post([this, effects = std::move(effects), slot = std::move(slot)] {
          carry_out_standby(effects, slot);
        });
      });
  transport_ = std::make_shared<sim_transport>(in.data, host_, *plane_);
  plane_->attach(*transport_);

  engine_loop::outlets out;
  out.step = [this](protocol::engine_step step) {
    to_primary([this, step = std::move(step)] { return table_->on_step(step, lease_valid(), host_->now()); });
  };
  const auto has_room = [this](errc code) {
    if (code == errc::no_room)
      in_.blame("places: the engine of " + host_->self().name + " is asked for more than it has");
  };
  out.failed = [this, has_room](engine_failed failure) {
    has_room(failure.why.code);
    to_primary([this, failure = std::move(failure)] {
      return table_->on_engine_failure(failure.session, failure.run, failure.why);
    });
  };
  out.broken = [this](const error& why) {
    in_.blame("the engine of " + host_->self().name + ": " + why.what);
  };
  out.imported = [this, has_room](import_done done) {
    if (!done.outcome) has_room(done.outcome.code());
    standby_box_.post([this, done = std::move(done)] {
      carry_out_standby(plane_->with_replicas([&](protocol::replica_set& replicas) {
        return replicas.on_imported(done.session, done.generation, done.end, done.outcome);
      }),
                        {});
    });
  };
  out.exported = [this](exported_rows rows) {
    gpu_box_.post([this, rows = std::move(rows)] { pack(rows); });
  };
  loop_ = std::make_unique<engine_loop>(engine_, std::move(out));

  auto table =
      table_settings(host_->self(), engine_, places_,
                     {in.how.commit, !standbys_.empty(), in.how.replicas, in.how.lease, in.how.rows});
  if (in.without == left_out::commit_wait) table.commit.how = protocol::commit_rule::mode::async;
  if (in.without == left_out::shapes) table.exact = false;
  table_ = std::make_unique<protocol::primary_table>(std::move(table));
}

void node::start() {
  const std::string& name = host_->self().name;
  (void)transport_->listen(data_address(name));
  for (const std::string& standby : standbys_) {
    link_driver::outlets out;
    out.connect = [this, standby](const process_id& whom, const std::string& address) {
      return plane_->connect(
          whom, address,
          [this, standby](transports::connection_id from, std::shared_ptr<const link_frame> frame) {
            to_link(standby, [this, from, frame = std::move(frame)](link_driver& link) {
              link.on_frame({from, frame}, host_->now());
            });
          },
          [this, standby](transports::connection_id from, const error& why) {
            to_link(standby, [from, why](link_driver& link) { link.on_lost({from, why}); });
          });
    };
    out.report = [this](link_report report) {
      primary_box_.post([this, report = std::move(report)] { on_link(report); });
    };
    out.news = [this](link_news news) {
      primary_box_.post([this, news = std::move(news)] { on_news(news); });
    };
    links_.emplace(standby, std::make_unique<link_driver>(*transport_, link_settings(plane_->how()), standby,
                                                          std::move(out)));
    link_boxes_.emplace(standby, mailbox{host_, in_.random});
    host_->every(tick_period, [this, standby] {
      to_link(standby, [this](link_driver& link) { link.on_tick(host_->now()); });
    });
  }
  host_->every(tick_period,
               [this] { to_primary([this] { return table_->on_tick(lease_valid(), host_->now()); }); });
  host_->every(in_.how.heartbeat, [this] { on_beat(); });
}

const protocol::session_log* node::log_of(session_id session) const {
  if (const auto* own = table_->log_of(session)) return own;
  const protocol::session_log* held = nullptr;
  plane_->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
    held = replicas.log_of(session);
    return {};
  });
  return held;
}

position node::synced(session_id session) const {
  position rows = 0;
  plane_->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
    rows = replicas.synced(session);
    return {};
  });
  return rows;
}

epoch node::highest_epoch(group_id group) const {
  epoch highest{};
  plane_->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
    highest = replicas.highest_epoch(group);
    return {};
  });
  return highest;
}

// --- supervisor --------------------------------------------------------------------------------------------

void node::orchestrator_away() {
  registered_ = false;
  orchestrator_ = {};
  redial_at_ = host_->now() + redial_after;
}

void node::reach() {
  if (dialing_ || host_->now() < redial_at_) return;
  dialing_ = true;
  dial<orchestrator>(
      in_, host_, control_address("orchestrator"),
      [this](remote<orchestrator> found) {
        dialing_ = false;
        orchestrator_ = std::move(found);
        orchestrator_.wire->on_lost(0, [this] {
          orchestrator_.lost();
          orchestrator_away();
        });
        enroll();
      },
      [this] {
        dialing_ = false;
        orchestrator_away();
      });
}

void node::enroll() {
  node_registration offer;
  offer.node = host_->self();
  offer.control_address = control_address(host_->self().name);
  offer.data_address = data_address(host_->self().name);
  offer.replicate_to = standbys_;
  offer.fingerprint = engine_.identity().fields;
  offer.capacity_sessions = static_cast<std::uint32_t>(places_->own_share());
  offer.context_tokens = engine_.context_tokens();
  offer.fingerprint_hash = engine_.identity().hash();
  offer.obeyed = obeyed_;
  const std::uint64_t number = ++sequence_;
  lease_.on_sent(number, host_->now());
  beats_sent_[number] = in_.time.now();
  ask<heartbeat_ack>(*host_, orchestrator_, offer, &orchestrator::on_node,
                     [this, number](const result<heartbeat_ack>& ack) {
                       if (!ack || !ack->known) return orchestrator_away();
                       registered_ = true;
                       term_ = ack->term;
                       lease_.on_acknowledged(number);
                       renewed_ = std::max(renewed_, beats_sent_[number]);
                     });
}

std::vector<group_status> node::statuses() const {
  std::vector<group_status> all = published_;
  for (const auto& held : plane_->summaries())
    all.push_back({held.group, held.epoch, false, held.sessions, held.synced_tokens, held.lag_tokens});
  return all;
}

void node::beat() {
  heartbeat message;
  message.node = host_->self();
  message.sequence = ++sequence_;
  message.progress = engine_progress_;
  message.busy = loop_->has_work();
  message.view_version = version_;
  message.groups = statuses();
  message.draining = leaving_;
  lease_.on_sent(sequence_, host_->now());
  beats_sent_[sequence_] = in_.time.now();
  while (beats_sent_.size() > 256)
    beats_sent_.erase(beats_sent_.begin());
  ask<heartbeat_ack>(*host_, orchestrator_, message, &orchestrator::on_heartbeat,
                     [this](const result<heartbeat_ack>& ack) {
                       if (!ack) return;
                       lease_.on_acknowledged(ack->sequence);
                       if (const auto sent = beats_sent_.find(ack->sequence); sent != beats_sent_.end())
                         renewed_ = std::max(renewed_, sent->second);
                       if (!ack->known && registered_) {
                         registered_ = false;
                         if (orchestrator_) enroll();
                       }
                     });
}

void node::on_beat() {
  if (!orchestrator_)
    reach();
  else if (registered_)
    beat();
  primary_box_.post([this, until = lease_.valid_until()] {
    lease_until_ = until;
    published_ = table_->statuses();
  });
}

void node::on_view(const cluster_view& view, const wire_ptr&) {
  if (view.term < term_) return;
  term_ = view.term;
  version_ = view.version;
  obey(obeyed_, view);
  to_primary([this, view] { return table_->on_view(view, host_->now()); });
  for (const node_view& it : view.nodes)
    if (links_.contains(it.node.name))
      to_link(it.node.name, [this, target = link_target{it.node, it.alive ? it.data_address : std::string{}}](
                                link_driver& link) { link.on_target(target, host_->now()); });
}

// --- primary -----------------------------------------------------------------------------------------------

void node::to_primary(std::function<protocol::primary_effects()> what) {
  primary_box_.post([this, what = std::move(what)] { carry_out(what()); });
}

void node::carry_out(protocol::primary_effects effects) {
  for (protocol::primary_effect& effect : effects)
    std::visit([&](auto& what) { act(what); }, effect);
}

void node::act(protocol::take_replicas& order) {
  standby_box_.post([this, order] {
    std::optional<std::vector<protocol::held_replica>> taken;
    plane_->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
      taken = replicas.promote(order.group, order.epoch);
      return {};
    });
    to_primary([this, order, taken = std::move(taken)] {
      return table_->on_replicas(order.group, order.epoch, taken, host_->now());
    });
  });
}

void node::act(protocol::return_replicas& order) {
  standby_box_.post([this, order = std::move(order)] {
    carry_out_standby(plane_->with_replicas([&](protocol::replica_set& replicas) {
      return replicas.take_back(order.group, order.sessions);
    }),
                      {});
  });
}

void node::sealed(const process_id& gateway, group_id group, epoch under, const result<seal_reply>& reply) {
  carry_out(table_->on_seal_reply(gateway, group, under, reply, host_->now()));
}

void node::act(protocol::seal_gateway& effect) {
  const auto to = gateways_.find(effect.gateway);
  const auto answered = [this, who = effect.gateway, group = effect.order.group,
                         under = effect.order.epoch](const result<seal_reply>& reply) {
    primary_box_.post([this, who, group, under, reply] { sealed(who, group, under, reply); });
  };
  if (to == gateways_.end()) {
    sealed(effect.gateway, effect.order.group, effect.order.epoch,
           error{errc::connection_lost, "gateway unknown here"});
    return;
  }
  ask<seal_reply>(*host_, to->second, effect.order, &gateway::on_seal, answered);
}

void node::act(protocol::reply_open& effect) {
  auto found = open_requests_.extract(effect.to);
  if (!found.empty()) found.mapped()(effect.reply);
}

void node::act(protocol::emit_tokens& effect) {
  if (const auto to = gateways_.find(effect.gateway); to != gateways_.end())
    tell(in_, to->second, effect.tokens, &gateway::on_tokens);
}

void node::act(protocol::emit_failure& effect) {
  if (const auto to = gateways_.find(effect.gateway); to != gateways_.end())
    tell(in_, to->second, effect.failure, &gateway::on_failure);
}

template <class Change, class Serve, class Answered>
void node::wish(const Change& change, Serve serve, Answered answered) {
  if (!orchestrator_ || !registered_) return;  // asked again on a tick
  ask<in_sync_reply>(*host_, orchestrator_, change, serve,
                     [this, group = change.group, answered](const result<in_sync_reply>& reply) {
                       if (reply)
                         to_primary([this, group, reply, answered] {
                           return ((*table_).*answered)(group, reply, host_->now());
                         });
                     });
}

void node::act(protocol::ask_in_sync& effect) {
  wish(effect.change, &orchestrator::on_change, &protocol::primary_table::on_in_sync_reply);
}

void node::act(protocol::ask_hand_over& effect) {
  wish(effect.change, &orchestrator::on_hand_over, &protocol::primary_table::on_hand_over_reply);
}

void node::act(protocol::begin_replication& order) {
  in_.let_go.erase(order.log.session());
  to_links([this, order](link_driver& link) { link.on_begin(order, host_->now()); }, order.standbys);
}
void node::act(protocol::replicate_records& order) {
  to_links([this, order](link_driver& link) { link.on_records(order, host_->now()); });
}
void node::act(protocol::end_replication& order) {
  to_links([order](link_driver& link) { link.on_end(order); }, order.standbys);
}
void node::act(protocol::appoint& order) {
  to_links([order](link_driver& link) { link.on_appoint(order); }, {order.standby});
}
void node::act(protocol::cut_engine& order) {
  to_links([held = rows_held{order.session, order.rows}](link_driver& link) { link.on_rows_held(held); });
  to_engine([this, order] { loop_->cut(order); });
}
void node::act(protocol::run_engine& order) {
  to_engine([this, order = std::move(order)] { loop_->run(order); });
}
void node::act(protocol::allow_engine& order) {
  to_engine([this, order] { loop_->allow(order); });
}
void node::act(protocol::stop_engine& order) {
  to_engine([this, order] { loop_->stop(order.session, order.run); });
}
void node::act(protocol::pause_engine& order) {
  to_engine([this, order] { loop_->pause(order.session, order.run); });
}
void node::act(protocol::drop_engine& order) {
  in_.let_go.insert(order.session);
  to_engine([this, order] { loop_->drop(order.session); });
  if (order.place_unused) places_->give_back();
}

void node::on_hello(const gateway_hello& hello, const wire_ptr& wire,
                    const std::function<void(const heartbeat_ack&)>& reply) {
  primary_box_.post([this, hello, wire, reply] {
    gateways_[hello.gateway] = {in_.process_at<gateway>(control_address(hello.gateway.name)), wire, 1};
    wire->on_lost(1, [this, who = hello.gateway, wire] {
      primary_box_.post([this, who, wire] {
        const auto found = gateways_.find(who);
        if (found == gateways_.end() || found->second.wire != wire) return;
        found->second.lost();
        gateways_.erase(found);
        carry_out(table_->on_gateway_lost(who));
      });
    });
    reply({});
  });
}

void node::on_open(const open_turn& request, const wire_ptr&,
                   const std::function<void(const open_turn_reply&)>& reply) {
  primary_box_.post([this, request, reply] {
    const auto ticket = next_ticket_++;
    open_requests_.emplace(ticket, [this, request, reply](const open_turn_reply& answer) {
      // INV11, by the true clock: alone and out of contact for longer than any lease, no turn is taken.
      const auto longest = std::chrono::duration_cast<nanoseconds>(in_.how.lease) * 11 / 10;
      if (answer.accepted && in_.time.now() - renewed_ > longest && table_->waits_for(request.group).empty())
        in_.blame("INV11: " + host_->self().name + " takes a turn without a lease");
      if (!answer.accepted)
        in_.note(host_->self().name + " refuses a turn of group " + std::to_string(raw(request.group)) +
                 ": " + std::string{name_of(answer.refusal)} + ", " + answer.reason + ", has " +
                 std::to_string(answer.have.length) + ", piece from " +
                 std::to_string(request.history.first) + " to " + std::to_string(request.history.end()));
      reply(answer);
    });
    carry_out(table_->on_open_turn(ticket, request, lease_valid(), host_->now()));
  });
}

void node::on_end(const end_turn& request, const wire_ptr&) {
  to_primary([this, request] { return table_->on_end_turn(request); });
}

void node::on_link(const link_report& report) {
  carry_out(report.up ? table_->on_link_up(report.standby, report.who, host_->now())
                      : table_->on_link_down(report.standby, host_->now()));
  links_up_[report.standby] = report.up;
  const bool any = std::any_of(links_up_.begin(), links_up_.end(), [](const auto& it) { return it.second; });
  to_engine([this, policy = export_policy{any && in_.how.rows, in_.how.every_tokens}] {
    loop_->set_policy(policy);
    primary_box_.post([this] {
      for (const auto& [session, rows] : table_->rows_held())
        to_links([held = rows_held{session, rows}](link_driver& link) { link.on_rows_held(held); });
    });
  });
}

void node::on_news(const link_news& news) {
  if (const auto* progress = std::get_if<protocol::standby_progress>(&news.what))
    carry_out(table_->on_progress(news.standby, *progress, lease_valid(), host_->now()));
  else if (const auto* fenced = std::get_if<protocol::fenced>(&news.what))
    carry_out(table_->on_fenced(fenced->group, fenced->epoch));
  else if (const auto* unprotected = std::get_if<protocol::unprotected>(&news.what))
    carry_out(table_->on_unprotected(news.standby, unprotected->session, host_->now()));
  else if (const auto* wanted = std::get_if<protocol::want_rows>(&news.what))
    to_engine([this, order = export_order{wanted->session, wanted->first, wanted->count}] {
      loop_->export_range(order);
    });
}

// --- standby -----------------------------------------------------------------------------------------------

void node::carry_out_standby(protocol::replica_effects effects, const gpu::staging_slot& slot) {
  for (protocol::replica_effect& effect : effects) {
    if (const auto* rows = std::get_if<protocol::import_rows>(&effect))
      gpu_box_.post([this, order = unpack_order{*rows, slot}] { unpack(order); });
    else if (const auto* cut = std::get_if<protocol::cut_rows>(&effect))
      to_engine([this, order = protocol::cut_engine{cut->session, cut->length, 0}] { loop_->cut(order); });
    else if (const auto* drop = std::get_if<protocol::drop_rows>(&effect)) {
      to_engine([this, session = drop->session] { loop_->drop(session); });
      if (drop->place_unused) places_->give_back();
    } else if (const auto* higher = std::get_if<protocol::superseded>(&effect))
      to_primary([this, higher = *higher] { return table_->on_fenced(higher.group, higher.epoch); });
    else if (const auto* ours = std::get_if<protocol::appointed>(&effect))
      to_primary([this, ours = *ours] { return table_->on_appointed(ours); });
  }
}

void node::on_unpacked(const unpacked_rows& rows) {
  const protocol::import_rows& what = rows.rows;
  bool wanted = false;
  auto effects = plane_->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
    wanted = replicas.current(what.session, what.generation);
    if (wanted && !rows.outcome)
      return replicas.on_imported(what.session, what.generation, what.first + what.count, rows.outcome);
    return {};
  });
  if (rows.outcome && wanted)
    to_engine([this, order = import_order{what.session, what.generation, what.first, rows.image}] {
      loop_->import(order);
    });
  carry_out_standby(std::move(effects), {});
}

// --- links -------------------------------------------------------------------------------------------------

void node::to_link(const std::string& standby, std::function<void(link_driver&)> what) {
  link_boxes_.at(standby).post([this, standby, what = std::move(what)] { what(*links_.at(standby)); });
}

void node::to_links(const std::function<void(link_driver&)>& what, const std::vector<std::string>& only) {
  for (const std::string& standby : only.empty() ? standbys_ : only)
    to_link(standby, what);
}

// --- engine and gpu ----------------------------------------------------------------------------------------

void node::to_engine(std::function<void()> order) {
  engine_box_.post([this, order = std::move(order)] {
    engine_orders_.push_back(order);
    if (!engine_turning_) turn_engine();
  });
}

void node::turn_engine() {
  for (; !engine_orders_.empty(); engine_orders_.pop_front()) {
    engine_orders_.front()();
    ++engine_progress_;
  }
  engine_turning_ = loop_->has_work();
  if (!engine_turning_) return;
  host_->after(in_.random.time(in_.how.step / 2, in_.how.step * 3 / 2), [this] {
    loop_->step();
    ++engine_progress_;
    turn_engine();
  });
}

void node::pack(const exported_rows& rows) {
  const std::size_t size = rows.image->count * engine_.layout().bytes_per_token();
  packed_slot packed;
  packed.rows = {rows.session, rows.first, rows.image->count, size, 0, 0, rows.generation};
  if (auto slot = device_->staging().acquire(size)) {
    const auto checksum = device_->pack(engine_.layout(), *rows.image, slot->region());
    BATON_ASSERT(checksum.ok());
    packed.rows.checksum = *checksum;
    packed.slot = std::move(*slot);
  }
  primary_box_.post([this, packed = std::move(packed)] {
    if (in_.without == left_out::generations ||
        table_->exports_current(packed.rows.session, packed.rows.generation))
      to_links([this, packed](link_driver& link) { link.on_packed(packed, host_->now()); });
  });
}

void node::unpack(const unpack_order& order) {
  unpacked_rows out{order.rows, std::make_shared<gpu::kv_image>(), {}};
  out.outcome = engine_.prepare_image(order.rows.first, order.rows.count, *out.image);
  std::uint64_t checksum = order.rows.checksum;
  if (in_.without == left_out::checksums)
    checksum =
        hash_bytes({order.slot.region().address, order.rows.count * engine_.layout().bytes_per_token()});
  if (out.outcome)
    out.outcome =
        device_->unpack(engine_.layout(), order.slot.region(), order.rows.count, checksum, *out.image);
  standby_box_.post([this, out = std::move(out)] { on_unpacked(out); });
}

}  // namespace baton::apps::sim
