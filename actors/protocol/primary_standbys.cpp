#include <algorithm>

#include "actors/protocol/primary_table.hpp"
#include "schemas/hash.hpp"

/// Which standbys the groups of a primary_table have (docs/protocol.md, R). Where a group is to have fewer
/// than there are links, it has those that come first in an order of its own, so that groups spread, and so
/// that after a take-over most of them are the ones that hold it already.
namespace baton::actors::protocol {

bool primary_table::is_standby(const owned_group& group, const std::string& name) const {
  return how_.replicas == 0 || group.chosen.contains(name);
}

/// Rendezvous hashing: of two names, the same one comes first whoever else there is.
std::uint64_t primary_table::place_in_order(group_id group, const std::string& name) {
  return hash_text(name, raw(group));
}

const std::string* primary_table::next_standby(const owned_group& group) const {
  const std::string* best = nullptr;
  for (const auto& [name, link] : links_)
    if (link.up && !group.chosen.contains(name) &&
        (best == nullptr ||
         place_in_order(group.record.group, name) < place_in_order(group.record.group, *best)))
      best = &name;
  return best;
}

/// To have it where it is to move, a group may have one standby more.
void primary_table::begin_with(owned_group& group, const std::string& standby, primary_effects& effects) {
  if (!group.chosen.insert(standby).second) return;
  for (const auto& [id, session] : sessions_)
    if (session.group == group.record.group)
      effects.emplace_back(begin_replication{
          group.record.group, group.record.epoch, session.log, session.rows, session.cuts, {standby}});
}

/// One that is lost keeps its place for a lease, for it may be back with all it had; then, and only if there
/// is another, that one gets the place, and with it every session of the group.
void primary_table::choose_standbys(owned_group& group, time_point now, primary_effects& effects) {
  if (how_.replicas == 0 || group.state == phase::taking) return;
  if (const auto wanted = links_.find(group.wanted.name); wanted != links_.end() && wanted->second.up)
    begin_with(group, group.wanted.name, effects);
  const auto waited = waits_for(group.record.group);
  const auto replaceable = [&](const std::string& name) {
    const link& it = links_.at(name);
    return !it.up && now - it.lost_at > how_.replace_after && std::ranges::count(waited, name) == 0;
  };
  for (;;) {
    const auto lost = std::ranges::find_if(group.chosen, replaceable);
    const std::string* next = next_standby(group);
    const std::size_t size = group.chosen.size();
    const bool drop =
        lost != group.chosen.end() && (size > how_.replicas || (size == how_.replicas && next != nullptr));
    if (!drop && (size >= how_.replicas || next == nullptr)) return;
    if (drop) {
      for (const auto& [id, session] : sessions_)
        if (session.group == group.record.group) effects.emplace_back(end_replication{id, true, {*lost}});
      group.chosen.erase(lost);
    } else {
      begin_with(group, *next, effects);
    }
  }
}

}  // namespace baton::actors::protocol
