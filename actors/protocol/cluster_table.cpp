#include "actors/protocol/cluster_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "actors/protocol/in_sync.hpp"

namespace baton::actors::protocol {

namespace {
constexpr std::size_t remembered_failovers = 256;
constexpr std::chrono::seconds patience_for_a_move{5};
/// Who has slept for so long may find its connections closed by others, or close them itself for want of
/// signs of life: that says nothing of them.
constexpr std::chrono::seconds long_sleep{1};
/// The old owner of a group that moves gives it up, finished or not, a second before.
constexpr std::chrono::seconds patience_for_a_word{3};
}  // namespace

cluster_table::cluster_table(options how, std::vector<group_record> records, time_point now)
    : how_(how), started_(now), ticked_at_(now) {
  for (group_record& record : records)
    groups_.emplace(record.group, std::move(record));
}

bool cluster_table::runs(const process_id& who) const {
  const auto found = nodes_.find(who.name);
  return found != nodes_.end() && found->second.alive && found->second.registration.node == who;
}

const group_status* cluster_table::status_of(const std::string& node, group_id group) const {
  const auto found = statuses_.find(node);
  if (found == statuses_.end()) return nullptr;
  const auto status = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const group_status& it) { return it.group == group; });
  return status == found->second.end() ? nullptr : &*status;
}

void cluster_table::changed(cluster_effects& effects) {
  ++version_;
  effects.emplace_back(publish_view{});
}

bool cluster_table::swap(group_record desired, std::uint64_t expected, bool new_epoch, pending_change why,
                         cluster_effects& effects) {
  if (pending_.contains(desired.group)) return false;
  if (new_epoch) why.owner = desired.owner;
  pending_.emplace(desired.group, std::move(why));
  effects.emplace_back(swap_record{std::move(desired), expected, new_epoch});
  return true;
}

// --- membership --------------------------------------------------------------------------------------------

bool cluster_table::silent(const member& node, time_point now) const {
  return now - node.heard > (just_woken(now) ? how_.lease : how_.suspect_after);
}

/// As after a start (rule T3): for a lease after a long sleep, all have time to be heard again.
bool cluster_table::just_woken(time_point now) const {
  return woken_at_ && now - *woken_at_ < how_.lease;
}

void cluster_table::note_sleep(time_point now) {
  if (now - ticked_at_ < long_sleep) return;
  woken_at_ = now;
  for (auto& [name, node] : nodes_)
    node.heard = node.progressed = now;
}

/// Not one of the living has been heard within `lately`: then it is this process that is cut off, or was
/// stopped, and nobody could take anything over anyway.
bool cluster_table::hears_nobody(time_point now, std::chrono::milliseconds lately) const {
  bool any = false;
  for (const auto& [name, node] : nodes_) {
    if (node.alive && now - node.heard <= lately) return false;
    any = any || node.alive;
  }
  return any;
}

/// Somebody is heard again: the silence of the others counts from here.
void cluster_table::listen_again(time_point now) {
  if (!hears_nobody(now, how_.suspect_after / 2)) return;
  for (auto& [name, node] : nodes_)
    node.heard = node.progressed = now;
}

bool cluster_table::foreign(const allegiance& obeyed) const {
  baton::epoch latest{};
  for (const auto& [id, record] : groups_)
    latest = std::max(latest, record.epoch);
  return obeyed.store != 0 &&
         (obeyed.store != how_.store || obeyed.term > how_.term || obeyed.epoch > latest);
}

cluster_effects cluster_table::on_node(const node_registration& offered, time_point now) {
  cluster_effects effects;
  if (replaced(offered.node) || foreign(offered.obeyed)) return effects;
  node_registration node = offered;
  node.obeyed = {};  // which changes
  note_sleep(now);
  listen_again(now);
  const auto known = nodes_.find(node.node.name);
  if (known != nodes_.end() && known->second.registration.node != node.node && known->second.alive)
    lose(known->second, "restarted", now, effects);
  member& it = nodes_[node.node.name];
  const bool returned = it.alive && it.registration == node;
  if (it.registration.node != node.node) {
    it.leaving = it.drained = false;
    if (!it.registration.node.name.empty()) it.replaced.insert(it.registration.node.incarnation);
  }
  it.registration = node;
  it.alive = true;
  it.since = returned ? it.since : now;
  it.heard = now;
  it.progressed = now;
  if (returned) return effects;
  statuses_.erase(node.node.name);
  // Rule I3: an earlier incarnation leaves every in-sync set before this one is used.
  for (const auto& [id, record] : groups_)
    settle(record, now, effects);
  give_work(it, now, effects);
  make_sure(effects);
  changed(effects);
  return effects;
}

bool cluster_table::replaced(const process_id& node) const {
  const auto known = nodes_.find(node.name);
  return known != nodes_.end() && known->second.replaced.contains(node.incarnation);
}

cluster_effects cluster_table::on_gateway(const gateway_registration& offered, time_point) {
  cluster_effects effects;
  if (foreign(offered.obeyed)) return effects;
  gateway_registration gateway = offered;
  gateway.obeyed = {};
  if (const auto known = gateways_.find(gateway.gateway.name);
      known != gateways_.end() && known->second == gateway)
    return effects;
  gateways_[gateway.gateway.name] = gateway;
  changed(effects);
  return effects;
}

heartbeat_ack cluster_table::on_heartbeat(const heartbeat& beat, time_point now, cluster_effects& effects) {
  heartbeat_ack ack{beat.sequence, how_.term, false};
  const auto found = nodes_.find(beat.node.name);
  if (found == nodes_.end() || found->second.registration.node != beat.node) return ack;
  ack.known = true;
  note_sleep(now);
  listen_again(now);
  member& node = found->second;
  node.heard = now;
  node.busy = beat.busy;
  if (beat.progress != node.progress || !beat.busy) {
    node.progress = beat.progress;
    node.progressed = now;
  }
  statuses_[beat.node.name] = beat.groups;
  show_handed_on(now, effects);
  if (std::exchange(node.leaving, beat.draining) != beat.draining) changed(effects);
  const bool stalled = node.busy && now - node.progressed > how_.stalled_after;
  if (!node.alive && !stalled) {  // it was suspected, wrongly or not; what it owned may belong to others now
    node.alive = true;
    node.since = now;
    for (const auto& [id, record] : groups_)
      settle(record, now, effects);
    give_work(node, now, effects);
    changed(effects);
  }
  if (beat.view_version < version_) effects.emplace_back(publish_view{});
  return ack;
}

cluster_effects cluster_table::on_lost(const process_id& who, const std::string& cause, time_point now) {
  cluster_effects effects;
  if (const auto gateway = gateways_.find(who.name);
      gateway != gateways_.end() && gateway->second.gateway == who) {
    gateways_.erase(gateway);
    changed(effects);
    return effects;
  }
  const auto node = nodes_.find(who.name);
  note_sleep(now);
  // Its connection has ended at last, like all others; or it is our own that has.
  if (hears_nobody(now, how_.suspect_after) || just_woken(now)) return effects;
  if (node != nodes_.end() && node->second.registration.node == who && node->second.alive)
    lose(node->second, cause, now, effects);
  return effects;
}

void cluster_table::lose(member& node, const std::string& cause, time_point now, cluster_effects& effects) {
  node.alive = false;
  std::erase_if(ordered_, [&](const auto& it) { return it.second == node.registration.node.name; });
  // First what it owned, then the sets it was in: clients wait for the former.
  for (const auto& [id, record] : groups_)
    if (record.owner == node.registration.node) fail_over(record, cause, now, effects);
  for (const auto& [id, record] : groups_)
    if (record.owner != node.registration.node && !record.owner.name.empty())
      remove_from(record, node.registration.node, effects);
  changed(effects);
  show_handed_on(now, effects);
}

cluster_effects cluster_table::on_tick(time_point now) {
  cluster_effects effects;
  note_sleep(now);
  // If it was this process that slept, the heartbeats of the meantime are still behind this tick: silence
  // means nothing. Two such ticks in a row are a slow clock or a busy machine, and judged.
  const bool late = now - std::exchange(ticked_at_, now) > 5 * how_.tick_period;
  if (late && !std::exchange(overslept_, true)) return effects;
  overslept_ = false;
  // Others are heard more lately than who is suspected: at the moment when this process goes deaf, one of
  // them is the first to have been silent for too long.
  if (hears_nobody(now, how_.suspect_after / 2)) return effects;
  // All who are dead are, before the first of their groups is given away: none may go to another of them.
  std::vector<std::pair<member*, const char*>> dead;
  for (auto& [name, node] : nodes_) {
    if (!node.alive) continue;
    if (silent(node, now))
      dead.emplace_back(&node, "no heartbeat");
    else if (node.busy && now - node.progressed > how_.stalled_after)
      dead.emplace_back(&node, "engine stalled");
  }
  for (const auto& [node, cause] : dead)
    node->alive = false;
  for (const auto& [node, cause] : dead)
    lose(*node, cause, now, effects);
  show_handed_on(now, effects);  // what has taken too long
  for (const auto& [id, record] : groups_)
    settle(record, now, effects);
  for (const auto& [name, node] : nodes_)
    if (node.alive) give_work(node, now, effects);
  make_sure(effects);
  return effects;
}

// --- ownership ---------------------------------------------------------------------------------------------

/// Brings one record in line with who is alive; does nothing where it already is.
void cluster_table::settle(const group_record& record, time_point now, cluster_effects& effects) {
  if (pending_.contains(record.group)) return;
  const bool owner_known = nodes_.contains(record.owner.name);
  // Rule T3: after a start, an owner that has not registered yet gets one lease to do so.
  if (!owner_known && !record.owner.name.empty() && now - started_ < how_.lease) return;
  if (!runs(record.owner)) {
    fail_over(record, "owner gone", now, effects);
    return;
  }
  for (const process_id& member : record.in_sync) {
    if (runs(member) || (!nodes_.contains(member.name) && now - started_ < how_.lease)) continue;
    remove_from(record, member, effects);
    return;
  }
}

const cluster_table::member* cluster_table::choose_successor(const group_record& record) const {
  // In sync, of the same model, to stay, gateways that miss it (fewer is more), synced tokens, free places.
  using rank = std::tuple<bool, bool, bool, std::ptrdiff_t, std::uint64_t, std::uint32_t>;
  const auto lost = nodes_.find(record.owner.name);
  const bool model_known = lost != nodes_.end() && lost->second.registration.node == record.owner;
  const member* best = nullptr;
  rank best_rank{};
  for (const auto& [name, node] : nodes_) {
    if (!node.alive || node.registration.node == record.owner) continue;
    const bool in_sync = is_in_sync(record, node.registration.node);
    // Rule P1: outside the in-sync set only while a gateway is there to give the log.
    if (!in_sync && gateways_.empty()) continue;
    const group_status* status = status_of(name, record.group);
    std::uint32_t sessions = 0;
    if (const auto found = statuses_.find(name); found != statuses_.end())
      for (const group_status& it : found->second)
        sessions += it.owner ? it.sessions : 0;
    const std::uint32_t capacity = node.registration.capacity_sessions;
    const bool same_model =
        !model_known || lost->second.registration.fingerprint_hash == node.registration.fingerprint_hash;
    const rank candidate{in_sync,
                         same_model,
                         !node.draining(),
                         -static_cast<std::ptrdiff_t>(missed_by_gateways(node.registration.node)),
                         status == nullptr ? 0 : status->synced_tokens,
                         capacity - std::min(capacity, sessions)};
    if (best == nullptr || candidate > best_rank) {
      best = &node;
      best_rank = candidate;
    }
  }
  return best;
}

void cluster_table::fail_over(const group_record& record, const std::string& cause, time_point now,
                              cluster_effects& effects) {
  const member* successor = choose_successor(record);
  if (successor == nullptr && record.owner.name.empty()) return;  // nobody yet, and the record says so
  // Rule T3 again: who holds everything may be about to register.
  const bool awaited = now - started_ < how_.lease &&
                       std::any_of(record.in_sync.begin(), record.in_sync.end(),
                                   [&](const process_id& member) { return !nodes_.contains(member.name); });
  if (awaited && (successor == nullptr || !is_in_sync(record, successor->registration.node))) return;
  group_record desired = record;
  if (successor == nullptr) {
    desired.owner = {};  // who was in sync still is: nobody releases anything without them
  } else {
    desired.owner = successor->registration.node;
    desired.in_sync.clear();
  }
  failover_event event{record.group, record.owner, desired.owner, {}, cause, {}};
  if (const auto lost = nodes_.find(record.owner.name); lost != nodes_.end())
    event.detected_after = std::chrono::duration_cast<std::chrono::milliseconds>(now - lost->second.heard);
  swap(std::move(desired), record.revision, true, {std::nullopt, std::move(event), {}}, effects);
}

void cluster_table::remove_from(const group_record& record, const process_id& who, cluster_effects& effects) {
  group_record desired = record;
  if (std::erase(desired.in_sync, who) != 0) swap(std::move(desired), record.revision, false, {}, effects);
}

/// True if a group that nobody owns can still go to `who`: then it needs none of its own, and restarts do not
/// pile up groups.
bool cluster_table::may_inherit(const process_id& who, time_point now) const {
  for (const auto& [id, record] : groups_) {
    const auto change = pending_.find(id);
    if (runs(record.owner) || (change != pending_.end() && !change->second.owner.name.empty())) continue;
    if (!record.owner.name.empty() && !nodes_.contains(record.owner.name) && now - started_ < how_.lease)
      continue;  // rule T3
    if (!gateways_.empty() || is_in_sync(record, who)) return true;
  }
  return false;
}

/// A group without sessions whose owner has others as well; nothing if there is none.
const group_record* cluster_table::find_spare() const {
  for (const auto& [id, record] : groups_) {
    const group_status* status = status_of(record.owner.name, id);
    const bool empty =
        status != nullptr && status->owner && status->epoch == record.epoch && status->sessions == 0;
    const process_id& owner = record.owner;
    const auto owned = std::count_if(groups_.begin(), groups_.end(),
                                     [&owner](const auto& it) { return it.second.owner == owner; });
    if (empty && owned > 1 && runs(record.owner) && !pending_.contains(id)) return &record;
  }
  return nullptr;
}

void cluster_table::give_work(const member& node, time_point now, cluster_effects& effects) {
  if (node.draining()) return;
  const process_id& who = node.registration.node;
  group_id highest{};
  for (const auto& [id, record] : groups_) {
    highest = std::max(highest, id);
    if (record.owner == who) return;
  }
  for (const auto& [id, change] : pending_) {
    highest = std::max(highest, id);
    if (change.owner == who) return;
  }
  if (may_inherit(who, now)) return;
  // Rather an empty group of a node that has several than one more for every restart.
  if (const group_record* spare = find_spare()) {
    group_record moved = *spare;
    moved.owner = who;
    moved.in_sync.clear();
    swap(std::move(moved), spare->revision, true, {}, effects);
    return;
  }
  // If there are groups enough, one is moved to it once it holds all of that, see `moves`.
  if (enough_groups() && now - node.since < patience_for_a_move) return;
  group_record fresh;
  fresh.group = group_id{raw(highest) + 1};
  fresh.owner = who;
  swap(std::move(fresh), 0, true, {}, effects);
}

/// What a write has come to is learned by another one, which succeeds only if that one has not. Of a group
/// that is not known, which nobody begins anew by now, that one makes a record without an owner.
void cluster_table::make_sure(cluster_effects& effects) {
  for (const group_id unsure : unsure_) {
    const auto known = groups_.find(unsure);
    group_record nobodys;
    nobodys.group = unsure;
    if (known != groups_.end())
      swap(known->second, known->second.revision, false, {}, effects);
    else
      swap(std::move(nobodys), 0, true, {}, effects);
  }
}

/// The truth, or nothing: who asks goes on from the answer.
void cluster_table::reply(change_ticket ticket, group_id group, bool changed,
                          cluster_effects& effects) const {
  const auto found = groups_.find(group);
  std::optional<in_sync_reply> answer;
  if (!unsure_.contains(group))
    answer = in_sync_reply{changed, found == groups_.end() ? group_record{} : found->second};
  effects.emplace_back(reply_change{ticket, std::move(answer)});
}

cluster_effects cluster_table::on_change(change_ticket ticket, const in_sync_change& change, time_point) {
  cluster_effects effects;
  const auto found = groups_.find(change.group);
  const auto refuse = [&] {
    reply(ticket, change.group, false, effects);
    return effects;
  };
  if (found == groups_.end() || found->second.epoch != change.epoch || found->second.owner != change.owner ||
      (change.add && (!runs(change.standby) || found->second.revision != change.revision)) ||
      change.standby == change.owner)
    return refuse();
  group_record desired = found->second;
  const bool in = is_in_sync(desired, change.standby);
  // To take out who is not in is to make sure that an addition asked for under this revision comes too late:
  // it is written all the same.
  if (in == change.add && (in || found->second.revision != change.revision)) {
    reply(ticket, change.group, true, effects);
    return effects;
  }
  if (change.add)
    desired.in_sync.push_back(change.standby);
  else
    std::erase(desired.in_sync, change.standby);
  if (!swap(std::move(desired), found->second.revision, false, {ticket, std::nullopt, {}}, effects))
    return refuse();  // another change of the group is under way; the owner asks again
  return effects;
}

cluster_effects cluster_table::on_swapped(bool done, const group_record& outcome, time_point now) {
  cluster_effects effects;
  const auto pending = pending_.find(outcome.group);
  pending_change why;
  if (pending != pending_.end()) {
    why = std::move(pending->second);
    pending_.erase(pending);
  }
  if (const auto old = groups_.find(outcome.group); done && why.told_by_owner && old != groups_.end())
    handed_on_.insert_or_assign(outcome.group, hand_on{old->second, now + patience_for_a_word});
  else if (old != groups_.end() && old->second.epoch != outcome.epoch)
    handed_on_.erase(outcome.group);
  // Revision 0: the store has no such group, or could not say; then what was known stays known.
  if (outcome.revision != 0) {
    groups_[outcome.group] = outcome;
    unsure_.erase(outcome.group);
  } else if (!done) {
    unsure_.insert(outcome.group);
  }
  const auto known = groups_.find(outcome.group);
  const group_record record = known == groups_.end() ? outcome : known->second;
  if (why.ticket) reply(*why.ticket, outcome.group, done, effects);
  if (done && why.failover) {
    why.failover->epoch = record.epoch;
    failovers_.push_back(std::move(*why.failover));
    if (failovers_.size() > remembered_failovers) failovers_.erase(failovers_.begin());
  }
  show_handed_on(now, effects);
  changed(effects);
  if (done) settle(record, now, effects);
  return effects;
}

cluster_view cluster_table::view() const {
  cluster_view out;
  out.term = how_.term;
  out.store = how_.store;
  out.version = version_;
  for (const auto& [name, node] : nodes_) {
    node_view it;
    it.node = node.registration.node;
    it.control_address = node.registration.control_address;
    it.data_address = node.registration.data_address;
    it.replicate_to = node.registration.replicate_to;
    it.alive = node.alive;
    if (const auto found = statuses_.find(name); found != statuses_.end())
      for (const group_status& status : found->second)
        it.sessions += status.owner ? status.sessions : 0;
    it.capacity_sessions = node.registration.capacity_sessions;
    it.context_tokens = node.registration.context_tokens;
    it.fingerprint_hash = node.registration.fingerprint_hash;
    it.draining = node.draining();
    out.nodes.push_back(std::move(it));
  }
  for (const auto& [name, gateway] : gateways_)
    out.gateways.push_back(gateway.gateway);
  for (const auto& [id, record] : groups_) {
    const auto moving = handed_on_.find(id);
    out.groups.push_back(moving == handed_on_.end() ? record : moving->second.before);
  }
  out.moves = moves();
  return out;
}

}  // namespace baton::actors::protocol
