#include "apps/sim/simulation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::apps::sim {

using namespace actors;

namespace {

constexpr nanoseconds quiet_start = 400ms;
constexpr nanoseconds peace_within = 30s;

}  // namespace

std::optional<left_out> left_out_named(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 6> names{"nothing",     "gateway_epochs", "seals",
                                                         "commit_wait", "checksums",      "generations"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<left_out>(found - names.begin());
}

std::string_view name_of(fault_kind kind) noexcept {
  static constexpr std::array<std::string_view, fault_kinds> names{
      "kill_node",    "power_off_node",   "stop_node",  "kill_orchestrator", "stop_orchestrator",
      "kill_gateway", "stop_gateway",     "cut",        "cut_one_way",       "isolate",
      "reset",        "slow_path",        "clock_jump", "store_fails",       "store_lies",
      "rows_flipped", "doubled_messages", "drain_node"};
  return names[static_cast<std::size_t>(kind)];
}

std::uint64_t outcome::all_faults() const noexcept {
  return std::accumulate(faults.begin(), faults.end(), std::uint64_t{0}) + flipped_rows + doubled_messages;
}

void outcome::add(const outcome& other) {
  events += other.events;
  failovers += other.failovers;
  turns += other.turns;
  finished += other.finished;
  failed += other.failed;
  cancelled += other.cancelled;
  broken += other.broken;
  tokens += other.tokens;
  survived += other.survived;
  for (std::size_t i = 0; i < fault_kinds; ++i)
    faults[i] += other.faults[i];
  flipped_rows += other.flipped_rows;
  doubled_messages += other.doubled_messages;
  stale += other.stale;
  corrupt += other.corrupt;
  simulated_seconds += other.simulated_seconds;
}

simulation::simulation(std::uint64_t seed, left_out without, bool traced) : in_(seed) {
  in_.without = without;
  in_.traced = traced;
  shape();
}

simulation::~simulation() {
  for (auto& [name, it] : members_)
    if (it.at) it.at->die();
}

// --- the cluster -------------------------------------------------------------------------------------------

void simulation::shape() {
  auto& random = in_.random;
  settings& how = in_.how;
  how.nodes = random.between<std::size_t>(2, 5);
  how.gateways = random.chance(0.25) ? 2 : 1;
  using mode = protocol::commit_rule::mode;
  const double rule = random.real(0, 1);
  how.commit.how = rule < 0.6    ? mode::semi_sync
                   : rule < 0.75 ? mode::async
                   : rule < 0.9  ? mode::strict
                                 : mode::quorum;
  how.replicas = random.chance(0.5) ? random.between<std::size_t>(1, how.nodes - 1) : 0;
  how.commit.quorum = random.between<std::uint32_t>(1, 2);
  how.every_tokens = random.chance(0.5) ? 1 : random.between<std::uint32_t>(2, 24);
  how.prefill_chunk = random.between<std::uint32_t>(2, 32);
  how.sessions = random.chance(0.3) ? random.between<std::size_t>(4, 8) : 24;
  how.staging_slots = random.chance(0.3) ? random.between<std::size_t>(8, 12) : 64;
  how.rows = how.commit.how == mode::strict || !random.chance(0.1);  // strict waits for rows
  how.step = random.time(300us, 4ms);
  for (std::size_t i = 0; i < how.nodes; ++i)
    node_names_.push_back(std::string(1, static_cast<char>('a' + i)));
  for (std::size_t i = 0; i < how.gateways; ++i)
    gateway_names_.push_back("edge" + std::to_string(i));
  members_["orchestrator"].name = "orchestrator";
  for (const auto& list : {node_names_, gateway_names_})
    for (const std::string& name : list)
      members_[name].name = name;
  for (auto& [name, it] : members_)
    start(it);
  const std::size_t people = random.between<std::size_t>(1, 5);
  for (std::size_t i = 0; i < people; ++i) {
    const std::string home = random.pick(gateway_names_);
    clients_.push_back(std::make_shared<client>(in_, "client" + std::to_string(i),
                                                [this, home] { return at(home)->as_gateway; }));
  }
  fault_gap_ = random.time(60ms, 1200ms);
}

simulation::member* simulation::at(const std::string& name) {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : &found->second;
}

void simulation::start(member& who) {
  auto& random = in_.random;
  const double drift = random.chance(0.1) ? 0.05 : 0.0005;
  process_id self{who.name, incarnation{random.number()}};
  in_.note("start " + who.name + " " + std::to_string(raw(self.incarnation) % 1000));
  who.at = std::make_shared<host>(in_.time, self, 1 + random.real(-drift, drift),
                                  random.time(0ns, nanoseconds{24h}));
  in_.paths.listen(control_address(who.name), who.at);
  in_.paths.restarted(who.name);
  const bool is_node = std::find(node_names_.begin(), node_names_.end(), who.name) != node_names_.end();
  if (is_node) {
    std::vector<std::string> others;
    for (const std::string& name : node_names_)
      if (name != who.name) others.push_back(name);
    who.as_node = std::make_shared<node>(in_, who.at, others);
    in_.processes[control_address(who.name)] = who.as_node;
    who.as_node->start();
  } else if (who.name == "orchestrator") {
    who.as_orchestrator = std::make_shared<orchestrator>(in_, who.at);
    in_.processes[control_address(who.name)] = who.as_orchestrator;
    if (!who.as_orchestrator->start()) {
      die(who, false);
      return_after(who, 50ms);
    }
  } else {
    who.as_gateway = std::make_shared<gateway>(
        in_, who.at, [this, &who](const turn_tokens& tokens, const process_id& from) {
          on_released(*who.as_gateway, tokens, from);
        });
    in_.processes[control_address(who.name)] = who.as_gateway;
    who.as_gateway->start();
  }
}

void simulation::die(member& who, bool silent) {
  if (!who.at || !who.at->alive()) return;
  if (who.as_orchestrator && who.as_orchestrator->table())
    out_.failovers += who.as_orchestrator->table()->failovers().size();
  if (who.as_node) {
    out_.stale += who.as_node->refusals().stale;
    out_.corrupt += who.as_node->refusals().corrupt;
  }
  in_.note((silent ? "power off " : "kill ") + who.name);
  who.at->die();
  in_.paths.died(*who.at, silent);
  in_.processes.erase(control_address(who.name));
  if (who.as_node) graves_.push_back(std::exchange(who.as_node, nullptr));
  if (who.as_orchestrator) graves_.push_back(std::exchange(who.as_orchestrator, nullptr));
  if (who.as_gateway) {
    const auto gone = std::exchange(who.as_gateway, nullptr);
    graves_.push_back(gone);
    for (const auto& it : clients_)
      it->lose(gone);
  }
}

void simulation::return_after(member& who, nanoseconds delay) {
  if (who.returning) return;
  who.returning = true;
  in_.time.after(delay, [this, &who] {
    who.returning = false;
    if (!who.at->alive()) start(who);
  });
}

void simulation::stop_for(member& who, nanoseconds time) {
  if (!who.at->alive() || who.at->stopped()) return;
  in_.note("stop " + who.name + " for " + std::to_string(time / 1ms) + " ms");
  who.at->stop();
  in_.time.after(time, [at = who.at] { at->go_on(); });
}

// --- faults ------------------------------------------------------------------------------------------------

void simulation::plan_fault() {
  if (peace_) return;
  in_.time.after(in_.random.time(0ns, 2 * fault_gap_), [this] {
    if (peace_) return;
    inflict(static_cast<fault_kind>(in_.random.between<std::size_t>(0, fault_kinds - 1)));
    plan_fault();
  });
}

void simulation::slow_down(network::path& path, nanoseconds time) {
  auto& random = in_.random;
  const auto before = path;
  path.delay = random.time(1ms, 120ms);
  path.jitter = path.delay;
  path.bytes_per_us = random.real(0.02, 20);
  in_.time.after(time, [&path, before] {
    path.delay = before.delay;
    path.jitter = before.jitter;
    path.bytes_per_us = before.bytes_per_us;
  });
}

void simulation::inflict(fault_kind kind) {
  auto& random = in_.random;
  ++out_.faults[static_cast<std::size_t>(kind)];
  in_.note("fault " + std::string{name_of(kind)});
  const auto any_node = [&]() -> member& { return *at(random.pick(node_names_)); };
  const auto any_gateway = [&]() -> member& { return *at(random.pick(gateway_names_)); };
  const auto anyone = [&]() -> member& {
    return std::next(members_.begin(), random.between<std::ptrdiff_t>(0, std::ssize(members_) - 1))->second;
  };
  const auto a_while = [&] { return random.chance(0.5) ? random.time(1ms, 150ms) : random.time(150ms, 3s); };
  const auto for_a_while = [&](auto&& on, auto&& off) {
    on();
    in_.time.after(a_while(), off);
  };
  switch (kind) {
    case fault_kind::kill_node:
    case fault_kind::power_off_node: {
      member& who = any_node();
      die(who, kind == fault_kind::power_off_node);
      return_after(who, a_while());
      return;
    }
    case fault_kind::stop_node:
      return stop_for(any_node(), a_while());
    case fault_kind::kill_orchestrator:
      die(*at("orchestrator"), random.chance(0.3));
      return return_after(*at("orchestrator"), a_while());
    case fault_kind::stop_orchestrator:
      return stop_for(*at("orchestrator"), a_while());
    case fault_kind::kill_gateway: {
      member& who = any_gateway();
      die(who, false);
      return return_after(who, a_while());
    }
    case fault_kind::stop_gateway:
      return stop_for(any_gateway(), a_while());
    case fault_kind::cut:
    case fault_kind::cut_one_way: {
      const std::string a = anyone().name;
      const std::string b = anyone().name;
      const bool both = kind == fault_kind::cut;
      return for_a_while(
          [&] {
            in_.paths.cut(a, b);
            if (both) in_.paths.cut(b, a);
          },
          [this, a, b, both] {
            in_.paths.heal(a, b);
            if (both) in_.paths.heal(b, a);
          });
    }
    case fault_kind::isolate: {
      const std::string who = anyone().name;
      for (const auto& [name, it] : members_) {
        in_.paths.cut(who, name);
        in_.paths.cut(name, who);
      }
      in_.time.after(a_while(), [this, who] {
        for (const auto& [name, it] : members_) {
          in_.paths.heal(who, name);
          in_.paths.heal(name, who);
        }
      });
      return;
    }
    case fault_kind::reset:
      return in_.paths.reset(anyone().name, anyone().name);
    case fault_kind::slow_path:
      return slow_down(in_.paths.between(anyone().name, anyone().name), a_while());
    case fault_kind::clock_jump:
      return anyone().at->jump(random.time(1ms, 5s));
    case fault_kind::store_fails:
      return for_a_while([&] { in_.store.failing = random.real(0.1, 1); }, [this] { in_.store.failing = 0; });
    case fault_kind::store_lies:
      return for_a_while([&] { in_.store.lying = random.real(0.1, 1); }, [this] { in_.store.lying = 0; });
    case fault_kind::rows_flipped:
      return for_a_while([&] { in_.data.flip_rows = random.real(0.01, 0.5); },
                         [this] { in_.data.flip_rows = 0; });
    case fault_kind::drain_node: {
      const std::shared_ptr<node> who = any_node().as_node;
      if (!who) return;
      return for_a_while([&] { who->drain(true); }, [who] { who->drain(false); });
    }
    case fault_kind::doubled_messages:
      return for_a_while([&] { in_.doubled = random.real(0.05, 0.5); }, [this] { in_.doubled = 0; });
  }
}

void simulation::heal() {
  peace_ = true;
  in_.note("peace");
  in_.store.failing = in_.store.lying = 0;
  in_.data.flip_rows = 0;
  in_.doubled = 0;
  in_.paths.heal_all();
  for (auto& [name, it] : members_) {
    it.at->go_on();
    if (!it.at->alive()) return_after(it, 10ms);
  }
}

// --- checkers ----------------------------------------------------------------------------------------------

void simulation::on_released(gateway& at, const turn_tokens& tokens, const process_id& from) {
  if (tokens.epoch < at.core().sealed(tokens.group) && in_.without != left_out::gateway_epochs)
    return;  // refused
  for (const auto& it : clients_) {
    const gateway_session* session = at.core().find_session(it->session());
    if (session == nullptr || session->id != tokens.session) continue;
    position& known = released_[session->id];
    const auto& log = session->stream.log();
    if (log.last_turn()->number != tokens.turn || log.length() <= log.last_turn()->prompt_end)
      return;  // of a turn that is over
    if (log.length() <= known) {
      known = log.length();
      return;
    }
    known = log.length();
    const process_id* owner = in_.store.owner_under(tokens.group, tokens.epoch);
    if (owner == nullptr || (*owner != from && !from.name.empty()))
      in_.blame("INV4: tokens of epoch " + std::to_string(raw(tokens.epoch)) + " come from " + from.name +
                ", not from its owner");
    check_commit(session->id, log.point(), tokens.group);
    return;
  }
}

void simulation::check_commit(const session_id session, const history_point& released, group_id group) {
  using mode = protocol::commit_rule::mode;
  if (in_.how.commit.how != mode::semi_sync && in_.how.commit.how != mode::strict) return;
  const auto found = in_.store.records().find(group);
  if (found == in_.store.records().end()) return;
  // A session that its owner has let go of, for want of places, is protected by the gateway's own log.
  const member* owner = at(found->second.owner.name);
  if (owner != nullptr && owner->as_node && owner->as_node->log_of(session) == nullptr) return;
  for (const process_id& standby : found->second.in_sync) {
    const member* it = at(standby.name);
    if (it == nullptr || !it->as_node || it->as_node->on().self() != standby)
      continue;  // dead: it leaves the set
    const auto* log = it->as_node->log_of(session);
    if (log == nullptr || !log->contains(released))
      in_.blame("INV3: position " + std::to_string(released.length) + " of session " +
                std::to_string(raw(session)) + " is released, and the in-sync standby " + standby.name +
                " lacks it");
  }
}

void simulation::check_member(member& who) {
  if (!who.as_node) return;
  const node& it = *who.as_node;
  for (const auto& [group, record] : in_.store.records()) {
    epoch& seen = seen_[{who.at->self(), group}];
    const epoch now = it.highest_epoch(group);
    if (now < seen)
      in_.blame("INV4: the epoch of group " + std::to_string(raw(group)) + " falls at " + who.name);
    seen = now;
    if (record.owner != who.at->self() || it.table().epoch_of(group) != record.epoch) continue;
    const auto waited = it.table().waits_for(group);
    for (const process_id& standby : record.in_sync)
      if (std::find(waited.begin(), waited.end(), standby.name) == waited.end())
        in_.blame("INV7: " + who.name + " does not wait for " + standby.name +
                  ", which is in the in-sync set");
  }
  const auto staging = it.staging();
  if (staging.lent + staging.quarantined > staging.total)
    in_.blame("INV6: more slots lent than there are, at " + who.name);
}

void simulation::sweep() {
  for (auto& [name, it] : members_)
    check_member(it);
  if (!in_.store.misuse().empty()) in_.blame(in_.store.misuse());
  in_.time.after(10ms, [this] { sweep(); });
}

void simulation::explain() const {
  if (!in_.traced) return;
  in_.note("commit " + std::to_string(static_cast<int>(in_.how.commit.how)) + " every " +
           std::to_string(in_.how.every_tokens) + " slots " + std::to_string(in_.how.staging_slots) +
           " places " + std::to_string(in_.how.sessions) + " rows " + std::to_string(in_.how.rows));
  for (const auto& [group, record] : in_.store.records()) {
    std::string set;
    for (const process_id& it : record.in_sync)
      set += " " + it.name;
    in_.note("group " + std::to_string(raw(group)) + " epoch " + std::to_string(raw(record.epoch)) +
             " owner " + record.owner.name + " in sync" + set);
  }
  for (const auto& it : clients_)
    for (const auto& [name, who] : members_) {
      if (!who.as_gateway) continue;
      const gateway_session* session = who.as_gateway->core().find_session(it->session());
      if (session == nullptr) continue;
      std::string where;
      for (const auto& [other, held] : members_) {
        const auto* log = held.as_node ? held.as_node->log_of(session->id) : nullptr;
        if (log == nullptr) continue;
        where += " " + other + (held.as_node->table().log_of(session->id) != nullptr ? "*" : "") + ":" +
                 std::to_string(log->length()) + "/" + std::to_string(held.as_node->synced(session->id)) +
                 "/" + std::to_string(held.as_node->rows(session->id)) +
                 (log->contains(session->stream.log().point()) ? "" : "!");
      }
      in_.note(it->describe() + "; at " + name + " group " + std::to_string(raw(session->group)) + " log " +
               std::to_string(session->stream.log().length()) + where);
    }
}

std::string simulation::unrest() const {
  explain();
  std::string what;
  for (const auto& it : clients_)
    if (!it->done()) what += it->describe() + "; ";
  return what;
}

bool simulation::run_until(nanoseconds until, const std::function<bool()>& met) {
  while (in_.fault.empty() && in_.time.now() < until) {
    if (met()) return true;
    if (!in_.time.step()) break;
  }
  return in_.fault.empty() && met();
}

outcome simulation::run() {
  const auto never = [] { return false; };
  sweep();
  run_until(quiet_start, never);
  for (const auto& it : clients_)
    it->start();
  plan_fault();
  run_until(quiet_start + in_.random.time(1s, 8s), never);
  heal();
  for (const auto& it : clients_)
    it->finish();
  const nanoseconds healed = in_.time.now();
  if (!run_until(healed + peace_within, [this] {
        return std::all_of(clients_.begin(), clients_.end(), [](const auto& it) { return it->done(); });
      }))
    in_.blame("INV14: " + std::to_string(peace_within / 1s) + " s after the last fault: " + unrest());
  out_.violation = in_.fault;
  out_.events = in_.time.events();
  out_.simulated_seconds = std::chrono::duration<double>(in_.time.now()).count();
  for (const auto& it : clients_) {
    const auto& counted = it->counted();
    out_.turns += counted.turns;
    out_.finished += counted.finished;
    out_.failed += counted.failed;
    out_.cancelled += counted.cancelled;
    out_.broken += counted.broken;
    out_.tokens += counted.tokens;
    out_.survived += counted.failovers;
  }
  out_.flipped_rows = in_.data.flipped;
  out_.doubled_messages = in_.doubles;
  for (auto& [name, it] : members_)
    die(it, false);
  return out_;
}

}  // namespace baton::apps::sim
