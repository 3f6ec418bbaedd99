#include "actors/protocol/replica_set.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/evaluation_plan.hpp"

namespace baton::actors::protocol {

namespace {
constexpr errc accepted{};  // no code: the rows may land
}

replica_ack replica_set::ack_of(const replica& held) const {
  replica_ack ack;
  ack.session = held.log.session();
  ack.epoch = highest_epoch(held.group);
  ack.logged = held.log.length();
  ack.chain = held.log.chain();
  ack.synced = held.synced;
  ack.expected = held.expected;
  ack.sequence = held.sequence;
  return ack;
}

replica_effect replica_set::problem(peer_handle to, session_id session, group_id group, errc code,
                                    bool about_rows) const {
  replica_ack ack;
  if (const auto found = replicas_.find(session); found != replicas_.end()) ack = ack_of(found->second);
  ack.session = session;
  ack.epoch = highest_epoch(group);
  ack.has_problem = true;
  ack.problem = code;
  ack.about_rows = about_rows;
  return send_ack{to, ack};
}

baton::epoch replica_set::highest_epoch(group_id group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? baton::epoch{} : found->second.highest;
}

bool replica_set::owned_here(group_id group) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && found->second.owned;
}

evaluation_plan replica_set::plan_of(const replica& held) const {
  return {held.log.turns(), how_.prefill_chunk};
}

const session_log* replica_set::log_of(session_id session) const {
  const auto found = replicas_.find(session);
  return found == replicas_.end() ? nullptr : &found->second.log;
}

std::optional<replica_set::snapshot> replica_set::snapshot_of(session_id session) const {
  const auto found = replicas_.find(session);
  if (found == replicas_.end()) return std::nullopt;
  const replica& held = found->second;
  return snapshot{held.log, held.epoch, held.generation};
}

position replica_set::synced(session_id session) const {
  const auto found = replicas_.find(session);
  return found == replicas_.end() ? 0 : found->second.synced;
}

bool replica_set::accept_epoch(peer_handle from, group_id group, baton::epoch epoch, session_id session,
                               replica_effects& effects) {
  group_state& state = groups_[group];
  if (epoch < state.highest || (state.owned && epoch == state.owned_under)) {
    ++counters_.stale;
    effects.push_back(problem(from, session, group, errc::stale_epoch, false));
    return false;
  }
  if (epoch == state.highest && from < state.peer) {
    ++counters_.stale;  // late, by a connection that its owner has replaced: nobody waits for an answer
    return false;
  }
  state.highest = epoch;
  state.peer = from;
  if (state.owned) {
    // Not answered: the sender asks again, and by then this node has stepped down.
    effects.emplace_back(superseded{group, epoch});
    return false;
  }
  return true;
}

/// The replica that a frame is about, made at the first. Nothing if there is no room, or if the session has
/// gone to another group under a higher epoch; then the refusal is among the effects.
replica_set::replica* replica_set::place(peer_handle from, group_id group, baton::epoch epoch,
                                         session_id session, std::uint64_t sequence,
                                         replica_effects& effects) {
  auto found = replicas_.find(session);
  if (found == replicas_.end()) {
    if (!find_place(effects)) {
      effects.push_back(problem(from, session, group, errc::no_room, false));
      return nullptr;
    }
    replica fresh{group, session_log{session, how_.fingerprint}};
    fresh.generation = next_generation_++;
    fresh.epoch = epoch;
    found = replicas_.emplace(session, std::move(fresh)).first;
  }
  replica& held = found->second;
  if (epoch < held.epoch) {  // epochs grow over all groups
    ++counters_.stale;
    effects.push_back(problem(from, session, group, errc::unknown_session, false));
    return nullptr;
  }
  if (epoch > held.epoch) held.astray = true;
  held.group = group;
  held.epoch = epoch;
  held.peer = from;
  held.sequence = sequence;
  held.touched = ++frames_;
  return &held;
}

/// One that is unused while the share lasts; else that of a replica that nobody keeps any more: its group has
/// another owner since the last word about it. A new owner does not know of what it never held, and so never
/// drops it. If it does know, it sends all of it again; until then it does not count this standby in sync.
bool replica_set::find_place(replica_effects& effects) {
  if (replicas_.size() < how_.sessions && how_.places->take()) return true;
  auto oldest = replicas_.end();
  for (auto it = replicas_.begin(); it != replicas_.end(); ++it)
    if (it->second.epoch < highest_epoch(it->second.group) &&
        (oldest == replicas_.end() || it->second.touched < oldest->second.touched))
      oldest = it;
  if (oldest == replicas_.end()) return false;
  effects.emplace_back(drop_rows{oldest->first, false});
  replicas_.erase(oldest);
  return true;
}

/// Rows between `synced` and `expected` are under way: nothing of them counts any more.
void replica_set::give_up_landings(replica& held, replica_effects& effects) {
  if (held.expected == held.synced) return;
  held.generation = next_generation_++;
  held.landed = held.expected = held.synced;
  held.landings.clear();
  effects.emplace_back(cut_rows{held.log.session(), held.synced, held.generation});
}

void replica_set::cut_rows_to(replica& held, position length, replica_effects& effects) {
  if (length >= held.expected) return;
  if (length >= held.synced) {
    give_up_landings(held, effects);
    return;
  }
  held.generation = next_generation_++;
  held.synced = held.landed = held.expected = length;
  held.landings.clear();
  effects.emplace_back(cut_rows{held.log.session(), length, held.generation});
}

replica_effects replica_set::on_records(peer_handle from, const session_records& records) {
  replica_effects effects;
  if (!accept_epoch(from, records.group, records.epoch, records.session, effects)) return effects;
  if (!records.records.empty() && std::holds_alternative<drop_record>(records.records.front())) {
    // Of a session that is in another group by now, or runs on this very node, there is nothing to drop.
    const auto found = replicas_.find(records.session);
    if (found != replicas_.end() && found->second.group == records.group &&
        found->second.epoch <= records.epoch) {
      replicas_.erase(found);
      effects.emplace_back(drop_rows{records.session});
    }
    return effects;
  }
  replica* held = place(from, records.group, records.epoch, records.session, records.sequence, effects);
  if (held == nullptr) return effects;
  if (held->astray) {
    effects.push_back(problem(from, records.session, records.group, errc::gap, false));
    return effects;
  }
  for (const session_record& record : records.records) {
    const position rows = plan_of(*held).rows_kept_after(record);
    if (const auto applied = held->log.apply(record); !applied) {
      held->astray = true;
      ++(applied.code() == errc::gap ? counters_.gaps : counters_.forks);
      effects.push_back(problem(from, records.session, records.group, applied.code(), false));
      return effects;
    }
    cut_rows_to(*held, rows, effects);
    ++counters_.records;
  }
  effects.emplace_back(send_ack{from, ack_of(*held)});
  return effects;
}

replica_effects replica_set::on_resync(peer_handle from, const resync_frame& frame) {
  replica_effects effects;
  if (!accept_epoch(from, frame.group, frame.epoch, frame.session, effects)) return effects;
  replica* held = place(from, frame.group, frame.epoch, frame.session, frame.sequence, effects);
  if (held == nullptr) return effects;
  // Only what is surely wrong is cut: the rest may have been acknowledged, and released because of that. The
  // sender looks whether its history has the point that is acknowledged now, and probes closer if not.
  held->astray = false;
  const position upto = held->log.undisputed(frame.probes);
  const position rows = plan_of(*held).rows_kept_at_cut(upto);
  held->log.truncate(upto);
  cut_rows_to(*held, rows, effects);
  // Rows that were on their way over the old connection will not come.
  give_up_landings(*held, effects);
  effects.emplace_back(send_ack{from, ack_of(*held)});
  return effects;
}

errc replica_set::judge(const delta_descriptor& rows, const replica* held) const {
  const position end = rows.first + rows.count;
  if (rows.count == 0 || end < rows.first) return errc::malformed;
  if (rows.fingerprint != how_.fingerprint || rows.first_region != 0 || rows.regions != how_.regions)
    return errc::fingerprint_mismatch;
  if (rows.bytes != rows.count * how_.bytes_per_token) return errc::malformed;
  if (held != nullptr && (held->group != rows.group || rows.epoch < held->epoch))
    return errc::unknown_session;
  if (held == nullptr || rows.epoch != held->epoch || rows.first != held->expected ||
      end > held->log.length())
    return errc::gap;
  if (held->log.chain_at(rows.first) != rows.chain_before || held->log.chain_at(end) != rows.chain_after)
    return errc::fork;
  if (end > how_.context_tokens) return errc::context_full;
  return accepted;
}

bool replica_set::admit(peer_handle from, const delta_descriptor& rows, replica_effects& effects) {
  if (!accept_epoch(from, rows.group, rows.epoch, rows.session, effects)) return false;
  const auto found = replicas_.find(rows.session);
  replica* held = found == replicas_.end() ? nullptr : &found->second;
  if (const errc verdict = judge(rows, held); verdict != accepted) {
    ++counters_.refused_rows;
    effects.push_back(problem(from, rows.session, rows.group, verdict, true));
    return false;
  }
  held->expected = rows.first + rows.count;
  held->landings.push_back(rows);
  held->peer = from;
  return true;
}

replica_effects replica_set::on_landed(const delta_descriptor& rows, landing_ticket ticket) {
  const auto found = replicas_.find(rows.session);
  // What was admitted may have been cut meanwhile; then the rows are of no use.
  if (found == replicas_.end() || rows.epoch != highest_epoch(rows.group) || owned_here(rows.group))
    return {};
  replica& held = found->second;
  const auto admitted = std::find(held.landings.begin(), held.landings.end(), rows);
  if (admitted == held.landings.end()) return {};
  if (admitted != held.landings.begin()) {  // out of order: none can be appended
    replica_effects effects;
    give_up_landings(held, effects);
    ++counters_.refused_rows;
    effects.push_back(problem(held.peer, rows.session, rows.group, errc::cancelled, true));
    return effects;
  }
  held.landings.pop_front();
  held.landed = rows.first + rows.count;
  return {import_rows{rows.session, held.generation, rows.first, rows.count, rows.checksum, ticket}};
}

replica_effects replica_set::on_landing_failed(peer_handle from, const delta_descriptor& rows, errc why) {
  replica_effects effects;
  const auto found = replicas_.find(rows.session);
  // Of no interest once the connection or the owner has changed: those rows are void already.
  if (found == replicas_.end() || found->second.peer != from || found->second.epoch != rows.epoch)
    return effects;
  replica& held = found->second;
  if (std::find(held.landings.begin(), held.landings.end(), rows) != held.landings.end())
    give_up_landings(held, effects);
  else if (rows.first < held.expected)
    return effects;
  ++counters_.refused_rows;
  effects.push_back(problem(from, rows.session, rows.group, why, true));
  return effects;
}

bool replica_set::current(session_id session, std::uint64_t generation) const {
  const auto found = replicas_.find(session);
  return found != replicas_.end() && found->second.generation == generation;
}

replica_effects replica_set::on_imported(session_id session, std::uint64_t generation, position end,
                                         const result<void>& outcome) {
  replica_effects effects;
  const auto found = replicas_.find(session);
  if (found == replicas_.end() || found->second.generation != generation) return effects;  // cut meanwhile
  replica& held = found->second;
  if (!outcome) {
    ++counters_.corrupt;
    give_up_landings(held, effects);
    effects.push_back(problem(held.peer, session, held.group, outcome.code(), true));
    return effects;
  }
  BATON_ASSERT(end > held.synced && end <= held.landed && held.expected <= held.log.length());
  counters_.synced_rows += end - held.synced;
  held.synced = end;
  effects.emplace_back(send_ack{held.peer, ack_of(held)});
  return effects;
}

void replica_set::fence(group_id group, baton::epoch epoch) {
  group_state& state = groups_[group];
  state.highest = std::max(state.highest, epoch);
}

std::optional<std::vector<held_replica>> replica_set::promote(group_id group, baton::epoch epoch) {
  group_state& state = groups_[group];
  if (epoch < state.highest) return std::nullopt;
  state.highest = epoch;
  state.owned = true;
  state.owned_under = epoch;
  std::vector<held_replica> taken;
  for (auto it = replicas_.begin(); it != replicas_.end();) {
    if (it->second.group != group) {
      ++it;
      continue;
    }
    taken.push_back({group, std::move(it->second.log), it->second.synced});
    it = replicas_.erase(it);
  }
  return taken;
}

replica_effects replica_set::take_back(group_id group, std::vector<held_replica> sessions) {
  replica_effects effects;
  groups_[group].owned = false;
  for (held_replica& session : sessions) {
    const session_id id = session.log.session();
    if (replicas_.contains(id)) {
      how_.places->give_back();  // of another group until now: the engine has it once
    } else if (replicas_.size() >= how_.sessions) {
      effects.emplace_back(drop_rows{id});
      continue;
    }
    const position rows = std::min(session.synced, session.log.length());
    replica back{group, std::move(session.log)};
    back.synced = back.landed = back.expected = rows;
    back.generation = next_generation_++;
    replicas_.insert_or_assign(id, std::move(back));
  }
  return effects;
}

replica_effects replica_set::drop_group(group_id group) {
  replica_effects effects;
  for (auto it = replicas_.begin(); it != replicas_.end();) {
    if (it->second.group != group) {
      ++it;
      continue;
    }
    effects.emplace_back(drop_rows{it->first});
    it = replicas_.erase(it);
  }
  return effects;
}

std::vector<replica_set::group_summary> replica_set::summaries() const {
  std::map<group_id, group_summary> sums;
  for (const auto& [id, held] : replicas_) {
    group_summary& sum = sums[held.group];
    sum.group = held.group;
    sum.epoch = highest_epoch(held.group);
    ++sum.sessions;
    sum.synced_tokens += held.synced;
    // The last token of a log has no row until the next step, so it does not count as lag.
    const position rows_due = std::max<position>(held.log.length(), 1) - 1;
    sum.lag_tokens = std::max(sum.lag_tokens, rows_due - std::min(rows_due, held.synced));
  }
  std::vector<group_summary> out;
  for (const auto& [id, sum] : sums)
    out.push_back(sum);
  return out;
}

}  // namespace baton::actors::protocol
