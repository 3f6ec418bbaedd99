#include "tests/unit/protocol/link_world.hpp"

#include <algorithm>
#include <utility>

#include "schemas/codec.hpp"

namespace baton::test {

using protocol::evaluation_plan;

// --- standbys ----------------------------------------------------------------------------------------------

void link_world::receive(std::size_t at, std::uint64_t by, const forward_item& item) {
  if (const auto* delta = std::get_if<delta_message>(&item))
    receive_delta(at, by, *delta);
  else
    receive_frame(at, by, std::get<link_frame>(item));
}

void link_world::mutate(std::size_t at, std::uint64_t& by, session_records& records) {
  if (how_.wrong.keep_old_connections) by = next_connection_;
  if (how_.wrong.skip_epoch_check)
    records.epoch = std::max(records.epoch, nodes_[at].replicas.highest_epoch(records.group));
  if (!how_.wrong.skip_chain_check) return;
  const session_log* log = nodes_[at].replicas.log_of(records.session);
  for (session_record& record : records.records)
    if (auto* added = std::get_if<tokens_record>(&record); added != nullptr && log != nullptr) {
      added->first = std::min(added->first, log->length());
      added->chain_before = log->chain_at(added->first);
    }
}

void link_world::mutate(std::size_t at, std::uint64_t& by, resync_frame& frame) {
  if (how_.wrong.keep_old_connections) by = next_connection_;
  const session_log* log = nodes_[at].replicas.log_of(frame.session);
  if (how_.wrong.skip_chain_check && log != nullptr)
    for (history_point& point : frame.probes)
      if (point.length <= log->length()) point.chain = log->chain_at(point.length);
}

void link_world::receive_frame(std::size_t at, std::uint64_t by, const link_frame& sent) {
  node& here = nodes_[at];
  const auto read = decode<link_frame>(encode(sent));
  if (!read || *read != sent) return wrong("a frame that does not survive the wire");
  const link_frame& frame = *read;
  if (const auto* records = std::get_if<records_frame>(&frame)) {
    for (session_records session : records->sessions) {
      std::uint64_t from = by;
      mutate(at, from, session);
      const auto effects = here.replicas.on_records(from, session);
      if (const auto* ack = only<protocol::send_ack>(effects); ack != nullptr && !ack->ack.has_problem)
        here.taken_under[session.session] = session.epoch;
      apply(at, effects);
    }
  } else if (const auto* probes = std::get_if<resync_frame>(&frame)) {
    resync_frame resync = *probes;
    mutate(at, by, resync);
    apply(at, here.replicas.on_resync(by, resync));
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
  if (faulty_ && random_.chance(15)) {
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
  if (!wire || wire->landing.empty()) return;
  // Now and then out of order.
  const std::size_t which = faulty_ && wire->landing.size() > 1 && random_.chance(5) ? 1 : 0;
  const delta_message delta = std::move(wire->landing[which]);
  wire->landing.erase(wire->landing.begin() + static_cast<std::ptrdiff_t>(which));
  landing_done(to, wire->id, delta, true);
}

void link_world::landing_done(std::size_t at, std::uint64_t by, const delta_message& delta, bool success) {
  auto& replicas = nodes_[at].replicas;
  apply(at,
        success ? replicas.on_landed(delta.rows, 0)
                : replicas.on_landing_failed(by, delta.rows, errc::connection_lost),
        &delta.content);
}

void link_world::apply(std::size_t at, const protocol::replica_effects& effects,
                       const std::vector<row>* content) {
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
  if (here.unpacking.empty()) return;
  const unpack_item item = std::move(here.unpacking.front());
  here.unpacking.pop_front();
  if (!here.replicas.current(item.rows.session, item.rows.generation)) return;
  if (checksum_of(item.content) == item.rows.checksum || how_.wrong.skip_checksum) {
    here.engine_queue.emplace_back(item);
    return;
  }
  apply(at, here.replicas.on_imported(item.rows.session, item.rows.generation,
                                      item.rows.first + item.rows.count, {errc::corrupt, "checksum"}));
}

void link_world::engine_moves(std::size_t at) {
  node& here = nodes_[at];
  if (here.engine_queue.empty()) return;
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

// --- faults and time ---------------------------------------------------------------------------------------

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
    case 1:
      deliver(from, to);
      break;
    case 2:
    case 3:
      acknowledge(from, to);
      break;
    case 4:
      land(from, to);
      break;
    case 5:
      unpack(from);
      break;
    case 6:
      engine_moves(from);
      break;
    case 7:
      export_moves(from);
      break;
    default:
      want_moves(from);
      progress(from, to);
  }
  return true;
}

void link_world::step() {
  ++clock_;
  now_ += std::chrono::milliseconds{1};
  if (clock_ % 20 == 0) tick();
  const std::uint32_t what = random_.below(100);
  if (what < 15)
    owner_acts();
  else if (what < 15 + fault_percent_)
    fault();
  else if (what < 25)
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
      if (!link.wire || !link.wire->forward.empty() || !link.wire->back.empty() ||
          !link.wire->landing.empty() || !link.progress.empty())
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
    if (!owned_now(owner.first, group)) promote(owner.first, group, owner.second);
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
    if (spent % 50 != 0) continue;
    now_ += std::chrono::milliseconds{20};
    tick();
    for (std::size_t from = 0; from < node_count; ++from)
      for (auto& [to, it] : nodes_[from].links)
        connect(from, to);
    quiet_ticks = quiet() ? quiet_ticks + 1 : 0;
  }
  figures_.healing_steps = spent;
  if (quiet_ticks < 60) wrong("the links do not come to rest");
  check_converged();
}

std::optional<std::string> link_world::run() {
  for (std::uint32_t i = 0; i < how_.steps && !wrong_; ++i)
    step();
  if (!wrong_) heal();
  return wrong_;
}

// --- checkers ----------------------------------------------------------------------------------------------

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
    if (engine[i] != right_row(log, i)) return wrong(std::string{"a wrong row at "} + where);
}

void link_world::check_node(std::size_t at) {
  node& here = nodes_[at];
  for (const auto& [id, epoch] : here.taken_under) {
    const session_log* log = here.replicas.log_of(id);
    if (log == nullptr) continue;
    if (here.replicas.synced(id) > log->length()) wrong("synced past logged");
    if (!histories_[epoch].contains(log->chain()))
      wrong("a standby's log that is no prefix of what its owner ever had");
  }
  for (const auto& [id, session] : here.owned) {
    if (session.log.length() > context) wrong("an owner past its context");
    if (clock_ % 16 == 0) check_rows(at, session.log, static_cast<position>(here.engine[id].size()), "owner");
  }
}

/// What a standby has acknowledged it keeps, as long as the owner's history has it: tokens were released
/// because of that.
void link_world::check_acknowledged(std::size_t at) {
  for (const auto& [id, session] : nodes_[at].owned) {
    if (!owned_now(at, session.group)) continue;
    for (const auto& [to, point] : session.acknowledged) {
      const node& standby = nodes_[to];
      const session_log* log = standby.replicas.log_of(id);
      if (standby.owns.contains(session.group)) continue;
      if (log == nullptr ? point.length != 0 : !log->contains(point))
        wrong("a standby has less than it has acknowledged");
    }
  }
}

void link_world::check_windows() {
  for (std::size_t from = 0; from < node_count; ++from)
    for (const auto& [to, it] : nodes_[from].links) {
      if (!it.wire) continue;
      // What was sent before the past was changed is given up, and counts no more.
      const auto counts = [&](const delta_message& delta) {
        const auto session = nodes_[from].owned.find(delta.rows.session);
        return session != nodes_[from].owned.end() && session->second.changes == delta.changes;
      };
      const auto under_way = std::count_if(it.wire->forward.begin(), it.wire->forward.end(),
                                           [&](const forward_item& item) {
                                             const auto* delta = std::get_if<delta_message>(&item);
                                             return delta != nullptr && counts(*delta);
                                           }) +
                             std::count_if(it.wire->landing.begin(), it.wire->landing.end(), counts);
      // Twice, since what is given up after a refusal may still be on its way.
      if (static_cast<std::size_t>(under_way) > 2 * window)
        wrong("more deltas under way than the window allows");
    }
}

void link_world::check_converged() {
  for (const auto& [group, owner] : owners_) {
    for (const auto& [id, session] : nodes_[owner.first].owned) {
      if (session.group != group) continue;
      const position rows = session.exported;  // the last few wait until there are enough for a delta
      for (const auto& [to, it] : nodes_[owner.first].links) {
        const node& standby = nodes_[to];
        const session_log* log = standby.replicas.log_of(id);
        if (log == nullptr || log->point() != session.log.point())
          return wrong("a standby's log has not caught up");
        if ((log->open_turn() == nullptr) != (session.log.open_turn() == nullptr))
          return wrong("a standby thinks otherwise about the end of a turn");
        if (standby.replicas.synced(id) < rows) return wrong("a standby's rows have not caught up");
        if (it.sender.synced(id) < rows) return wrong("a sender does not know that the rows have caught up");
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
          if (sum.sessions < sessions) wrong("a standby counts fewer sessions than it holds");
        }
}

}  // namespace baton::test
