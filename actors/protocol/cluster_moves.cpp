#include <algorithm>
#include <utility>

#include "actors/protocol/cluster_table.hpp"
#include "actors/protocol/in_sync.hpp"

/// Planned moves of a cluster_table's groups (docs/protocol.md, M): what is to go where, by order or because
/// it is better there, and what is on its way from one owner to the next.
namespace baton::actors::protocol {

bool cluster_table::drain(const std::string& node, bool on, cluster_effects& effects) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || !found->second.alive) return false;
  std::erase_if(ordered_, [&](const auto& it) { return it.second == node; });
  if (std::exchange(found->second.drained, on) != on) changed(effects);
  return true;
}

bool cluster_table::move(group_id group, const std::string& node, cluster_effects& effects) {
  const auto to = nodes_.find(node);
  if (!groups_.contains(group) || to == nodes_.end() || !to->second.alive || to->second.draining())
    return false;
  ordered_[group] = node;
  changed(effects);
  return true;
}

/// Who is to have the group by order; nullptr if there is none, or that node cannot have it now.
const process_id* cluster_table::ordered_owner(const group_record& record) const {
  const auto ordered = ordered_.find(record.group);
  const auto to = ordered == ordered_.end() ? nodes_.end() : nodes_.find(ordered->second);
  return to == nodes_.end() || !to->second.alive || to->second.draining() ? nullptr
                                                                          : &to->second.registration.node;
}

/// How many gateways cannot reach the node.
std::size_t cluster_table::missed_by_gateways(const process_id& node) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      gateways_, [&](const auto& it) { return std::ranges::count(it.second.unreachable, node) > 0; }));
}

/// The in-sync standby to move to from an owner that drains, or that gateways cannot reach: the one that most
/// of them reach, then the one with least to run. An owner that does not drain stays unless more can be
/// reached elsewhere, so groups do not go to and fro.
const process_id* cluster_table::better_place(const group_record& record,
                                              const std::map<process_id, std::size_t>& load) const {
  const auto rank = [&](const process_id& it) {
    const auto has = load.find(it);
    return std::pair{missed_by_gateways(it), has == load.end() ? std::size_t{0} : has->second};
  };
  const process_id* best = nullptr;
  for (const process_id& it : record.in_sync)
    if (runs(it) && !nodes_.at(it.name).draining() && (best == nullptr || rank(it) < rank(*best))) best = &it;
  if (best == nullptr || nodes_.at(record.owner.name).draining()) return best;
  return missed_by_gateways(*best) < missed_by_gateways(record.owner) ? best : nullptr;
}

/// What is to go elsewhere: by order, or to a `better_place`, or to a node that owns none. A function of what
/// the version of the view counts: it changes with that only.
std::vector<group_move> cluster_table::moves() const {
  std::map<process_id, std::size_t> load;
  for (const auto& [id, record] : groups_)
    ++load[record.owner];
  std::vector<group_move> out;
  for (const auto& [id, record] : groups_) {
    if (const auto moving = handed_on_.find(id); moving != handed_on_.end()) {
      out.push_back({id, moving->second.before.epoch, record.owner});
      continue;
    }
    if (!runs(record.owner)) continue;
    if (const process_id* to = ordered_owner(record); to != nullptr) {
      if (*to != record.owner) out.push_back({id, record.epoch, *to});
      continue;
    }
    const process_id* best = better_place(record, load);
    if (best == nullptr) continue;
    ++load[*best];
    out.push_back({id, record.epoch, *best});
  }
  // Once there are groups enough, a node that owns none gets one that it holds all of, of who has most.
  if (!enough_groups()) return out;
  for (const auto& [name, node] : nodes_) {
    if (!node.alive || node.draining() || load[node.registration.node] != 0) continue;
    const group_record* best = nullptr;
    for (const auto& [id, record] : groups_)
      if (runs(record.owner) && !nodes_.at(record.owner.name).draining() && load[record.owner] > 1 &&
          is_in_sync(record, node.registration.node) && ordered_owner(record) == nullptr &&
          !handed_on_.contains(id) && (best == nullptr || load[record.owner] > load[best->owner]))
        best = &record;
    if (best == nullptr) continue;
    --load[best->owner];
    out.push_back({best->group, best->epoch, node.registration.node});
  }
  return out;
}

cluster_effects cluster_table::on_hand_over(change_ticket ticket, const hand_over& change, time_point) {
  cluster_effects effects;
  const auto found = groups_.find(change.group);
  if (found == groups_.end() || found->second.epoch != change.epoch || found->second.owner != change.owner ||
      !runs(change.to) || !is_in_sync(found->second, change.to)) {
    reply(ticket, change.group, false, effects);
    return effects;
  }
  group_record desired = found->second;
  desired.owner = change.to;
  desired.in_sync.clear();
  failover_event event{change.group, change.owner, change.to, {}, "planned move", {}};
  if (!swap(std::move(desired), found->second.revision, true, {ticket, std::move(event), {}, true}, effects))
    reply(ticket, change.group, false, effects);
  return effects;
}

bool cluster_table::still_handed_on(group_id group, const hand_on& it, time_point now) const {
  const group_record& record = groups_.at(group);
  const auto reports = [&](const process_id& who, baton::epoch under) {
    const group_status* status = status_of(who.name, group);
    return status != nullptr && status->owner && status->epoch == under;
  };
  return now < it.until && runs(it.before.owner) && runs(record.owner) &&
         reports(it.before.owner, it.before.epoch) && !reports(record.owner, record.epoch);
}

void cluster_table::show_handed_on(time_point now, cluster_effects& effects) {
  if (std::erase_if(handed_on_, [&](const auto& it) { return !still_handed_on(it.first, it.second, now); }) !=
      0)
    changed(effects);
}

}  // namespace baton::actors::protocol
