#include "apps/sim/simulation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::apps::sim {

using namespace actors;

namespace {

constexpr nanoseconds quiet_start = 400ms;
constexpr nanoseconds peace_within = 30s;
constexpr std::size_t most_places = 24;

}  // namespace

std::optional<left_out> left_out_named(std::string_view name) noexcept {
  const auto found = std::ranges::find(left_out_names, name);
  if (found == left_out_names.end()) return std::nullopt;
  return static_cast<left_out>(found - left_out_names.begin());
}

std::string_view name_of(fault_kind kind) noexcept {
  static constexpr std::array<std::string_view, fault_kinds> names{
      "kill_node",         "power_off_node",   "stop_node",    "kill_orchestrator",
      "stop_orchestrator", "kill_gateway",     "stop_gateway", "cut",
      "cut_one_way",       "isolate",          "reset",        "slow_path",
      "clock_jump",        "store_fails",      "store_lies",   "store_lags",
      "rows_flipped",      "doubled_messages", "drain_node"};
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

simulation::simulation(std::uint64_t seed, left_out without, bool traced)
    : in_(seed),
      all_(in_, {[this] {
                   std::vector<std::string> used;
                   for (const auto& it : clients_)
                     used.push_back(it->session());
                   return used;
                 },
                 [this](const std::shared_ptr<gateway>& gone) {
                   for (const auto& it : clients_)
                     it->lose(gone);
                 }}) {
  in_.without = without;
  in_.traced = traced;
  shape();
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
  // Large ones are sent in more than one delta.
  how.prefill_chunk =
      random.chance(0.2) ? random.between<std::uint32_t>(65, 160) : random.between<std::uint32_t>(2, 32);
  how.sessions = random.chance(0.3) ? random.between<std::size_t>(4, 8) : most_places;
  how.late_writes = random.chance(0.15);
  // Quarantine takes slots for good.
  how.staging_slots = how.late_writes ? 256 : random.chance(0.3) ? random.between<std::size_t>(8, 12) : 64;
  how.rows = how.commit.how == mode::strict || !random.chance(0.1);  // strict waits for rows
  how.step = random.time(300us, 4ms);
  in_.equip();
  all_.name_members();
  for (auto& [name, it] : all_.members())
    start(it);
  const std::size_t people = random.between<std::size_t>(1, 5);
  for (std::size_t i = 0; i < people; ++i) {
    const std::string home = random.pick(all_.gateway_names());
    clients_.push_back(std::make_shared<client>(in_, "client" + std::to_string(i),
                                                [this, home] { return all_.at(home)->as_gateway; }));
  }
  fault_gap_ = random.time(60ms, 1200ms);
}

void simulation::start(member& who) {
  if (!all_.start(who)) return_after(who, 50ms);
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

void simulation::isolate(const std::string& who, nanoseconds time) {
  for (const auto& [name, it] : all_.members()) {
    in_.paths.cut(who, name);
    in_.paths.cut(name, who);
  }
  in_.time.after(time, [this, who] {
    for (const auto& [name, it] : all_.members()) {
      in_.paths.heal(who, name);
      in_.paths.heal(name, who);
    }
  });
}

void simulation::inflict(fault_kind kind) {
  auto& random = in_.random;
  ++out_.faults[static_cast<std::size_t>(kind)];
  in_.note("fault " + std::string{name_of(kind)});
  const auto any_node = [&]() -> member& { return *all_.at(random.pick(all_.node_names())); };
  const auto any_gateway = [&]() -> member& { return *all_.at(random.pick(all_.gateway_names())); };
  const auto anyone = [&]() -> member& {
    return std::next(all_.members().begin(),
                     random.between<std::ptrdiff_t>(0, std::ssize(all_.members()) - 1))
        ->second;
  };
  const auto a_while = [&] { return random.chance(0.5) ? random.time(1ms, 150ms) : random.time(150ms, 3s); };
  const auto for_a_while = [&](auto&& on, auto&& off) {
    on();
    in_.time.after(a_while(), off);
  };
  const auto sometimes = [&](double& chance, double low, double high) {
    for_a_while([&] { chance = random.real(low, high); }, [&chance] { chance = 0; });
  };
  switch (kind) {
    case fault_kind::kill_node:
    case fault_kind::power_off_node: {
      member& who = any_node();
      all_.die(who, kind == fault_kind::power_off_node);
      return_after(who, a_while());
      return;
    }
    case fault_kind::stop_node:
      return stop_for(any_node(), a_while());
    case fault_kind::kill_orchestrator:
      all_.die(*all_.at("orchestrator"), random.chance(0.3));
      return return_after(*all_.at("orchestrator"), a_while());
    case fault_kind::stop_orchestrator:
      return stop_for(*all_.at("orchestrator"), a_while());
    case fault_kind::kill_gateway: {
      member& who = any_gateway();
      all_.die(who, false);
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
      return isolate(who, a_while());
    }
    case fault_kind::reset:
      return in_.paths.reset(anyone().name, anyone().name);
    case fault_kind::slow_path:
      return slow_down(in_.paths.between(anyone().name, anyone().name), a_while());
    case fault_kind::clock_jump:
      return anyone().at->jump(random.time(1ms, 5s));
    case fault_kind::store_fails:
      return sometimes(in_.store.failing, 0.1, 1);
    case fault_kind::store_lies:
      return sometimes(in_.store.lying, 0.1, 1);
    case fault_kind::store_lags:
      return sometimes(in_.store.lagging, 0.1, 1);
    case fault_kind::rows_flipped:
      return sometimes(in_.data.flip_rows, 0.01, 0.5);
    case fault_kind::drain_node: {
      const std::shared_ptr<node> who = any_node().as_node;
      if (!who) return;
      return for_a_while([&] { who->drain(true); }, [who] { who->drain(false); });
    }
    case fault_kind::doubled_messages:
      return sometimes(in_.doubled, 0.05, 0.5);
  }
}

void simulation::heal() {
  peace_ = true;
  in_.note("peace");
  in_.store.failing = in_.store.lying = in_.store.lagging = 0;
  in_.data.flip_rows = 0;
  in_.doubled = 0;
  in_.paths.heal_all();
  for (auto& [name, it] : all_.members()) {
    it.at->go_on();
    if (!it.at->alive()) return_after(it, 10ms);
  }
}

// --- the run -----------------------------------------------------------------------------------------------

void simulation::explain() const {
  if (!in_.traced) return;
  in_.note("commit " + std::to_string(static_cast<int>(in_.how.commit.how)) + " every " +
           std::to_string(in_.how.every_tokens) + " slots " + std::to_string(in_.how.staging_slots) +
           " places " + std::to_string(in_.how.sessions) + " rows " + std::to_string(in_.how.rows));
  for (const std::string& line : all_.state())
    in_.note(line);
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
  all_.sweep();
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
  const bool room_for_all = in_.how.sessions == most_places && in_.how.replicas == 0;
  if (room_for_all && !run_until(in_.time.now() + peace_within, [this] { return all_.sets_are_full(); })) {
    std::string where;
    for (const std::string& line : all_.state())
      where += "; " + line;
    in_.blame("INV14: a node stays outside of an in-sync set" + where);
  }
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
  for (auto& [name, it] : all_.members())
    all_.die(it, false);
  out_.failovers = all_.counted().failovers;
  out_.stale = all_.counted().stale;
  out_.corrupt = all_.counted().corrupt;
  return out_;
}

}  // namespace baton::apps::sim
