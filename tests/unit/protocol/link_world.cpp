#include "tests/unit/protocol/link_world.hpp"

#include <algorithm>
#include <utility>

#include "schemas/codec.hpp"

namespace baton::test {

using protocol::evaluation_plan;

std::uint64_t checksum_of(const std::vector<std::uint64_t>& content) {
  std::uint64_t sum = content.size();
  for (const std::uint64_t word : content)
    sum = hash_step(sum, word);
  return sum;
}

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
  replicas.places = std::make_shared<protocol::engine_places>(std::size_t{1} << 30, 2);
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
      if (to != i) it.links.emplace(to, link{protocol::link_sender{links}, std::nullopt, {}});
  }
  fault_percent_ = 1 + random_.below(7);
  const std::uint32_t groups = 1 + random_.below(2);
  for (std::uint32_t g = 1; g <= groups; ++g) {
    const std::size_t owner = random_.below(node_count);
    owners_[group_id{g}] = {owner, baton::epoch{next_epoch_}};
    promote(owner, group_id{g}, baton::epoch{next_epoch_++});
  }
}

void link_world::wrong(const std::string& what) {
  if (!wrong_) wrong_ = "seed " + std::to_string(how_.seed) + " step " + std::to_string(clock_) + ": " + what;
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

// --- owners ------------------------------------------------------------------------------------------------

void link_world::owner_acts() {
  const std::size_t at = random_.below(node_count);
  node& here = nodes_[at];
  if (here.owns.empty()) return;
  auto group = here.owns.begin();
  std::advance(group, random_.below(static_cast<std::uint32_t>(here.owns.size())));
  if (here.owned.size() < 3 && random_.chance(here.owned.empty() ? 100 : 2)) begin_session(at, group->first);
  if (here.owned.empty()) return;
  auto chosen = here.owned.begin();
  std::advance(chosen, random_.below(static_cast<std::uint32_t>(here.owned.size())));
  owned_session& session = chosen->second;
  const std::uint32_t act = random_.below(100);
  const turn_header* turn = session.log.open_turn();
  if (turn == nullptr || session.log.length() < turn->prompt_end ||
      act < 6)  // a prompt that was cut is not gone on with
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
    if (it.owned.contains(id) || (it.replicas.log_of(id) != nullptr && random_.chance(70))) return;
  for (const auto& [to, it] :
       here.links)  // nor one so young that news of its former life are still on their way
    for (const auto& [about, news] : it.progress)
      if (about == id) return;
  owned_session fresh{group, here.owns.at(group), session_log{id, fingerprint}};
  remember(fresh.epoch, fresh.log);
  owned_session& session = here.owned.emplace(id, std::move(fresh)).first->second;
  for (auto& [to, it] : here.links)
    carry_out(at, to, it.sender.on_session(group, session.epoch, session.log, 0, now_));
  here.engine[id].clear();
  open_turn(at, session);
}

void link_world::say(std::size_t at, owned_session& session, session_record record) {
  session.cuts += std::holds_alternative<truncate_record>(record) ? 1 : 0;
  session.changes += std::holds_alternative<tokens_record>(record) ? 0 : 1;
  for (auto& [to, it] : nodes_[at].links)
    carry_out(at, to,
              it.sender.on_records({{session.group, session.epoch, session.log.session(), {record}}}, now_));
}

void link_world::append(std::size_t at, owned_session& session, const std::vector<token_id>& added) {
  tokens_record record{session.log.length(), session.log.chain(), added};
  if (!session.log.append(added)) return wrong("the owner's own log is full");
  remember(session.epoch, session.log);
  say(at, session, std::move(record));
}

void link_world::open_turn(std::size_t at, owned_session& session) {
  session_log& log = session.log;
  position base = log.length();
  auto rows = static_cast<position>(nodes_[at].engine[log.session()].size());
  if (log.length() > 0 && (log.length() > context / 2 || random_.chance(40))) {
    base = random_.below(log.length());  // an edited history
    rows = std::min(rows, evaluation_plan{log.turns(), chunk}.rows_kept_at_cut(base));
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
  rows = std::min(rows, evaluation_plan{log.turns(), chunk}.rows_kept_at_begin(base));
  if (!log.begin_turn(header)) return wrong("the owner cannot begin a turn");
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
  if (engine.size() > rows) engine.resize(rows);
  session.exported = std::min(session.exported, rows);
  session.generation = next_generation_++;
  for (auto& [to, it] : nodes_[at].links)
    it.sender.on_rows_held(session.log.session(), static_cast<position>(engine.size()));
}

void link_world::evaluate(std::size_t at, owned_session& session) {
  auto& engine = nodes_[at].engine[session.log.session()];
  const auto rows = static_cast<position>(engine.size());
  const position length = session.log.length();
  if (rows == length || length >= context - 1) return;
  const position count = evaluation_plan{session.log.turns(), chunk}.batch_at(rows, length);
  for (position i = rows; i < rows + count; ++i)
    engine.push_back(hash_step(session.log.chain_at(i + 1), rows * 1000ULL + rows + count));
  if (rows + count == length) append(at, session, {static_cast<token_id>(random_.below(3))});
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
  if (first >= engine.size()) return;
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
  if (here.exports.empty()) return;
  const export_item item = std::move(here.exports.front());
  here.exports.pop_front();
  const auto found = here.owned.find(item.rows.session);
  if (found == here.owned.end()) return;
  if (found->second.generation != item.rows.generation) {
    ++figures_.stale_exports;
    if (!how_.wrong.send_stale_exports) return;
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
  if (here.wanted.empty()) return;
  const wanted_item item = here.wanted.front();
  here.wanted.pop_front();
  if (faulty_ && random_.chance(20)) return;  // no staging memory here
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
  if (next == group->second.first) return;
  const baton::epoch epoch{next_epoch_++};
  group->second = {next, epoch};
  ++figures_.owner_changes;
  demote(next, group->first);  // if it is a zombie of an older epoch still
  promote(next, group->first, epoch);
}

void link_world::promote(std::size_t at, group_id group, baton::epoch epoch) {
  node& here = nodes_[at];
  auto taken = here.replicas.promote(group, epoch);
  if (!taken) return;
  while (!here.engine_queue.empty())
    engine_moves(at);
  here.owns[group] = epoch;
  histories_[epoch];
  for (protocol::held_replica& held : *taken) {
    const session_id id = held.log.session();
    here.taken_under.erase(id);
    owned_session session{group, epoch, std::move(held.log)};
    remember(epoch, session.log);
    auto& engine = here.engine[id];
    if (engine.size() < held.synced) wrong("a promoted node has fewer rows than it called synced");
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
    // It goes on where a batch begins.
    owned_session& owned = here.owned.insert_or_assign(id, std::move(session)).first->second;
    cut_engine(at, owned, evaluation_plan{owned.log.turns(), chunk}.resume_point(held.synced));
  }
}

void link_world::demote(std::size_t at, group_id group) {
  node& here = nodes_[at];
  if (here.owns.erase(group) == 0) return;
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
    here.taken_under[it->first] = session.epoch;
    back.push_back({group, std::move(session.log), rows});
    it = here.owned.erase(it);
  }
  apply(at, here.replicas.take_back(group, std::move(back)));
}

void link_world::demote_replaced() {
  for (std::size_t at = 0; at < node_count; ++at)
    for (const auto& [group, owner] : owners_)
      if (!owned_now(at, group)) demote(at, group);
}

// --- links -------------------------------------------------------------------------------------------------

void link_world::connect(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (it.wire) return;
  it.wire.emplace();
  it.wire->id = next_connection_++;
  carry_out(from, to, it.sender.on_connected(now_, true));
}

void link_world::disconnect(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (!it.wire) return;
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
      sends(from, to, delta_message{rows->rows, *content, nodes_[from].owned.at(rows->rows.session).changes});
    } else if (const auto* want = std::get_if<protocol::want_rows>(&effect)) {
      nodes_[from].wanted.push_back({to, *want});
    } else if (const auto* moved = std::get_if<protocol::standby_progress>(&effect)) {
      link_between(from, to).progress.emplace_back(moved->session, *moved);
    } else if (const auto* higher = std::get_if<protocol::fenced>(&effect)) {
      ++figures_.fenced;
      const auto mine = nodes_[from].owns.find(higher->group);
      if (mine != nodes_[from].owns.end() && mine->second < higher->epoch) demote(from, higher->group);
    } else if (std::holds_alternative<protocol::link_stalled>(effect)) {
      ++figures_.stalls;
      disconnect(from, to);
      return;
    }
  }
}

void link_world::sends(std::size_t from, std::size_t to, forward_item item) {
  link& it = link_between(from, to);
  if (!it.wire) return wrong("sent without a connection");
  if (auto* delta = std::get_if<delta_message>(&item)) {
    ++figures_.deltas;
    if (faulty_ && random_.chance(10)) {
      ++figures_.corrupt_rows;
      delta->content[random_.below(static_cast<std::uint32_t>(delta->content.size()))] ^=
          1ULL << random_.below(64);
    }
  } else {
    ++figures_.frames;
  }
  it.wire->forward.push_back(std::move(item));
}

void link_world::deliver(std::size_t from, std::size_t to) {
  link& it = link_between(from, to);
  if (!it.wire || it.wire->forward.empty()) return;
  const forward_item item = std::move(it.wire->forward.front());
  it.wire->forward.pop_front();
  receive(to, it.wire->id, item);
}

void link_world::deliver_late() {
  if (late_.empty()) return;
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
  if (!it.wire || it.wire->back.empty()) return;
  replica_ack ack = it.wire->back.front();
  it.wire->back.pop_front();
  if (const auto mine = nodes_[from].owned.find(ack.session); how_.wrong.skip_chain_check &&
                                                              mine != nodes_[from].owned.end() &&
                                                              ack.logged <= mine->second.log.length())
    ack.chain = mine->second.log.chain_at(ack.logged);
  if (const link_frame sent = acks_frame{{ack}}; decode<link_frame>(encode(sent)).value() != sent)
    wrong("an acknowledgement that does not survive the wire");
  if (ack.synced > ack.logged || ack.expected < ack.synced || ack.expected > ack.logged)
    wrong("an acknowledgement out of order");
  carry_out(from, to, it.sender.on_ack(ack, now_));
}

/// The owner counts what a link says: rule S5.
void link_world::progress(std::size_t from, std::size_t to) {
  auto& queue = link_between(from, to).progress;
  if (queue.empty()) return;
  const auto [id, what] = queue.front();
  queue.pop_front();
  const auto found = nodes_[from].owned.find(id);
  if (found == nodes_[from].owned.end() || found->second.epoch != what.epoch) return;
  owned_session& session = found->second;
  if (how_.wrong.trust_progress_by_index) {
    const position logged = std::min(what.logged, session.log.length());
    session.acknowledged[to] = {logged, session.log.chain_at(logged)};
  } else if (what.cuts == session.cuts && session.log.contains({what.logged, what.chain})) {
    session.acknowledged[to] = {what.logged, what.chain};
  }
}

void link_world::tick() {
  if (how_.wrong.lose_ticks) return;
  for (std::size_t from = 0; from < node_count; ++from)
    for (auto& [to, it] : nodes_[from].links)
      if (it.wire) carry_out(from, to, it.sender.on_tick(now_));
}

}  // namespace baton::test
