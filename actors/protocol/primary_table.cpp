#include "actors/protocol/primary_table.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors::protocol {

const process_id* primary_table::find_by_name(const std::vector<process_id>& list, const std::string& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const process_id& it) { return it.name == name; });
  return found == list.end() ? nullptr : &*found;
}

primary_table::owned_group* primary_table::find_group(group_id group) {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

primary_table::served* primary_table::find_session(session_id session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

// --- ownership ---------------------------------------------------------------------------------------------

primary_effects primary_table::on_view(const cluster_view& view, time_point now) {
  primary_effects effects;
  if (view.term < view_term_ || (view.term == view_term_ && view.version <= view_version_)) return effects;
  view_term_ = view.term;
  view_version_ = view.version;
  gateways_ = view.gateways;
  for (const group_record& record : view.groups) {
    owned_group* mine = find_group(record.group);
    baton::epoch& highest = highest_[record.group];
    if (record.epoch < highest) continue;  // an old view
    highest = record.epoch;
    if (record.owner == how_.self) {
      if (mine == nullptr || mine->record.epoch < record.epoch) {
        begin_promotion(record, effects);
      } else if (mine->record.revision < record.revision) {
        update_record(*mine, record, effects, now);
      }
    } else if (mine != nullptr && record.epoch > mine->record.epoch) {
      demote(*mine, effects);
    }
  }
  want_moves(view, now, effects);
  return effects;
}

void primary_table::begin_promotion(const group_record& record, primary_effects& effects) {
  // Under a new epoch of our own, what we run already is taken back and promoted again like anybody's.
  if (owned_group* mine = find_group(record.group)) demote(*mine, effects);
  owned_group fresh;
  fresh.record = record;
  groups_.insert_or_assign(record.group, std::move(fresh));
  effects.emplace_back(take_replicas{record.group, record.epoch});
}

primary_effects primary_table::on_replicas(group_id group, baton::epoch epoch,
                                           std::optional<std::vector<held_replica>> replicas,
                                           time_point now) {
  primary_effects effects;
  owned_group* mine = find_group(group);
  if (mine == nullptr || mine->record.epoch != epoch || mine->state != phase::taking) {
    if (replicas) effects.emplace_back(return_replicas{group, std::move(*replicas)});
    return effects;
  }
  if (!replicas) {  // a higher epoch was seen on the data plane
    groups_.erase(group);
    return effects;
  }
  ++counters_.promotions;
  seal order{group, epoch, how_.self, {}};
  for (held_replica& replica : *replicas) {
    const session_id id = replica.log.session();
    order.held.push_back({id, replica.log.point()});
    served session{group, std::move(replica.log)};
    session.rows = replica.synced;
    session.released = 0;
    session.used_at = now;
    if (sessions_.contains(id))
      how_.places->give_back();  // of another group until now: the engine has it once
    served& placed = sessions_.insert_or_assign(id, std::move(session)).first->second;
    placed.released = placed.log.length();
    cut_engine_to(placed, placed.rows, effects);  // what was imported but not yet counted goes
  }
  mine->state = phase::sealing;
  for (const process_id& it : gateways_) {
    mine->unsealed.insert(it);
    effects.emplace_back(seal_gateway{it, order});
  }
  for (auto& [id, session] : sessions_)
    if (session.group == group)
      begin_with_all({group, epoch, session.log, session.rows, session.cuts, {}}, effects);
  choose_standbys(*mine, now, effects);
  if (mine->unsealed.empty()) mine->state = phase::serving;
  for (const auto& [name, link] : links_)
    consider_joining(*mine, name, now, effects);
  return effects;
}

void primary_table::begin_with_all(begin_replication order, primary_effects& effects) const {
  if (how_.archive) effects.emplace_back(begin_archiving{order});
  if (how_.replicas == 0) effects.emplace_back(std::move(order));
}

primary_effects primary_table::on_seal_reply(const process_id& gateway, group_id group, baton::epoch epoch,
                                             const result<seal_reply>& reply, time_point now) {
  primary_effects effects;
  owned_group* mine = find_group(group);
  if (mine == nullptr || mine->record.epoch != epoch || mine->unsealed.erase(gateway) == 0) return effects;
  if (reply && !reply->sealed && reply->highest > epoch) {
    highest_[group] = std::max(highest_[group], reply->highest);
    demote(*mine, effects);
    return effects;
  }
  if (mine->unsealed.empty()) mine->state = phase::serving;
  // Without an answer its streams are gone with it; it opens its turns anew when it comes back.
  std::vector<session_id> resumed;
  if (reply && reply->sealed)
    for (const open_turn& turn : reply->turns) {
      const open_turn_reply opened = open(turn, now, effects);
      if (opened.accepted)
        resumed.push_back(turn.history.session);
      else
        effects.emplace_back(emit_failure{gateway, turn_failure{group, epoch, turn.history.session, turn.turn,
                                                                opened.refusal, opened.reason}});
    }
  // What clients have is known now, so standbys can be judged by it, and are waited for before more is
  // released.
  for (const auto& [name, link] : links_)
    consider_joining(*mine, name, now, effects);
  for (const session_id session : resumed)
    release(sessions_.at(session), effects);
  return effects;
}

void primary_table::demote(owned_group& group, primary_effects& effects) {
  ++counters_.demotions;
  const group_id id = group.record.group;
  return_replicas back{id, {}};
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    served& session = it->second;
    if (session.group != id) {
      ++it;
      continue;
    }
    if (session.run != 0) effects.emplace_back(stop_engine{it->first, session.run});
    // Rows made since the last report belong to nobody.
    cut_engine_to(session, session.rows, effects);
    effects.emplace_back(end_replication{it->first, false, {}});
    back.sessions.push_back({id, std::move(session.log), session.rows});
    it = sessions_.erase(it);
  }
  groups_.erase(id);
  effects.emplace_back(std::move(back));
}

primary_effects primary_table::on_fenced(group_id group, baton::epoch epoch) {
  primary_effects effects;
  highest_[group] = std::max(highest_[group], epoch);
  if (owned_group* mine = find_group(group); mine != nullptr && mine->record.epoch < epoch)
    demote(*mine, effects);
  return effects;
}

// --- in-sync set -------------------------------------------------------------------------------------------

void primary_table::update_record(owned_group& group, const group_record& record, primary_effects& effects,
                                  time_point now) {
  group.record = record;
  for (auto& [name, state] : group.standbys) {
    if (find_by_name(record.in_sync, name) != nullptr)
      state.joining = false;
    else if (state.leaving && (!state.joining || record.revision > state.guard))
      state.joining = state.leaving = false;
  }
  // Who is in the set but no longer reachable must be taken out, e.g. after an addition that crossed a loss.
  for (const process_id& member : record.in_sync) {
    const auto link = links_.find(member.name);
    if (link == links_.end() || !link->second.up || link->second.who != member)
      leave(group, member.name, now, effects);
  }
  release_group(record.group, effects);
}

primary_effects primary_table::on_in_sync_reply(group_id group, const result<in_sync_reply>& reply,
                                                time_point now) {
  primary_effects effects;
  owned_group* mine = find_group(group);
  if (mine == nullptr || !reply) return effects;  // asked again on a tick
  const group_record& record = reply->record;
  if (record.epoch > mine->record.epoch) {
    highest_[group] = std::max(highest_[group], record.epoch);
    demote(*mine, effects);
    return effects;
  }
  if (record.owner == how_.self && record.epoch == mine->record.epoch &&
      record.revision >= mine->record.revision)
    update_record(*mine, record, effects, now);
  return effects;
}

void primary_table::ask(owned_group& group, const process_id& standby, bool add, primary_effects& effects) {
  in_sync_change change;
  change.group = group.record.group;
  change.epoch = group.record.epoch;
  change.revision = group.record.revision;
  change.owner = how_.self;
  change.standby = standby;
  change.add = add;
  effects.emplace_back(ask_in_sync{std::move(change)});
}

void primary_table::leave(owned_group& group, const std::string& standby, time_point now,
                          primary_effects& effects) {
  standby_state& state = group.standbys[standby];
  const process_id* member = find_by_name(group.record.in_sync, standby);
  if ((member == nullptr && !state.joining) || state.leaving) return;
  // To join may have been granted already, or be granted yet: it is waited for until the record is past that.
  state.leaving = true;
  state.asked_at = now;
  ask(group, member == nullptr ? state.who : *member, false, effects);
}

void primary_table::ask_to_join(owned_group& group, standby_state& state, const process_id& who,
                                time_point now, primary_effects& effects) {
  state.asked_at = now;
  state.who = who;
  state.guard = group.record.revision;
  ask(group, who, true, effects);
}

void primary_table::consider_joining(owned_group& group, const std::string& standby, time_point now,
                                     primary_effects& effects) {
  const auto link = links_.find(standby);
  standby_state& state = group.standbys[standby];
  if (!how_.wait_for_standbys || group.state != phase::serving || link == links_.end() || !link->second.up ||
      state.joining || state.leaving || find_by_name(group.record.in_sync, standby) != nullptr ||
      !is_standby(group, standby))
    return;
  for (const auto& [id, session] : sessions_) {
    if (session.group != group.record.group) continue;
    const auto held = session.held.find(standby);
    if (held == session.held.end() || held->second.logged < session.released) return;
  }
  // Rule I2: first wait for it, then the compare-and-swap.
  state.joining = true;
  ask_to_join(group, state, link->second.who, now, effects);
}

primary_effects primary_table::on_link_up(const std::string& standby, const process_id& who, time_point now) {
  primary_effects effects;
  links_[standby] = {who, true, {}};
  for (auto& [id, session] : sessions_)
    session.held.erase(standby);
  for (auto& [id, group] : groups_) {
    choose_standbys(group, now, effects);
    const process_id* member = find_by_name(group.record.in_sync, standby);
    if (member != nullptr && *member != who)
      leave(group, standby, now, effects);  // the member was an earlier incarnation
    consider_joining(group, standby, now, effects);
  }
  return effects;
}

primary_effects primary_table::on_link_down(const std::string& standby, time_point now) {
  primary_effects effects;
  links_[standby].up = false;
  links_[standby].lost_at = now;
  for (auto& [id, session] : sessions_)
    session.held.erase(standby);
  for (auto& [id, group] : groups_)
    leave(group, standby, now, effects);
  return effects;
}

primary_effects primary_table::on_unprotected(const std::string& standby, session_id session,
                                              time_point now) {
  primary_effects effects;
  served* held = find_session(session);
  owned_group* group = held == nullptr ? nullptr : find_group(held->group);
  if (group == nullptr) return effects;
  held->held.erase(standby);  // it joins again once it holds every session
  leave(*group, standby, now, effects);
  if (sessions_.size() > how_.sessions) evict_idle(true, effects);  // more than standbys have room for
  return effects;
}

primary_effects primary_table::on_progress(const std::string& standby, const standby_progress& progress,
                                           bool lease_valid, time_point now) {
  lease_valid_ = lease_valid;
  primary_effects effects;
  served* session = find_session(progress.session);
  owned_group* group = session == nullptr ? nullptr : find_group(session->group);
  if (group == nullptr || group->record.epoch != progress.epoch || progress.cuts != session->cuts ||
      !session->log.contains({progress.logged, progress.chain}))
    return effects;  // rule S5: it holds a tail that has been cut here since
  session->held[standby] = {progress.logged, progress.synced};
  release(*session, effects);
  consider_joining(*group, standby, now, effects);
  consider_moving(*group, now, effects);
  return effects;
}

}  // namespace baton::actors::protocol
