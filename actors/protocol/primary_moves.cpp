#include "actors/protocol/primary_table.hpp"

#include <algorithm>

#include "actors/protocol/in_sync.hpp"

/// Planned moves of a primary_table's groups (docs/protocol.md, M): the standby is caught up while decoding
/// goes on; then the group comes to rest at the boundary of a step. Meanwhile the orchestrator is asked to
/// make the standby the owner; it says so to nobody else, and when the standby holds everything, the old
/// owner tells it. Until the record has changed, the group goes on where it rests whatever goes wrong.
namespace baton::actors::protocol {

namespace {
/// So many tokens may be left to send when the group comes to rest.
constexpr position nearly = limits::delta_tokens;
}  // namespace

void primary_table::want_moves(const cluster_view& view, time_point now, primary_effects& effects) {
  for (auto next = groups_.begin(); next != groups_.end();) {
    owned_group& group = (next++)->second;  // which may be given up
    const group_record& record = group.record;
    const auto wanted = std::find_if(view.moves.begin(), view.moves.end(), [&record](const group_move& it) {
      return it.group == record.group && it.epoch == record.epoch;
    });
    group.wanted = wanted == view.moves.end() ? process_id{} : wanted->to;
    choose_standbys(group, now, effects);
    consider_moving(group, now, effects);
  }
}

/// Whether the standby that the group is to move to holds each session but for so many tokens.
bool primary_table::holds_all(const owned_group& group, position short_by) const {
  for (const auto& [id, session] : sessions_) {
    if (session.group != group.record.group) continue;
    const auto held = session.held.find(group.move_to.name);
    if (held == session.held.end() || held->second.logged + short_by < session.log.length()) return false;
    if (how_.rows_move && held->second.synced + short_by < session.rows) return false;
  }
  return true;
}

bool primary_table::runs_any(const owned_group& group) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& it) {
    return it.second.group == group.record.group && it.second.run != 0 && !it.second.finished;
  });
}

/// The group may be gone afterwards.
void primary_table::consider_moving(owned_group& group, time_point now, primary_effects& effects) {
  if (group.at_rest && !group.move_asked && group.move_to != group.wanted) resume(group, now, effects);
  if (!group.at_rest) group.move_to = group.wanted;
  if (group.move_to.name.empty() || group.state != phase::serving) return;
  const auto link = links_.find(group.move_to.name);
  const bool there = is_in_sync(group.record, group.move_to) && link != links_.end() && link->second.up;
  if (!group.at_rest) {
    if (!there || !holds_all(group, nearly) || now < group.move_again_at) return;
    group.at_rest = true;
    group.rest_since = now;
    for (auto& [id, session] : sessions_)
      if (session.group == group.record.group && session.run != 0 && !session.finished)
        effects.emplace_back(pause_engine{id, session.run});
  }
  const bool too_long = now - group.rest_since > how_.pause_at_most;
  if (group.given) {
    const bool all_said = there && !runs_any(group) && holds_all(group, 0);
    if (all_said || !there || too_long) hand_on(group, effects);
    return;
  }
  if (too_long || (!there && !group.move_asked)) {
    resume(group, now, effects);
    return;
  }
  if (now - group.move_asked_at < how_.pause_at_most / 4) return;
  group.move_asked = true;
  group.move_asked_at = now;
  effects.emplace_back(
      ask_hand_over{hand_over{group.record.group, group.record.epoch, how_.self, group.move_to}});
}

primary_effects primary_table::on_hand_over_reply(group_id id, const result<in_sync_reply>& reply,
                                                  time_point now) {
  owned_group* mine = find_group(id);
  if (mine == nullptr || !reply) return {};
  primary_effects effects;
  const group_record& record = reply->record;
  if (mine->at_rest && record.epoch > mine->record.epoch && record.owner == mine->move_to) {
    highest_[id] = std::max(highest_[id], record.epoch);
    mine->given = record.epoch;
    consider_moving(*mine, now, effects);
    return effects;
  }
  effects = on_in_sync_reply(id, reply, now);
  // Refused, or without an answer, it is asked again until the group has rested enough. If it has been made
  // after all, standbys and gateways know the new epoch, and refuse this one.
  if (mine = find_group(id); mine != nullptr) {
    mine->move_asked = false;
    consider_moving(*mine, now, effects);
  }
  return effects;
}

/// The group has a new owner, which hears of it from here: sooner than from the orchestrator, and behind
/// everything else. If it does not, the orchestrator says so, once this node reports the group no more.
void primary_table::hand_on(owned_group& group, primary_effects& effects) {
  effects.emplace_back(appoint{group.move_to.name, {group.record.group, *group.given}});
  demote(group, effects);
}

primary_effects primary_table::on_appointed(const appointed& what) {
  primary_effects effects;
  if (what.epoch <= highest_[what.group]) return effects;  // a view was first, or it belongs to others by now
  highest_[what.group] = what.epoch;
  group_record record;
  record.group = what.group;
  record.epoch = what.epoch;
  record.revision = raw(what.epoch);
  record.owner = how_.self;
  begin_promotion(record, effects);
  return effects;
}

void primary_table::on_paused(served& session, time_point now, primary_effects& effects) {
  owned_group& group = *find_group(session.group);
  session.run = 0;
  if (group.at_rest)
    consider_moving(group, now, effects);
  else
    start_run(session, effects);  // the move was given up before the engine had paused
}

/// Goes on as the owner; a move that is still wanted is tried again after a while.
void primary_table::resume(owned_group& group, time_point now, primary_effects& effects) {
  if (!group.at_rest) return;
  group.at_rest = false;
  group.move_asked = false;
  group.move_again_at = now + how_.pause_at_most;
  for (auto& [id, session] : sessions_)
    if (session.group == group.record.group && session.live && session.run == 0 && !session.finished)
      start_run(session, effects);
}

}  // namespace baton::actors::protocol
