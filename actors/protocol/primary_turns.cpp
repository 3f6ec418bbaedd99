#include "actors/protocol/primary_table.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/turn_end.hpp"

/// The turns of a primary_table, its engine and the release of tokens; ownership is in primary_table.cpp.
namespace baton::actors::protocol {

namespace {

open_turn_reply refuse(errc code, std::string reason) {
  open_turn_reply reply;
  reply.refusal = code;
  reply.reason = std::move(reason);
  return reply;
}

}  // namespace

// --- turns -------------------------------------------------------------------------------------------------

primary_effects primary_table::on_open_turn(request_ticket ticket, const open_turn& request, bool lease_valid,
                                            time_point now) {
  lease_valid_ = lease_valid;
  primary_effects effects;
  const owned_group* group = find_group(request.group);
  open_turn_reply reply;
  if (group == nullptr || group->record.epoch != request.epoch) {
    reply = refuse(errc::not_owner, "this node does not own the group under that epoch");
  } else if (group->state == phase::taking || group->unsealed.contains(request.gateway)) {
    reply = refuse(errc::not_owner, "the group is being taken over");
  } else if (group->at_rest) {
    reply = refuse(errc::not_owner, "the group is being handed over");
  } else if (!lease_valid && group->record.in_sync.empty()) {
    reply = refuse(errc::unavailable, "the node's lease has run out");
  } else {
    reply = open(request, now, effects);
    // A tail generated before the take-over may be committed already.
    if (reply.accepted) release(*find_session(request.history.session), effects);
  }
  if (!reply.accepted) ++counters_.refused;
  effects.insert(effects.begin(), reply_open{ticket, std::move(reply)});
  return effects;
}

primary_table::served* primary_table::place_for(group_id group, const session_piece& history,
                                                primary_effects& effects) {
  if (served* known = find_session(history.session)) return known;
  if (!find_place(effects)) return nullptr;
  served fresh{group, session_log{history.session, how_.fingerprint}};
  served& placed = sessions_.insert_or_assign(history.session, std::move(fresh)).first->second;
  const owned_group& owned = *find_group(group);
  begin_replication order{group, owned.record.epoch, placed.log, 0, 0, {}};
  begin_with_all(order, effects);
  if (owned.chosen.empty()) return &placed;
  order.standbys.assign(owned.chosen.begin(), owned.chosen.end());
  effects.emplace_back(std::move(order));
  return &placed;
}

/// One of those that are unused while the share lasts, else that of an idle session.
bool primary_table::find_place(primary_effects& effects) {
  return (sessions_.size() < how_.sessions && how_.places->take()) || evict_idle(false, effects);
}

bool primary_table::evict_idle(bool place_unused, primary_effects& effects) {
  auto oldest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it)
    if (!it->second.live && groups_.at(it->second.group).state == phase::serving &&
        (oldest == sessions_.end() || it->second.used_at < oldest->second.used_at))
      oldest = it;
  if (oldest == sessions_.end()) return false;
  effects.emplace_back(drop_engine{oldest->first, place_unused});
  effects.emplace_back(end_replication{oldest->first, true, {}});
  sessions_.erase(oldest);
  return true;
}

/// Looks before anything is changed: a refused request must leave this node and its standbys as they were.
std::optional<open_turn_reply> primary_table::refusal_of(const open_turn& request) const {
  const session_piece& history = request.history;
  if (history.end() >= how_.context_tokens)
    return refuse(errc::context_full, "the prompt ends at token " + std::to_string(history.end()) +
                                          ", the context holds " + std::to_string(how_.context_tokens));
  const auto found = sessions_.find(history.session);
  if (found != sessions_.end() && found->second.group != request.group)
    return refuse(errc::not_owner, "the session belongs to another group");
  const session_log none{history.session, how_.fingerprint};
  const session_log& held = found == sessions_.end() ? none : found->second.log;
  if (!held.contains({history.first, history.chain_before})) {
    open_turn_reply reply =
        refuse(errc::gap, "the log of " + std::to_string(held.length()) +
                              " tokens does not reach the piece at " + std::to_string(history.first));
    reply.have = held.point();
    return reply;
  }
  const turn_header* last = history.turns.empty() ? nullptr : &history.turns.back();
  if (last == nullptr)
    for (const turn_header& turn : held.turns())
      if (turn.base < history.first) last = &turn;
  if (last == nullptr || last->number != request.turn || history.end() < last->prompt_end)
    return refuse(errc::invalid_argument, "the history does not end in the turn to open");
  if (const auto fits = held.agreement(history); !fits) return refuse(fits.code(), fits.failure().what);
  return std::nullopt;
}

/// The session's log has adopted `history`, of `before` it has kept so much: everything else follows. Returns
/// what standbys must be told.
std::vector<session_record> primary_table::follow(served& session, const session_piece& history,
                                                  const past_log& before, position kept) {
  // An unreleased tail comes without its logprobs: where they are wanted it is sampled again, to the same
  // tokens.
  if (session.log.last_turn()->parameters.sampling.logprobs && session.log.length() > history.end()) {
    session.log.truncate(history.end());
    kept = std::min(kept, history.end());
  }
  session.released = history.end();
  session.reports.clear();
  session.rows =
      std::min(session.rows, rows_kept_in(session.log.turns(), before.turns, kept, how_.prefill_chunk));
  for (auto& [name, held] : session.held)
    held = {std::min(held.logged, kept), std::min(held.synced, kept)};
  std::vector<session_record> records;
  if (kept < before.length) records.emplace_back(truncate_record{kept, session.log.chain_at(kept)});
  if (kept < session.log.length())
    for (session_record& record : session.log.records_from(kept))
      records.push_back(std::move(record));
  return records;
}

open_turn_reply primary_table::open(const open_turn& request, time_point now, primary_effects& effects) {
  if (auto refusal = refusal_of(request)) return std::move(*refusal);
  served* session = place_for(request.group, request.history, effects);
  if (session == nullptr) return refuse(errc::no_room, "every session of this node is in use");
  if (session->live && session->log.last_turn()->number < request.turn)
    stop_turn(*session, session->released, effects);
  // The gateway may ask again for a turn that goes on: what it has cost so far still counts.
  const bool goes_on = session->live && session->log.last_turn()->number == request.turn;
  const past_log before{session->log.length(), {session->log.turns().begin(), session->log.turns().end()}};
  const auto kept = session->log.adopt(request.history);
  if (!kept) return refuse(kept.code(), kept.failure().what);
  auto records = follow(*session, request.history, before, *kept);
  session->used_at = now;
  session->gateway = request.gateway;
  session->live = true;
  if (!goes_on) session->evaluated = session->recomputed = 0;
  const bool as_before = records.empty();
  if (!as_before) replicate(*session, find_group(request.group)->record.epoch, std::move(records), effects);
  ++counters_.turns;
  if (how_.archive && request.restore_from != session_id{} && before.length == 0)
    begin_restoring(*session, request.restore_from, effects);
  else if (!as_before || !is_restoring(*session))
    start_run(*session, effects);
  open_turn_reply reply;
  reply.accepted = true;
  session->cached = std::min(session->rows, session->log.last_turn()->prompt_end);
  reply.cached_tokens = session->cached;
  return reply;
}

void primary_table::begin_restoring(served& session, session_id from, primary_effects& effects) {
  session.run = 0;
  cut_engine_to(session, 0, effects);
  session.restoring = session.generation;
  effects.emplace_back(restore_rows{session.log.session(), from, session.generation, session.log});
}

primary_effects primary_table::on_restored(session_id id, std::uint64_t generation, position rows,
                                           bool lease_valid) {
  lease_valid_ = lease_valid;
  primary_effects effects;
  served* session = find_session(id);
  if (session == nullptr || !is_restoring(*session) || session->generation != generation) return effects;
  session->restoring = 0;
  session->rows = std::min(rows, session->log.length());
  counters_.restored += session->rows;
  if (session->live && !find_group(session->group)->at_rest)
    start_run(*session, effects);
  else
    cut_engine_to(*session, session->rows, effects);
  session->cached = std::min(session->rows, session->log.last_turn()->prompt_end);
  release(*session, effects);
  return effects;
}

void primary_table::start_run(served& session, primary_effects& effects) {
  const evaluation_plan plan{session.log.turns(), how_.prefill_chunk};
  const position last_due = session.log.length() - 1;
  position rows = std::min(session.rows, last_due);
  if (how_.exact) rows = plan.resume_point(rows);
  if (session.run != 0) effects.emplace_back(stop_engine{session.log.session(), session.run});
  cut_engine_to(session, rows, effects);
  const turn_header& turn = *session.log.last_turn();
  // What was evaluated by somebody before and must be again: all before the prompt, and up to the last token
  // once one has been generated.
  const position known =
      session.log.length() > turn.prompt_end ? last_due : std::max<position>(turn.base, 1) - 1;
  const std::uint64_t missing = known - std::min(known, rows);
  counters_.recomputed += missing - std::min(missing, session.recomputed);
  session.recomputed = std::max(session.recomputed, missing);
  session.finished =
      session.log.open_turn() == nullptr || is_complete(turn, session.log.tokens(), how_.context_tokens);
  session.run = 0;
  if (session.finished) return;
  session.run = next_run_++;
  session.evaluated_before = session.evaluated;
  session.allowed = session.log.length() + limits::uncommitted_tokens;
  run_engine run;
  run.session = session.log.session();
  run.run = session.run;
  run.tokens.assign(session.log.tokens().begin(), session.log.tokens().end());
  run.turns.assign(session.log.turns().begin(), session.log.turns().end());
  run.rows = rows;
  run.allowed = session.allowed;
  effects.emplace_back(std::move(run));
}

void primary_table::cut_engine_to(served& session, position rows, primary_effects& effects) {
  // Always said: the engine may hold rows of a run that has been stopped since its last report.
  session.rows = std::min(session.rows, rows);
  session.generation = next_run_++;
  effects.emplace_back(cut_engine{session.log.session(), session.rows, session.generation});
}

bool primary_table::exports_current(session_id session, std::uint64_t generation) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.generation == generation;
}

void primary_table::replicate(served& session, baton::epoch epoch, std::vector<session_record> records,
                              primary_effects& effects) {
  for (const session_record& record : records)
    session.cuts += std::holds_alternative<truncate_record>(record) ? 1 : 0;
  session_records out{session.group, epoch, session.log.session(), std::move(records)};
  effects.emplace_back(replicate_records{{std::move(out)}});
}

void primary_table::pause_turn(served& session, primary_effects& effects) {
  if (session.run != 0) effects.emplace_back(stop_engine{session.log.session(), session.run});
  session.run = 0;
  session.live = false;
}

void primary_table::stop_turn(served& session, position keep, primary_effects& effects) {
  pause_turn(session, effects);
  session.reports.clear();
  std::vector<session_record> records;
  keep = std::min(keep, session.log.length());
  if (keep < session.log.length()) {
    session.log.truncate(keep);
    records.emplace_back(truncate_record{keep, session.log.chain()});
  }
  session.log.close_turn();
  if (session.log.last_turn() != nullptr) records.emplace_back(close_record{session.log.last_turn()->number});
  session.released = keep;
  for (auto& [name, held] : session.held)
    held = {std::min(held.logged, keep), std::min(held.synced, keep)};
  cut_engine_to(session, keep, effects);
  if (const owned_group* group = find_group(session.group); group != nullptr && !records.empty())
    replicate(session, group->record.epoch, std::move(records), effects);
}

primary_effects primary_table::on_end_turn(const end_turn& request) {
  primary_effects effects;
  served* session = find_session(request.session);
  const owned_group* group = session == nullptr ? nullptr : find_group(session->group);
  if (group == nullptr || group->record.epoch != request.epoch) return effects;
  const turn_header* turn = session->log.last_turn();
  if (turn == nullptr || turn->number != request.turn) return effects;
  stop_turn(*session, std::max(request.keep, turn->base + 1), effects);
  return effects;
}

primary_effects primary_table::on_gateway_lost(const process_id& gateway) {
  primary_effects effects;
  // The turn has not ended: the gateway may have lost no more than its connection, and opens it again.
  for (auto& [id, session] : sessions_)
    if (session.live && session.gateway == gateway) pause_turn(session, effects);
  for (auto& [id, group] : groups_)
    if (group.unsealed.erase(gateway) != 0 && group.unsealed.empty() && group.state == phase::sealing)
      group.state = phase::serving;
  return effects;
}

// --- engine and release ------------------------------------------------------------------------------------

primary_effects primary_table::on_step(const engine_step& step, bool lease_valid, time_point now) {
  lease_valid_ = lease_valid;
  primary_effects effects;
  served* session = find_session(step.session);
  if (session == nullptr || session->run == 0 || session->run != step.run) return effects;
  const bool gets_on = step.rows / limits::progress_rows != session->rows / limits::progress_rows;
  session->rows = step.rows;
  session->evaluated = session->evaluated_before + step.evaluated;
  session->finished = step.finished;
  if (step.has_token) {
    BATON_ASSERT(step.at == session->log.length());  // the engine continues this very log
    tokens_record record{step.at, session->log.chain(), {step.token}};
    if (const auto added = session->log.append(record.tokens); !added) {
      session->finished = true;
    } else {
      session->reports.emplace(step.at, step.report);
      ++counters_.tokens;
      replicate(*session, find_group(session->group)->record.epoch, {std::move(record)}, effects);
    }
  }
  if (gets_on && !step.has_token && session->live) {
    const owned_group& group = *find_group(session->group);
    effects.emplace_back(emit_tokens{session->gateway, message_of(group, *session, session->released)});
  }
  release(*session, effects);
  if (step.paused) on_paused(*session, now, effects);
  return effects;
}

primary_effects primary_table::on_engine_failure(session_id id, run_number run, const error& why) {
  primary_effects effects;
  served* session = find_session(id);
  if (session == nullptr || session->run != run) return effects;
  const owned_group* group = find_group(session->group);
  effects.emplace_back(
      emit_failure{session->gateway, turn_failure{session->group, group->record.epoch, id,
                                                  session->log.last_turn()->number, why.code, why.what}});
  stop_turn(*session, session->released, effects);
  return effects;
}

const session_log* primary_table::log_of(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second.log;
}

baton::epoch primary_table::epoch_of(group_id group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? baton::epoch{} : found->second.record.epoch;
}

std::vector<std::string> primary_table::waits_for(group_id group) const {
  std::vector<std::string> out;
  const auto found = groups_.find(group);
  if (found == groups_.end()) return out;
  for (const process_id& member : found->second.record.in_sync)
    out.push_back(member.name);
  for (const auto& [name, state] : found->second.standbys)
    if (state.joining && find_by_name(found->second.record.in_sync, name) == nullptr) out.push_back(name);
  return out;
}

std::vector<commit_rule::standby_position> primary_table::waited_for(const served& session) const {
  std::vector<commit_rule::standby_position> out;
  for (const std::string& name : waits_for(session.group)) {
    const auto held = session.held.find(name);
    out.push_back(held == session.held.end() ? commit_rule::standby_position{} : held->second);
  }
  return out;
}

std::uint32_t primary_table::lag_of(const served& session) const {
  const position due = std::max<position>(session.log.length(), 1) - 1;
  std::uint32_t lag = 0;
  for (const auto& standby : waited_for(session))
    lag = std::max(lag, due - std::min(due, standby.synced));
  return lag;
}

/// To the gateway: the tokens that have not been released before, up to `upto`.
turn_tokens primary_table::message_of(const owned_group& group, const served& session, position upto) const {
  turn_tokens out;
  out.group = session.group;
  out.epoch = group.record.epoch;
  out.session = session.log.session();
  out.turn = session.log.last_turn()->number;
  out.first = session.released;
  out.chain_before = session.log.chain_at(session.released);
  const auto tokens = session.log.tokens().subspan(session.released, upto - session.released);
  out.tokens.assign(tokens.begin(), tokens.end());
  out.lag_tokens = lag_of(session);
  out.evaluated_tokens = session.evaluated;
  out.recomputed_tokens = session.recomputed;
  out.cached_tokens = session.cached;
  out.rows = session.rows;
  return out;
}

void primary_table::release(served& session, primary_effects& effects) {
  const owned_group* group = find_group(session.group);
  if (!session.live || group->state == phase::taking) return;
  if (!lease_valid_ && group->record.in_sync.empty())
    return;  // rule L: alone and without a lease, nothing leaves this node
  commit_rule rule = how_.commit;
  // Nor, with a set, anything that the set has not acknowledged, in no mode.
  if (!lease_valid_ && rule.how == commit_rule::mode::async) rule.how = commit_rule::mode::semi_sync;
  // Of a turn that had all its tokens when it was taken over, nobody evaluates what is missing: rows are not
  // waited for.
  if (session.finished && session.run == 0 && rule.how == commit_rule::mode::strict)
    rule.how = commit_rule::mode::semi_sync;
  const position upto = rule.committed(session.log.length(), waited_for(session));
  const bool last = session.finished && upto == session.log.length();
  if (upto <= session.released && !last) return;
  turn_tokens out = message_of(*group, session, upto);
  out.last = last;
  if (session.log.last_turn()->parameters.sampling.logprobs)
    for (position at = session.released; at < upto; ++at)
      out.reports.push_back(session.reports[at]);
  session.reports.erase(session.reports.begin(), session.reports.lower_bound(upto));
  counters_.released += out.tokens.size();
  session.released = upto;
  effects.emplace_back(emit_tokens{session.gateway, std::move(out)});
  if (last) {
    session.live = false;
    session.run = 0;
    session.log.close_turn();
    replicate(session, group->record.epoch, {close_record{session.log.last_turn()->number}}, effects);
  } else if (session.run != 0 &&
             upto + limits::uncommitted_tokens >= session.allowed + limits::uncommitted_tokens / 4) {
    session.allowed = upto + limits::uncommitted_tokens;
    effects.emplace_back(allow_engine{session.log.session(), session.run, session.allowed});
  }
}

void primary_table::release_group(group_id group, primary_effects& effects) {
  for (auto& [id, session] : sessions_)
    if (session.group == group) release(session, effects);
}

primary_effects primary_table::on_tick(bool lease_valid, time_point now) {
  lease_valid_ = lease_valid;
  primary_effects effects;
  for (auto next = groups_.begin(); next != groups_.end();) {
    auto& [id, group] = *next++;  // which may be given up, moving
    if (lease_valid) release_group(id, effects);
    for (auto& [name, state] : group.standbys) {
      if ((!state.joining && !state.leaving) || now - state.asked_at < limits::request_timeout / 4) continue;
      state.asked_at = now;
      const process_id* member = find_by_name(group.record.in_sync, name);
      if (state.leaving)
        ask(group, member == nullptr ? state.who : *member, false, effects);
      else if (member == nullptr && links_[name].up)
        ask_to_join(group, state, links_[name].who, now, effects);
    }
    choose_standbys(group, now, effects);
    for (const auto& [name, link] : links_)
      consider_joining(group, name, now, effects);
    consider_moving(group, now, effects);
  }
  // What a take-over has brought beyond the share makes room before replicas want for it: as many may come as
  // a node begins that joins.
  for (std::size_t freed = how_.places->unused(); sessions_.size() > how_.sessions && freed < how_.sessions;
       ++freed)
    if (!evict_idle(true, effects)) break;
  return effects;
}

std::vector<std::pair<session_id, position>> primary_table::rows_held() const {
  std::vector<std::pair<session_id, position>> out;
  for (const auto& [id, session] : sessions_)
    out.emplace_back(id, session.rows);
  return out;
}

std::vector<group_status> primary_table::statuses() const {
  std::vector<group_status> out;
  for (const auto& [id, group] : groups_) {
    group_status status;
    status.group = id;
    status.epoch = group.record.epoch;
    status.owner = true;
    for (const auto& [session_id, session] : sessions_) {
      if (session.group != id) continue;
      ++status.sessions;
      status.synced_tokens += session.rows;
      status.lag_tokens = std::max(status.lag_tokens, lag_of(session));
    }
    out.push_back(status);
  }
  return out;
}

}  // namespace baton::actors::protocol
