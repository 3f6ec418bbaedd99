#include "link_world.hpp"

#include <algorithm>
#include <utility>

namespace baton::test {

using protocol::evaluation_plan;

namespace {

std::uint64_t checksum_of(const std::vector<std::uint64_t>& content) {
  std::uint64_t sum = content.size();
  for (const std::uint64_t word : content)
    sum = hash_step(sum, word);
  return sum;
}

}  // namespace

void link_world::figures::add(const figures& other) {
  frames += other.frames;
  deltas += other.deltas;
  late_frames += other.late_frames;
  disconnects += other.disconnects;
  owner_changes += other.owner_changes;
  corrupt_rows += other.corrupt_rows;
  no_staging += other.no_staging;
  cuts += other.cuts;
  stalls += other.stalls;
  fenced += other.fenced;
  superseded += other.superseded;
  dropped_sessions += other.dropped_sessions;
  healing_steps = std::max(healing_steps, other.healing_steps);
  stale_exports += other.stale_exports;
}

link_world::link_world(const world_options& how) : how_(how), random_(how.seed) {
  protocol::replica_set::options replicas;
  replicas.fingerprint = fingerprint;
  replicas.regions = 1;
  replicas.bytes_per_token = sizeof(row);
  replicas.context_tokens = context;
  replicas.prefill_chunk = how.wrong.forget_batch_shapes ? 1 : chunk;
  replicas.sessions = 64;
  protocol::link_sender::options links;
  links.fingerprint = fingerprint;
  links.regions = 1;
  links.bytes_per_token = sizeof(row);
  links.prefill_chunk = replicas.prefill_chunk;
  links.window_deltas = window;
  links.delta_tokens = delta_tokens;
  nodes_.reserve(node_count);
  for (std::size_t i = 0; i < node_count; ++i) {
    node& it = nodes_.emplace_back(node{protocol::replica_set{replicas}, {}, {}, {}, {}, {}, {}, {}, {}, {}});
    for (std::size_t to = 0; to < node_count; ++to)
      if (to != i)
        it.links.emplace(to, link{protocol::link_sender{links}, std::nullopt, {}});
  }
  const std::uint32_t groups = 1 + random_.below(2);
  for (std::uint32_t g = 1; g <= groups; ++g) {
    const std::size_t owner = random_.below(node_count);
    owners_[group_id{g}] = {owner, baton::epoch{next_epoch_}};
    promote(owner, group_id{g}, baton::epoch{next_epoch_++});
  }
}

void link_world::wrong(const std::string& what) {
  if (!wrong_)
    wrong_ = "seed " + std::to_string(how_.seed) + " step " + std::to_string(clock_) + ": " + what;
}

bool link_world::owned_now(std::size_t at, group_id group) const {
  const auto found = owners_.find(group);
  return found->second.first == at && nodes_[at].owns.contains(group) &&
         nodes_[at].owns.at(group) == found->second.second;
}

void link_world::remember(baton::epoch epoch, const session_log& log) {
  auto& chains = histories_[epoch];
  for (position at = 0; at <= log.length(); ++at)
    chains.insert(log.chain_at(at));
}

// --- owners -----------------------------------------------------------------------------------------------------------------

void link_world::owner_acts() {
  const std::size_t at = random_.below(node_count);
  node& here = nodes_[at];
  if (here.owns.empty())
    return;
  auto group = here.owns.begin();
  std::advance(group, random_.below(static_cast<std::uint32_t>(here.owns.size())));
  if (here.owned.size() < 3 && random_.chance(here.owned.empty() ? 100 : 2))
    begin_session(at, group->first);
  if (here.owned.empty())
    return;
  auto chosen = here.owned.begin();
  std::advance(chosen, random_.below(static_cast<std::uint32_t>(here.owned.size())));
  owned_session& session = chosen->second;
  const std::uint32_t act = random_.below(100);
  if (session.log.open_turn() == nullptr || act < 6)
    open_turn(at, session);
  else if (act < 10)
    end_turn(at, session);
  else if (act < 13)
    evaluate_again(at, session);
  else if (act < 14)
    drop_session(at, chosen->first);
  else
    evaluate(at, session);
}

void link_world::begin_session(std::size_t at, group_id group) {
  node& here = nodes_[at];
  // Sometimes one that was there before and is opened anew.
  const std::uint64_t number = random_.chance(30) ? 1 + random_.next() % next_session_ : next_session_++;
  const session_id id{number * 10 + raw(group)};  // a session stays in its group
  for (const node& it : nodes_)
    if (it.owned.contains(id) || (it.replicas.log_of(id) != nullptr && random_.chance(70)))
      return;
  owned_session fresh{group, here.owns.at(group), session_log{id, fingerprint}};
  remember(fresh.epoch, fresh.log);
  owned_session& session = here.owned.emplace(id, std::move(fresh)).first->second;
  for (auto& [to, it] : here.links)
    carry_out(at, to, it.sender.on_session(group, session.epoch, session.log, 0, now_));
  here.engine[id].clear();
  open_turn(at, session);
}

void link_world::say(std::size_t at, owned_session& session, session_record record) {
  for (auto& [to, it] : nodes_[at].links)
    carry_out(at, to, it.sender.on_records({{session.group, session.epoch, session.log.session(), {record}}}, now_));
}

void link_world::append(std::size_t at, owned_session& session, const std::vector<token_id>& added) {
  tokens_record record{session.log.length(), session.log.chain(), added};
  if (!session.log.append(added))
    return wrong("the owner's own log is full");
  remember(session.epoch, session.log);
  say(at, session, std::move(record));
}

void link_world::open_turn(std::size_t at, owned_session& session) {
  session_log& log = session.log;
  position base = log.length();
  if (log.length() > 0 && (log.length() > context / 2 || random_.chance(40))) {
    base = random_.below(log.length());  // an edited history
    log.truncate(base);
    say(at, session, truncate_record{base, log.chain()});
    ++figures_.cuts;
  }
  // Few flavours, so that sessions opened anew are often the same again for a while.
  const std::uint64_t flavour = random_.below(2);
  const position prompt = 1 + random_.below(10);
  const turn_number number = log.last_turn() == nullptr ? 1 : log.last_turn()->number + 1;
  const turn_header header = turn(number, base, base + prompt, flavour);
  log.truncate(base);  // a turn that never had a token
  if (!log.begin_turn(header))
    return wrong("the owner cannot begin a turn");
  position rows = std::min<position>(base, static_cast<position>(nodes_[at].engine[log.session()].size()));
  rows = std::min(rows, evaluation_plan{log.turns(), chunk}.rows_kept_at_last_turn());
  say(at, session, open_record{header});
  append(at, session, tokens(base, prompt, flavour));
  cut_engine(at, session, rows);
  for (auto& [to, point] : session.acknowledged)
    point = point.length > base ? history_point{base, log.chain_at(base)} : point;
}

void link_world::end_turn(std::size_t at, owned_session& session) {
  session_log& log = session.log;
  const turn_header& last = *log.last_turn();
  if (last.base + 1 < log.length() && random_.chance(50)) {
    log.truncate(last.base + 1 + random_.below(log.length() - last.base - 1));
    say(at, session, truncate_record{log.length(), log.chain()});
    cut_engine(at, session, log.length());
    ++figures_.cuts;
  }
  log.close_turn();
  say(at, session, close_record{log.last_turn()->number});
  for (auto& [to, point] : session.acknowledged)
    point = point.length > log.length() ? log.point() : point;
}

/// As after a failover in mid-batch: the batch is made again.
void link_world::evaluate_again(std::size_t at, owned_session& session) {
  const auto held = static_cast<std::uint32_t>(nodes_[at].engine[session.log.session()].size());
  const evaluation_plan plan{session.log.turns(), chunk};
  cut_engine(at, session, plan.resume_point(random_.below(held + 1)));
}

void link_world::cut_engine(std::size_t at, owned_session& session, position rows) {
  auto& engine = nodes_[at].engine[session.log.session()];
  if (engine.size() > rows)
    engine.resize(rows);
  session.exported = std::min(session.exported, rows);
  session.generation = next_generation_++;
  for (auto& [to, it] : nodes_[at].links)
    it.sender.on_rows_held(session.log.session(), static_cast<position>(engine.size()));
}

void link_world::evaluate(std::size_t at, owned_session& session) {
  auto& engine = nodes_[at].engine[session.log.session()];
  const auto rows = static_cast<position>(engine.size());
  const position length = session.log.length();
  if (rows == length || length >= context - 1)
    return;
  const position count = evaluation_plan{session.log.turns(), chunk}.batch_at(rows, length);
  for (position i = rows; i < rows + count; ++i)
    engine.push_back(hash_step(session.log.chain_at(i + 1), rows * 1000ULL + rows + count));
  if (rows + count == length)
    append(at, session, {static_cast<token_id>(random_.below(3))});
  export_fresh(at, session, count > 1);
}

void link_world::export_fresh(std::size_t at, owned_session& session, bool all) {
  const auto rows = static_cast<position>(nodes_[at].engine[session.log.session()].size());
  const position every = 1 + how_.seed % 3;
  while (rows > session.exported && (all || rows - session.exported >= every)) {
    const position count = std::min(rows - session.exported, delta_tokens);
    export_range(at, session, session.exported, count, std::nullopt);
    session.exported += count;
  }
}

void link_world::export_range(std::size_t at, owned_session& session, position first, position count,
                              std::optional<std::size_t> for_link) {
  const auto& engine = nodes_[at].engine[session.log.session()];
  if (first >= engine.size())
    return;
  count = std::min(count, static_cast<position>(engine.size()) - first);
  export_item item;
  item.content.assign(engine.begin() + first, engine.begin() + first + count);
  item.rows = {session.log.session(), first, count, count * sizeof(row), checksum_of(item.content), 0,
               session.generation};
  item.for_link = for_link;
  nodes_[at].exports.push_back(std::move(item));
}

void link_world::export_moves(std::size_t at) {
  node& here = nodes_[at];
  if (here.exports.empty())
    return;
  const export_item item = std::move(here.exports.front());
  here.exports.pop_front();
  const auto found = here.owned.find(item.rows.session);
  if (found == here.owned.end())
    return;
  if (found->second.generation != item.rows.generation) {
    ++figures_.stale_exports;
    if (!how_.wrong.send_stale_exports)
      return;
  }
  for (auto& [to, it] : here.links) {
    bool sent = false;
    const auto effects = it.sender.on_packed(item.rows, sent, now_);
    if (sent != (only<protocol::send_rows>(effects) != nullptr))
      wrong("`sent` does not say what the effects say");
    carry_out(at, to, effects, &item.content);
  }
}

void link_world::want_moves(std::size_t at) {
  node& here = nodes_[at];
  if (here.wanted.empty())
    return;
  const wanted_item item = here.wanted.front();
  here.wanted.pop_front();
  if (faulty_ && random_.chance(20))
    return;  // no staging memory here
  if (const auto found = here.owned.find(item.rows.session); found != here.owned.end())
    export_range(at, found->second, item.rows.first, item.rows.count, item.link);
}

void link_world::drop_session(std::size_t at, session_id id) {
  node& here = nodes_[at];
  for (auto& [to, it] : here.links)
    carry_out(at, to, it.sender.on_session_ended(id, true));
  here.owned.erase(id);
  here.engine.erase(id);
  ++figures_.dropped_sessions;
}

void link_world::change_owner() {
  auto group = owners_.begin();
  std::advance(group, random_.below(static_cast<std::uint32_t>(owners_.size())));
  const std::size_t next = random_.below(node_count);
  if (next == group->second.first)
    return;
  const baton::epoch epoch{next_epoch_++};
  group->second = {next, epoch};
  ++figures_.owner_changes;
  demote(next, group->first);  // if it is a zombie of an older epoch still
  promote(next, group->first, epoch);
}

void link_world::promote(std::size_t at, group_id group, baton::epoch epoch) {
  node& here = nodes_[at];
  auto taken = here.replicas.promote(group, epoch);
  if (!taken)
    return;
  while (!here.engine_queue.empty())
    engine_moves(at);
  here.owns[group] = epoch;
  histories_[epoch];
  for (protocol::held_replica& held : *taken) {
    const session_id id = held.log.session();
    owned_session session{group, epoch, std::move(held.log)};
    remember(epoch, session.log);
    auto& engine = here.engine[id];
    if (engine.size() < held.synced)
      wrong("a promoted node has fewer rows than it called synced");
    engine.resize(held.synced);
    check_rows(at, session.log, held.synced, "promotion");
    session.exported = held.synced;
    session.generation = next_generation_++;
    if (session.log.length() == 0) {  // nothing of it has come yet: there is nothing to own
      for (auto& [to, it] : here.links)
        carry_out(at, to, it.sender.on_session(group, epoch, session.log, 0, now_));
      for (auto& [to, it] : here.links)
        carry_out(at, to, it.sender.on_session_ended(id, true));
      continue;
    }
    for (auto& [to, it] : here.links)
      carry_out(at, to, it.sender.on_session(group, epoch, session.log, held.synced, now_));
    here.owned.insert_or_assign(id, std::move(session));
  }
}

void link_world::demote(std::size_t at, group_id group) {
  node& here = nodes_[at];
  if (here.owns.erase(group) == 0)
    return;
  std::vector<protocol::held_replica> back;
  for (auto it = here.owned.begin(); it != here.owned.end();) {
    owned_session& session = it->second;
    if (session.group != group) {
      ++it;
      continue;
    }
    for (auto& [to, link] : here.links)
      carry_out(at, to, link.sender.on_session_ended(it->first, false));
    const auto rows = static_cast<position>(here.engine[it->first].size());
    back.push_back({group, std::move(session.log), rows});
    it = here.owned.erase(it);
  }
  apply(at, here.replicas.take_back(group, std::move(back)));
}

void link_world::demote_replaced() {
  for (std::size_t at = 0; at < node_count; ++at)
    for (const auto& [group, owner] : owners_)
      if (!owned_now(at, group))
        demote(at, group);
}

// --- links ------------------------------------------------------------------------------------------------------------------

void link_world::connect(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (it.wire)
    return;
  it.wire.emplace();
  it.wire->id = next_connection_++;
  carry_out(from, to, it.sender.on_connected(now_, true));
}

void link_world::disconnect(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (!it.wire)
    return;
  ++figures_.disconnects;
  const connection lost = std::move(*it.wire);
  it.wire.reset();
  it.sender.on_disconnected();
  if (faulty_ && random_.chance(50)) {  // what was on its way may come all the same, whenever
    for (const forward_item& item : lost.forward)
      late_.push_back({to, lost.id, item, false});
    for (const delta_message& delta : lost.landing)
      late_.push_back({to, lost.id, delta, true});
  } else {
    for (const delta_message& delta : lost.landing)
      landing_done(to, lost.id, delta, false);
  }
}

void link_world::carry_out(std::size_t from, std::size_t to, const protocol::link_effects& effects,
                           const std::vector<row>* content) {
  for (const protocol::link_effect& effect : effects) {
    if (const auto* frame = std::get_if<protocol::send_frame>(&effect)) {
      sends(from, to, frame->frame);
    } else if (const auto* rows = std::get_if<protocol::send_rows>(&effect)) {
      sends(from, to, delta_message{rows->rows, *content});
    } else if (const auto* want = std::get_if<protocol::want_rows>(&effect)) {
      nodes_[from].wanted.push_back({to, *want});
    } else if (const auto* moved = std::get_if<protocol::standby_progress>(&effect)) {
      link_between(from, to).progress.emplace_back(moved->session, *moved);
    } else if (const auto* higher = std::get_if<protocol::fenced>(&effect)) {
      ++figures_.fenced;
      const auto mine = nodes_[from].owns.find(higher->group);
      if (mine != nodes_[from].owns.end() && mine->second < higher->epoch)
        demote(from, higher->group);
    } else if (std::holds_alternative<protocol::link_stalled>(effect)) {
      ++figures_.stalls;
      disconnect(from, to);
      return;
    }
  }
}

void link_world::sends(std::size_t from, std::size_t to, forward_item item) {
  link& it = link_between(from, to);
  if (!it.wire)
    return wrong("sent without a connection");
  if (auto* delta = std::get_if<delta_message>(&item)) {
    ++figures_.deltas;
    if (faulty_ && random_.chance(3)) {
      ++figures_.corrupt_rows;
      delta->content[random_.below(static_cast<std::uint32_t>(delta->content.size()))] ^= 1ULL << random_.below(64);
    }
  } else {
    ++figures_.frames;
  }
  it.wire->forward.push_back(std::move(item));
}

void link_world::deliver(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (!it.wire || it.wire->forward.empty())
    return;
  const forward_item item = std::move(it.wire->forward.front());
  it.wire->forward.pop_front();
  receive(to, it.wire->id, item);
}

void link_world::deliver_late() {
  if (late_.empty())
    return;
  const late_item item = std::move(late_.front());
  late_.pop_front();
  ++figures_.late_frames;
  if (item.landing)
    landing_done(item.to, item.id, std::get<delta_message>(item.item), random_.chance(50));
  else
    receive(item.to, item.id, item.item);
}

void link_world::acknowledge(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (!it.wire || it.wire->back.empty())
    return;
  const replica_ack ack = it.wire->back.front();
  it.wire->back.pop_front();
  if (ack.synced > ack.logged || ack.expected < ack.synced || ack.expected > ack.logged)
    wrong("an acknowledgement out of order");
  carry_out(from, to, it.sender.on_ack(ack, now_));
}

/// The owner counts what a link says: rule S5.
void link_world::progress(std::size_t from, std::size_t to) {
  auto& queue = link_between(from, to).progress;
  if (queue.empty())
    return;
  const auto [id, what] = queue.front();
  queue.pop_front();
  const auto found = nodes_[from].owned.find(id);
  if (found == nodes_[from].owned.end() || found->second.epoch != what.epoch)
    return;
  owned_session& session = found->second;
  if (how_.wrong.trust_progress_by_index) {
    const position logged = std::min(what.logged, session.log.length());
    session.acknowledged[to] = {logged, session.log.chain_at(logged)};
  } else if (session.log.contains({what.logged, what.chain})) {
    session.acknowledged[to] = {what.logged, what.chain};
  }
}

void link_world::tick() {
  if (how_.wrong.lose_ticks)
    return;
  for (std::size_t from = 0; from < node_count; ++from)
    for (auto& [to, it] : nodes_[from].links)
      if (it.wire)
        carry_out(from, to, it.sender.on_tick(now_));
}

// --- standbys -----------------------------------------------------------------------------------------------------------------

void link_world::receive(std::size_t at, std::uint64_t by, const forward_item& item) {
  if (const auto* delta = std::get_if<delta_message>(&item))
    receive_delta(at, by, *delta);
  else
    receive_frame(at, by, std::get<link_frame>(item));
}

void link_world::mutate(std::size_t at, std::uint64_t& by, session_records& records) {
  if (how_.wrong.keep_old_connections)
    by = next_connection_;
  if (how_.wrong.skip_epoch_check)
    records.epoch = std::max(records.epoch, nodes_[at].replicas.highest_epoch(records.group));
  if (!how_.wrong.skip_chain_check)
    return;
  const session_log* log = nodes_[at].replicas.log_of(records.session);
  for (session_record& record : records.records)
    if (auto* added = std::get_if<tokens_record>(&record); added != nullptr && log != nullptr) {
      added->first = std::min(added->first, log->length());
      added->chain_before = log->chain_at(added->first);
    }
}

void link_world::receive_frame(std::size_t at, std::uint64_t by, const link_frame& frame) {
  node& here = nodes_[at];
  if (const auto* records = std::get_if<records_frame>(&frame)) {
    for (session_records session : records->sessions) {
      std::uint64_t from = by;
      mutate(at, from, session);
      const auto effects = here.replicas.on_records(from, session);
      if (const auto* ack = only<protocol::send_ack>(effects); ack != nullptr && !ack->ack.has_problem)
        here.taken_under[session.session] = session.epoch;
      apply(at, effects);
    }
  } else if (const auto* resync = std::get_if<resync_frame>(&frame)) {
    apply(at, here.replicas.on_resync(how_.wrong.keep_old_connections ? next_connection_ : by, *resync));
  }
}

void link_world::receive_delta(std::size_t at, std::uint64_t by, const delta_message& delta) {
  node& here = nodes_[at];
  protocol::replica_effects effects;
  if (!here.replicas.admit(by, delta.rows, effects)) {
    apply(at, effects);
    return;
  }
  apply(at, effects);
  if (faulty_ && random_.chance(5)) {
    ++figures_.no_staging;
    apply(at, here.replicas.on_landing_failed(by, delta.rows, errc::no_room));
    return;
  }
  for (std::size_t from = 0; from < node_count; ++from)
    if (from != at)
      if (auto& wire = link_between(from, at).wire; wire && wire->id == by) {
        wire->landing.push_back(delta);
        return;
      }
  landing_done(at, by, delta, false);
}

void link_world::land(std::size_t from, std::size_t to) {
  auto& wire = link_between(from, to).wire;
  if (!wire || wire->landing.empty())
    return;
  // Now and then out of order.
  const std::size_t which = faulty_ && wire->landing.size() > 1 && random_.chance(5) ? 1 : 0;
  const delta_message delta = std::move(wire->landing[which]);
  wire->landing.erase(wire->landing.begin() + static_cast<std::ptrdiff_t>(which));
  landing_done(to, wire->id, delta, true);
}

void link_world::landing_done(std::size_t at, std::uint64_t by, const delta_message& delta, bool success) {
  auto& replicas = nodes_[at].replicas;
  apply(at, success ? replicas.on_landed(delta.rows, 0) : replicas.on_landing_failed(by, delta.rows, errc::connection_lost),
        &delta.content);
}

void link_world::apply(std::size_t at, const protocol::replica_effects& effects, const std::vector<row>* content) {
  node& here = nodes_[at];
  for (const protocol::replica_effect& effect : effects) {
    if (const auto* ack = std::get_if<protocol::send_ack>(&effect)) {
      for (std::size_t from = 0; from < node_count; ++from)
        if (from != at)
          if (auto& wire = link_between(from, at).wire; wire && wire->id == ack->to)
            wire->back.push_back(ack->ack);
    } else if (const auto* rows = std::get_if<protocol::import_rows>(&effect)) {
      here.unpacking.push_back({*rows, *content});
    } else if (const auto* cut = std::get_if<protocol::cut_rows>(&effect)) {
      here.engine_queue.emplace_back(cut_item{cut->session, cut->length});
    } else if (const auto* drop = std::get_if<protocol::drop_rows>(&effect)) {
      here.engine_queue.emplace_back(drop_item{drop->session});
      here.taken_under.erase(drop->session);
    } else if (const auto* higher = std::get_if<protocol::superseded>(&effect)) {
      ++figures_.superseded;
      demote(at, higher->group);
    }
  }
}

void link_world::unpack(std::size_t at) {
  node& here = nodes_[at];
  if (here.unpacking.empty())
    return;
  const unpack_item item = std::move(here.unpacking.front());
  here.unpacking.pop_front();
  if (!how_.wrong.skip_generation && !here.replicas.current(item.rows.session, item.rows.generation))
    return;
  if (checksum_of(item.content) == item.rows.checksum || how_.wrong.skip_checksum) {
    here.engine_queue.emplace_back(item);
    return;
  }
  apply(at, here.replicas.on_imported(item.rows.session, item.rows.generation, item.rows.first + item.rows.count,
                                      {errc::corrupt, "checksum"}));
}

void link_world::engine_moves(std::size_t at) {
  node& here = nodes_[at];
  if (here.engine_queue.empty())
    return;
  const engine_item item = std::move(here.engine_queue.front());
  here.engine_queue.pop_front();
  if (const auto* rows = std::get_if<unpack_item>(&item)) {
    import(at, *rows);
  } else if (const auto* cut = std::get_if<cut_item>(&item)) {
    auto& engine = here.engine[cut->session];
    engine.resize(std::min<std::size_t>(engine.size(), cut->rows));
  } else {
    here.engine.erase(std::get<drop_item>(item).session);
  }
}

void link_world::import(std::size_t at, const unpack_item& item) {
  node& here = nodes_[at];
  auto& engine = here.engine[item.rows.session];
  result<void> outcome;
  if (engine.size() != item.rows.first)
    outcome = {errc::gap, "rows do not follow"};
  else
    engine.insert(engine.end(), item.content.begin(), item.content.end());
  const position end = item.rows.first + item.rows.count;
  apply(at, here.replicas.on_imported(item.rows.session, item.rows.generation, end, outcome));
  if (const session_log* log = here.replicas.log_of(item.rows.session))
    check_rows(at, *log, here.replicas.synced(item.rows.session), "import");
}

// --- faults and time ----------------------------------------------------------------------------------------------------------

void link_world::fault() {
  const std::size_t from = random_.below(node_count);
  const std::size_t to = (from + 1 + random_.below(node_count - 1)) % node_count;
  const std::uint32_t which = random_.below(100);
  if (which < 25)
    disconnect(from, to);
  else if (which < 75)
    connect(from, to);
  else if (which < 80)
    change_owner();
  else if (which < 88)
    demote_replaced();
  else
    now_ += std::chrono::milliseconds{random_.below(300)};
}

/// One thing that would happen without any fault. False if there was nothing to do where we looked.
bool link_world::moves() {
  const std::size_t from = random_.below(node_count);
  const std::size_t to = (from + 1 + random_.below(node_count - 1)) % node_count;
  switch (random_.below(9)) {
    case 0:
    case 1: deliver(from, to); break;
    case 2:
    case 3: acknowledge(from, to); break;
    case 4: land(from, to); break;
    case 5: unpack(from); break;
    case 6: engine_moves(from); break;
    case 7: export_moves(from); break;
    default:
      want_moves(from);
      progress(from, to);
  }
  return true;
}

void link_world::step() {
  ++clock_;
  now_ += std::chrono::milliseconds{1};
  if (clock_ % 20 == 0)
    tick();
  const std::uint32_t what = random_.below(100);
  if (what < 25)
    owner_acts();
  else if (what < 32)
    fault();
  else if (what < 34)
    deliver_late();
  else
    moves();
  for (std::size_t at = 0; at < node_count; ++at) {
    check_node(at);
    check_acknowledged(at);
  }
  check_windows();
}

bool link_world::quiet() const {
  for (const node& it : nodes_) {
    if (!it.unpacking.empty() || !it.engine_queue.empty() || !it.exports.empty() || !it.wanted.empty())
      return false;
    for (const auto& [to, link] : it.links)
      if (!link.wire || !link.wire->forward.empty() || !link.wire->back.empty() || !link.wire->landing.empty() ||
          !link.progress.empty())
        return false;
  }
  return true;
}

void link_world::heal() {
  faulty_ = false;
  while (!late_.empty())
    deliver_late();
  demote_replaced();
  for (const auto& [group, owner] : owners_)
    if (!owned_now(owner.first, group))
      promote(owner.first, group, owner.second);
  std::uint32_t quiet_ticks = 0;
  std::uint64_t spent = 0;
  while (quiet_ticks < 60 && spent < 40'000 && !wrong_) {
    ++clock_;
    ++spent;
    moves();
    for (std::size_t at = 0; at < node_count; ++at) {
      check_node(at);
      check_acknowledged(at);
    }
    if (spent % 50 != 0)
      continue;
    now_ += std::chrono::milliseconds{20};
    tick();
    for (std::size_t from = 0; from < node_count; ++from)
      for (auto& [to, it] : nodes_[from].links)
        connect(from, to);
    quiet_ticks = quiet() ? quiet_ticks + 1 : 0;
  }
  figures_.healing_steps = spent;
  if (quiet_ticks < 60)
    wrong("the links do not come to rest");
  check_converged();
}

std::optional<std::string> link_world::run() {
  for (std::uint32_t i = 0; i < how_.steps && !wrong_; ++i)
    step();
  if (!wrong_)
    heal();
  return wrong_;
}

// --- checkers -----------------------------------------------------------------------------------------------------------------

link_world::row link_world::right_row(const session_log& log, position at) {
  const evaluation_plan plan{log.turns(), chunk};
  const position first = plan.resume_point(at);
  return hash_step(log.chain_at(at + 1), first * 1000ULL + first + plan.batch_at(first, 0xffff'ffff));
}

void link_world::check_rows(std::size_t at, const session_log& log, position rows, const char* where) {
  const auto& engine = nodes_[at].engine[log.session()];
  if (rows > engine.size() || rows > log.length())
    return wrong(std::string{"fewer rows than called synced at "} + where);
  for (position i = 0; i < rows; ++i)
    if (engine[i] != right_row(log, i))
      return wrong(std::string{"a wrong row at "} + where);
}

void link_world::check_node(std::size_t at) {
  node& here = nodes_[at];
  for (const auto& [id, epoch] : here.taken_under) {
    const session_log* log = here.replicas.log_of(id);
    if (log == nullptr)
      continue;
    if (here.replicas.synced(id) > log->length())
      wrong("synced past logged");
    if (!histories_[epoch].contains(log->chain()))
      wrong("a standby's log that is no prefix of what its owner ever had");
  }
  for (const auto& [id, session] : here.owned) {
    if (session.log.length() > context)
      wrong("an owner past its context");
    if (clock_ % 16 == 0)
      check_rows(at, session.log, static_cast<position>(here.engine[id].size()), "owner");
  }
}

/// What a standby has acknowledged it keeps, as long as the owner's history has it: tokens were released because of that.
void link_world::check_acknowledged(std::size_t at) {
  for (const auto& [id, session] : nodes_[at].owned) {
    if (!owned_now(at, session.group))
      continue;
    for (const auto& [to, point] : session.acknowledged) {
      const node& standby = nodes_[to];
      const session_log* log = standby.replicas.log_of(id);
      if (standby.owns.contains(session.group))
        continue;
      if (log == nullptr ? point.length != 0 : !log->contains(point))
        wrong("a standby has less than it has acknowledged");
    }
  }
}

void link_world::check_windows() {
  for (std::size_t from = 0; from < node_count; ++from)
    for (const auto& [to, it] : nodes_[from].links) {
      if (!it.wire)
        continue;
      const auto under_way =
          std::count_if(it.wire->forward.begin(), it.wire->forward.end(),
                        [](const forward_item& item) { return std::holds_alternative<delta_message>(item); }) +
          static_cast<std::ptrdiff_t>(it.wire->landing.size());
      // Twice, since what is given up after a cut or a refusal may still be on its way.
      if (static_cast<std::size_t>(under_way) > 2 * window)
        wrong("more deltas under way than the window allows");
    }
}

void link_world::check_converged() {
  for (const auto& [group, owner] : owners_) {
    for (const auto& [id, session] : nodes_[owner.first].owned) {
      if (session.group != group)
        continue;
      const position rows = session.exported;  // the last few wait until there are enough for a delta
      for (const auto& [to, it] : nodes_[owner.first].links) {
        const node& standby = nodes_[to];
        const session_log* log = standby.replicas.log_of(id);
        if (log == nullptr || log->point() != session.log.point())
          return wrong("a standby's log has not caught up");
        if ((log->open_turn() == nullptr) != (session.log.open_turn() == nullptr))
          return wrong("a standby thinks otherwise about the end of a turn");
        if (standby.replicas.synced(id) < rows)
          return wrong("a standby's rows have not caught up");
        if (it.sender.synced(id) < rows)
          return wrong("a sender does not know that the rows have caught up");
      }
    }
  }
  // Nobody holds what its owner has dropped.
  for (std::size_t at = 0; at < node_count; ++at)
    for (const auto& [group, owner] : owners_)
      for (const auto& sum : nodes_[at].replicas.summaries())
        if (sum.group == group && owner.first != at && sum.epoch == owner.second) {
          std::size_t sessions = 0;
          for (const auto& [id, session] : nodes_[owner.first].owned)
            sessions += session.group == group;
          if (sum.sessions < sessions)
            wrong("a standby counts fewer sessions than it holds");
        }
}

}  // namespace baton::test
