#include "apps/sim/cluster.hpp"

#include <algorithm>
#include <utility>

namespace baton::apps::sim {

using namespace actors;

cluster::~cluster() {
  for (auto& [name, it] : members_)
    if (it.at) it.at->die();
}

// --- processes ---------------------------------------------------------------------------------------------

void cluster::name_members() {
  for (std::size_t i = 0; i < in_.how.nodes; ++i)
    node_names_.push_back(std::string(1, static_cast<char>('a' + i)));
  for (std::size_t i = 0; i < in_.how.gateways; ++i)
    gateway_names_.push_back("edge" + std::to_string(i));
  members_["orchestrator"].name = "orchestrator";
  for (const auto& list : {node_names_, gateway_names_})
    for (const std::string& name : list)
      members_[name].name = name;
}

cluster::member* cluster::at(const std::string& name) {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : &found->second;
}

bool cluster::start(member& who) {
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
      return false;
    }
  } else {
    who.as_gateway = std::make_shared<gateway>(
        in_, who.at, [this, &who](const turn_tokens& tokens, const process_id& from) {
          on_released(*who.as_gateway, tokens, from);
        });
    in_.processes[control_address(who.name)] = who.as_gateway;
    who.as_gateway->start();
  }
  return true;
}

void cluster::die(member& who, bool silent) {
  if (!who.at || !who.at->alive()) return;
  if (who.as_orchestrator && who.as_orchestrator->table())
    counted_.failovers += who.as_orchestrator->table()->failovers().size();
  if (who.as_node) {
    counted_.stale += who.as_node->refusals().stale;
    counted_.corrupt += who.as_node->refusals().corrupt;
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
    out_.gateway_lost(gone);
  }
}

std::string cluster::holders(const gateway_session& session) const {
  std::string all;
  for (const auto& [name, it] : members_) {
    const auto* log = it.as_node ? it.as_node->log_of(session.id) : nullptr;
    if (log == nullptr) continue;
    all += " " + name + (it.as_node->table().log_of(session.id) != nullptr ? "*" : "") + ":" +
           std::to_string(log->length()) + "/" + std::to_string(it.as_node->synced(session.id)) + "/" +
           std::to_string(it.as_node->rows(session.id)) +
           (log->contains(session.stream.log().point()) ? "" : "!");
  }
  return all;
}

std::vector<std::string> cluster::state() const {
  std::vector<std::string> lines;
  for (const auto& [group, record] : in_.store.records()) {
    std::string set;
    for (const process_id& it : record.in_sync)
      set += " " + it.name;
    lines.push_back("group " + std::to_string(raw(group)) + " epoch " + std::to_string(raw(record.epoch)) +
                    " owner " + (record.owner.name.empty() ? "nobody" : record.owner.name) + " in sync" +
                    (set.empty() ? " nobody" : set));
  }
  for (const std::string& used : out_.sessions())
    for (const auto& [name, who] : members_) {
      const gateway_session* session = who.as_gateway ? who.as_gateway->core().find_session(used) : nullptr;
      if (session == nullptr) continue;
      lines.push_back("session " + used + " group " + std::to_string(raw(session->group)) + " at " + name +
                      ":" + std::to_string(session->stream.log().length()) + holders(*session));
    }
  return lines;
}

bool cluster::sets_are_full() const {
  for (const auto& [group, record] : in_.store.records())
    for (const auto& [name, it] : members_) {
      if (!it.as_node || it.at->stopped() || it.at->self() == record.owner) continue;
      if (std::ranges::find(record.in_sync, it.at->self()) == record.in_sync.end()) return false;
    }
  return true;
}

// --- checkers ----------------------------------------------------------------------------------------------

void cluster::on_released(gateway& at, const turn_tokens& tokens, const process_id& from) {
  for (const std::string& name : out_.sessions()) {
    const gateway_session* session = at.core().find_session(name);
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
    if (tokens.epoch < at.core().sealed(tokens.group))
      in_.blame("INV4: tokens of epoch " + std::to_string(raw(tokens.epoch)) +
                " are taken after a higher one has been sealed");
    const process_id* owner = in_.store.owner_under(tokens.group, tokens.epoch);
    if (owner == nullptr || (*owner != from && !from.name.empty()))
      in_.blame("INV4: tokens of epoch " + std::to_string(raw(tokens.epoch)) + " come from " + from.name +
                ", not from its owner");
    check_commit(session->id, log.point(), tokens);
    return;
  }
}

void cluster::check_commit(const session_id session, const history_point& released,
                           const turn_tokens& tokens) {
  using mode = protocol::commit_rule::mode;
  if (in_.how.commit.how != mode::semi_sync && in_.how.commit.how != mode::strict) return;
  const auto found = in_.store.records().find(tokens.group);
  // What comes late, of an owner whose set is history and that has not been sealed off yet, is in the
  // gateway's log, which the next owner adopts.
  if (found == in_.store.records().end() || found->second.epoch != tokens.epoch) return;
  if (in_.let_go.contains(session)) return;
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

void cluster::check_member(member& who) {
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
  if (in_.data.overwrites > 0) in_.blame("INV12: a late write meets memory that is in use again");
}

void cluster::sweep() {
  for (auto& [name, it] : members_)
    check_member(it);
  if (!in_.store.misuse().empty()) in_.blame(in_.store.misuse());
  in_.time.after(10ms, [this] { sweep(); });
}

}  // namespace baton::apps::sim
