#include "actors/protocol/link_sender.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/evaluation_plan.hpp"

namespace baton::actors::protocol {

bool link_sender::rows_flow(const outbound& session) const {
  return connected_ && how_.rows && peer_takes_rows_ && session.state == phase::streaming && !session.refused;
}

void link_sender::owe(outbound& session, time_point now) {
  if (session.owed) return;
  session.owed = true;
  session.owed_since = now;
}

void link_sender::set_rows_sent(outbound& session, position at) {
  auto& flights = flights_[session.log.session()];
  in_flight_ -= flights.size();
  flights.clear();
  if (session.rows_sent != at) session.wanted = false;
  session.rows_sent = at;
}

link_effects link_sender::on_connected(time_point now, bool standby_takes_rows) {
  link_effects effects;
  connected_ = true;
  peer_takes_rows_ = standby_takes_rows;
  for (auto& [id, session] : sessions_) {
    session.refused = false;
    session.state = phase::idle;
    probe(session, session.log.length(), now, effects);
  }
  for (auto& [id, gone] : farewells_)
    effects.emplace_back(
        send_frame{records_frame{{session_records{gone.group, gone.epoch, id, {drop_record{}}}}}});
  return effects;
}

void link_sender::on_disconnected() {
  connected_ = false;
  for (auto& [id, gone] : farewells_)
    gone.sent = false;
  for (auto& [id, session] : sessions_) {
    session.state = phase::idle;
    session.owed = false;
    session.wanted = false;
    session.refusals_due = 0;
    set_rows_sent(session, session.rows_synced);
  }
}

void link_sender::probe(outbound& session, position upto, time_point now, link_effects& effects) {
  ++counters_.resyncs;
  if (session.state != phase::probing) session.probing_since = now;
  session.state = phase::probing;
  session.probed_at = now;
  session.owed = false;
  session.doubted = false;
  set_rows_sent(session, session.rows_sent);
  session.believed_from = ++sequence_;
  effects.emplace_back(send_frame{resync_frame{session.group, session.epoch, session.log.session(),
                                               session.log.probes(upto), sequence_}});
}

link_effects link_sender::on_session(group_id group, baton::epoch epoch, session_log log, position rows,
                                     time_point now, std::uint64_t cuts) {
  link_effects effects;
  const session_id id = log.session();
  const bool dropped = farewells_.erase(id) != 0;
  const bool fresh = log.length() == 0 && !dropped;
  const auto known = sessions_.find(id);
  const bool created = known == sessions_.end();
  outbound& session =
      created ? sessions_.emplace(id, outbound{group, epoch, std::move(log)}).first->second : known->second;
  if (!created) {
    session.group = group;
    session.epoch = epoch;
    session.log = std::move(log);  // NOLINT(bugprone-use-after-move): moved above only if created
    session.logged = 0;
    session.rows_synced = 0;
    session.refused = false;
    session.state = phase::idle;
  }
  session.cuts = cuts;
  session.rows_held = rows;
  if (!connected_) return effects;
  if (created && fresh)
    session.state = phase::streaming;  // nobody can hold anything of a session that has just been born
  else
    probe(session, session.log.length(), now, effects);
  return effects;
}

link_effects link_sender::on_session_ended(session_id id, bool drop) {
  link_effects effects;
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return effects;
  if (drop) {
    session_records gone{found->second.group, found->second.epoch, id, {drop_record{}}};
    if (farewells_.size() < limits::node_sessions)
      farewells_.insert_or_assign(id, farewell{gone.group, gone.epoch});
    if (connected_) effects.emplace_back(send_frame{records_frame{{std::move(gone)}}});
    for (auto& [other, session] : sessions_)
      session.refused_for = {};  // those may find room now
  }
  set_rows_sent(found->second, 0);
  flights_.erase(id);
  sessions_.erase(found);
  return effects;
}

void link_sender::follow(outbound& session, const session_record& record) {
  // As the standby does: replica_set::on_records.
  const position rows = evaluation_plan{session.log.turns(), how_.prefill_chunk}.rows_kept_after(record);
  const auto applied = session.log.apply(record);
  BATON_ASSERT(applied.ok());  // our own primary's records always follow
  session.logged = std::min(session.logged, session.log.length());
  cut_rows(session, std::min(rows, session.log.length()));
  session.cuts += std::holds_alternative<truncate_record>(record) ? 1 : 0;
}

link_effects link_sender::on_records(const std::vector<session_records>& step, time_point now) {
  link_effects effects;
  records_frame frame;
  for (const session_records& records : step) {
    const auto found = sessions_.find(records.session);
    if (found == sessions_.end() || found->second.epoch != records.epoch) continue;
    outbound& session = found->second;
    const std::uint64_t cuts = session.cuts;
    for (const session_record& record : records.records)
      follow(session, record);
    if (session.state != phase::streaming || session.refused) continue;
    frame.sessions.push_back(records);
    frame.sessions.back().sequence = ++sequence_;
    if (session.cuts != cuts) session.believed_from = sequence_;
    owe(session, now);
  }
  if (!frame.sessions.empty()) effects.emplace_back(send_frame{std::move(frame)});
  return effects;
}

void link_sender::on_rows_held(session_id id, position rows) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) found->second.rows_held = std::min(rows, found->second.log.length());
}

void link_sender::on_made(session_id id, position end) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  outbound& session = found->second;
  session.rows_held = std::max(session.rows_held, std::min(end, session.log.length()));
}

void link_sender::cut_rows(outbound& session, position rows) {
  session.rows_held = std::min(session.rows_held, rows);
  session.rows_synced = std::min(session.rows_synced, rows);
  if (session.rows_sent > rows) set_rows_sent(session, rows);
}

void link_sender::ask_for_rows(outbound& session, time_point now, link_effects& effects) {
  if (!rows_flow(session) || session.wanted || session.rows_sent >= session.rows_held ||
      in_flight_ >= how_.window_deltas)
    return;
  session.wanted = true;
  session.wanted_at = now;
  const auto count = std::min<std::uint32_t>(how_.delta_tokens, session.rows_held - session.rows_sent);
  effects.emplace_back(want_rows{session.log.session(), session.rows_sent, count});
}

link_effects link_sender::on_packed(const packed_rows& rows, bool& sent, time_point now) {
  link_effects effects;
  sent = false;
  const auto found = sessions_.find(rows.session);
  if (found == sessions_.end()) return effects;
  outbound& session = found->second;
  session.rows_held = std::max(session.rows_held, std::min(rows.end(), session.log.length()));
  if (rows.first == session.rows_sent) session.wanted = false;
  const bool next = rows.first == session.rows_sent && rows.end() <= session.log.length();
  if (!rows_flow(session) || !next || in_flight_ >= how_.window_deltas) {
    ask_for_rows(session, now, effects);
    return effects;
  }
  delta_descriptor delta;
  delta.group = session.group;
  delta.epoch = session.epoch;
  delta.session = rows.session;
  delta.first = rows.first;
  delta.count = rows.count;
  delta.chain_before = session.log.chain_at(rows.first);
  delta.chain_after = session.log.chain_at(rows.end());
  delta.fingerprint = how_.fingerprint;
  delta.regions = how_.regions;
  delta.bytes = rows.bytes;
  delta.checksum = rows.checksum;
  session.rows_sent = rows.end();
  flights_[rows.session].push_back({rows.first, rows.end()});
  ++in_flight_;
  owe(session, now);
  ++counters_.deltas;
  counters_.delta_bytes += rows.bytes;
  counters_.delta_tokens += rows.count;
  counters_.retransmitted_tokens +=
      std::min(session.high_sent, rows.end()) - std::min(session.high_sent, rows.first);
  session.high_sent = std::max(session.high_sent, rows.end());
  sent = true;
  effects.emplace_back(send_rows{delta, rows.ticket});
  ask_for_rows(session, now, effects);
  return effects;
}

void link_sender::stream_from(outbound& session, position at, time_point now, link_effects& effects) {
  session.state = phase::streaming;
  auto records = session.log.records_from(at);
  if (records.empty()) return;
  // One message each, so that none outgrows the limit of a message.
  for (session_record& record : records)
    effects.emplace_back(send_frame{records_frame{{session_records{
        session.group, session.epoch, session.log.session(), {std::move(record)}, ++sequence_}}}});
  owe(session, now);
}

void link_sender::on_problem(outbound& session, const replica_ack& ack, time_point now,
                             link_effects& effects) {
  switch (ack.problem) {
    case errc::stale_epoch:
      effects.emplace_back(fenced{session.group, ack.epoch});
      return;
    case errc::no_room:
    case errc::context_full:
    case errc::fingerprint_mismatch:
    case errc::unknown_session:
      if (ack.about_rows && ack.problem == errc::no_room) break;  // short of staging memory for the moment
      session.refused = true;
      session.refused_for = std::clamp(session.refused_for * 2, how_.deadline / 8, how_.deadline * 4);
      session.state = phase::idle;
      session.owed = false;
      set_rows_sent(session, session.rows_sent);
      effects.emplace_back(unprotected{session.log.session(), ack.problem});
      return;
    default:
      break;
  }
  if (!ack.about_rows) {
    if (session.state == phase::streaming) probe(session, session.log.length(), now, effects);
    return;
  }
  if (session.state != phase::streaming || ack.epoch != session.epoch ||
      !session.log.contains({ack.logged, ack.chain}))
    return;
  // Rows: everything under way after the refused ones will be refused as well. Begin again where the standby
  // stands, unless that is on its way already: then this is about what was sent before. When no such refusal
  // is due any more, the rows it waits for were lost on a living connection (case 45).
  const auto& flights = flights_[ack.session];
  const bool coming = ack.problem == errc::gap && !flights.empty() && flights.front().first == ack.expected &&
                      flights.front().end <= ack.logged;
  if (coming && session.refusals_due > 0) {
    --session.refusals_due;
    return;
  }
  const std::size_t answered = coming ? 2 : 1;  // the lost rows never will be, the refused ones are by this
  session.refusals_due = std::max(session.refusals_due, flights.size() - std::min(flights.size(), answered));
  if (ack.expected != session.rows_sent) set_rows_sent(session, ack.expected);
  if (ack.problem == errc::gap)
    ask_for_rows(session, now, effects);  // otherwise on a tick: what failed is not tried again at once
}

/// Nothing is under way that could explain a difference between what was sent and what the standby expects:
/// it has given up rows that it had taken, or holds more than we knew.
void link_sender::follow_expected(outbound& session, position expected) {
  if (expected > session.rows_sent ||
      (flights_[session.log.session()].empty() && expected < session.rows_sent))
    set_rows_sent(session, expected);
}

link_effects link_sender::on_ack(const replica_ack& ack, time_point now) {
  link_effects effects;
  const auto found = sessions_.find(ack.session);
  if (found == sessions_.end()) return effects;
  outbound& session = found->second;
  if (ack.epoch > session.epoch) {
    effects.emplace_back(fenced{session.group, ack.epoch});
    return effects;
  }
  if (ack.has_problem) {
    on_problem(session, ack, now, effects);
    return effects;
  }
  if (ack.epoch != session.epoch || ack.sequence < session.believed_from) return effects;
  if (!session.log.contains({ack.logged, ack.chain})) {
    if (session.state == phase::probing)  // the fork lies before: look closer
      probe(session, std::min(ack.logged, session.log.length()), now, effects);
    else
      session.doubted =
          true;  // of a history that we have cut since, or of a tail that we never had: a tick will tell
    return effects;
  }
  session.doubted = false;
  session.refused_for = {};
  session.logged = ack.logged;
  session.rows_synced = ack.synced;
  auto& flights = flights_[ack.session];
  while (!flights.empty() && flights.front().end <= ack.synced) {
    flights.pop_front();
    --in_flight_;
  }
  if (session.state == phase::probing) {
    set_rows_sent(session, ack.expected);
    stream_from(session, ack.logged, now, effects);
  } else {
    follow_expected(session, ack.expected);
  }
  const bool all_logged = session.logged == session.log.length();
  session.owed = !(all_logged && flights.empty());
  session.owed_since = now;
  effects.emplace_back(
      standby_progress{ack.session, session.epoch, ack.logged, ack.synced, ack.chain, session.cuts});
  ask_for_rows(session, now, effects);
  // Room in the window is room for every session.
  if (in_flight_ < how_.window_deltas)
    for (auto& [id, other] : sessions_)
      ask_for_rows(other, now, effects);
  return effects;
}

link_effects link_sender::on_tick(time_point now) {
  link_effects effects;
  if (!connected_) return effects;
  for (auto& [id, session] : sessions_) {
    const bool silent = session.state == phase::probing && now - session.probing_since > how_.deadline;
    if (silent || (session.owed && now - session.owed_since > how_.deadline)) {
      effects.clear();
      effects.emplace_back(link_stalled{});
      return effects;
    }
    const bool unanswered = session.state == phase::probing && now - session.probed_at > how_.deadline / 4;
    // A refusal for want of room need not last.
    const bool again = session.refused && now - session.probed_at > session.refused_for;
    const bool astray = session.state == phase::streaming && session.doubted && session.owed &&
                        now - session.owed_since > how_.deadline / 4;
    if (unanswered || astray || again) {
      session.refused = false;
      probe(session, session.log.length(), now, effects);
    }
    if (session.wanted && now - session.wanted_at > how_.deadline / 4)
      session.wanted = false;  // the export came to nothing, e.g. for want of staging memory
    ask_for_rows(session, now, effects);
  }
  for (auto it = farewells_.begin(); it != farewells_.end();) {
    farewell& gone = it->second;
    if (!std::exchange(gone.sent, true)) gone.sent_at = now;
    it = now - gone.sent_at > how_.deadline * 4 ? farewells_.erase(it) : std::next(it);
  }
  return effects;
}

std::uint32_t link_sender::lag_tokens() const {
  std::uint32_t most = 0;
  for (const auto& [id, session] : sessions_) {
    // The last token of a log has no row yet.
    const bool rows = how_.rows && peer_takes_rows_;
    const position due = std::max<position>(session.log.length(), rows ? 1 : 0) - (rows ? 1 : 0);
    const position held = rows ? session.rows_synced : session.logged;
    most = std::max(most, due - std::min(due, held));
  }
  return most;
}

position link_sender::synced(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.rows_synced;
}

}  // namespace baton::actors::protocol
