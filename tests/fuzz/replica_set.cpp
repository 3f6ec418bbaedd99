#include "actors/protocol/replica_set.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "schemas/codec.hpp"
#include "tests/fuzz/histories.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

namespace {

namespace protocol = actors::protocol;

constexpr std::uint32_t groups = 2;
constexpr std::uint32_t sessions = 3;
constexpr std::size_t most_replicas = 2;  // one session does not fit
constexpr std::uint32_t regions = 1;
constexpr std::uint64_t bytes_per_token = 4;
constexpr std::uint32_t context_tokens = 40;

protocol::replica_set::options options() {
  protocol::replica_set::options how;
  how.fingerprint = engine_fingerprint;
  how.regions = regions;
  how.bytes_per_token = bytes_per_token;
  how.context_tokens = context_tokens;
  how.prefill_chunk = 2;
  how.sessions = most_replicas;
  how.places = std::make_shared<protocol::engine_places>(std::size_t{1} << 30, 2);
  return how;
}

/// A standby under test, the owners that talk to it, and its engine. Each row of the engine is the chain of
/// the log it was made from, so that a row of another history shows.
class world {
 public:
  explicit world(input bytes) : draw_(bytes) {
    for (std::uint32_t i = 0; i < sessions; ++i)
      owners_.emplace_back(session_id{i + 1}, engine_fingerprint);
  }

  void run() {
    while (draw_.any()) {
      step();
      check();
    }
    while (!orders_.empty())
      carry_out();
    check();
  }

 private:
  struct landing {
    baton::delta_descriptor rows;
    std::vector<chain_hash> made_from;
    protocol::peer_handle peer = 0;
  };

  void step();
  void send_records(bool as_they_are);
  void send_resync();
  void send_rows();
  void land();
  void change_role();
  void carry_out();
  void check();

  void take(protocol::replica_effects effects);
  void check_ack(const replica_ack& ack) const;

  log& owner() { return owners_[draw_.below(sessions)]; }
  group_id group() { return group_id{draw_.below(groups) + 1}; }
  /// A session stays in its group, but for some that move while they are not owned here.
  group_id group_of(session_id session) {
    const std::uint64_t home = raw(session) % groups;
    const bool owned = std::any_of(promoted_.begin(), promoted_.end(), [&](const auto& entry) {
      return std::any_of(entry.second.begin(), entry.second.end(),
                         [&](const auto& one) { return one.log.session() == session; });
    });
    const bool moves = draw_.below(16) == 15 && !owned;
    return group_id{(home + (moves ? 1 : 0)) % groups + 1};
  }
  /// Mostly the latest epoch, or the one before or after it.
  epoch drawn_epoch(group_id of) {
    const std::uint64_t now = raw(set_.highest_epoch(of));
    const std::uint32_t how = draw_.below(8);
    if (how == 7) return epoch{now > 0 ? now - 1 : 0};
    if (how == 6) return epoch{++latest_epoch_};
    return epoch{now};
  }
  /// The latest connection, or the one before.
  protocol::peer_handle peer() { return peers_ - (draw_.below(8) == 7 ? 1 : 0); }

  choices draw_;
  protocol::replica_set set_{options()};
  std::vector<log> owners_;
  protocol::peer_handle peers_ = 1;
  std::uint64_t latest_epoch_ = 1;
  std::uint64_t sequence_ = 0;
  std::deque<landing> landings_;
  std::map<protocol::landing_ticket, landing> landed_;
  protocol::landing_ticket next_ticket_ = 1;
  protocol::replica_effects orders_;  // what the engine has not carried out yet
  std::map<session_id, std::vector<chain_hash>> engine_;
  std::map<group_id, std::vector<protocol::held_replica>> promoted_;
  bool taken_back_ = false;
  std::map<session_id, position> expected_;  // as last heard
  std::map<group_id, epoch> highest_;
  std::set<errc> problems_;  // of the last step
};

void world::step() {
  problems_.clear();
  switch (draw_.below(12)) {
    case 0:
    case 1:
      return grow(owner(), draw_);
    case 2:
    case 3:
      return send_records(true);
    case 4:
      return send_records(false);
    case 5:
      return send_resync();
    case 6:
    case 7:
      return send_rows();
    case 8:
      return land();
    case 9:
      return change_role();
    case 10:
      if (draw_.below(4) == 0) ++peers_;
      return;
    default:
      if (!orders_.empty()) carry_out();
  }
}

/// Records of one owner, from where the standby is or from anywhere; or records of nobody. What is refused as
/// stale changes nothing, a record that does not fit nothing of the log, and a record said twice nothing
/// more.
void world::send_records(bool as_they_are) {
  const log& from = owner();
  session_records records;
  records.session = from.session();
  records.group = group_of(records.session);
  records.epoch = drawn_epoch(records.group);
  records.sequence = ++sequence_;
  if (as_they_are) {
    const log* held = set_.log_of(from.session());
    position first = held != nullptr && held->length() <= from.length() ? held->length() : 0;
    if (draw_.below(4) == 3) first = draw_.below(from.length() + 1U);
    records.records = from.records_from(first);
  } else {
    records.records.push_back(draw_record(draw_, from));
  }
  const protocol::peer_handle by = peer();
  const auto before = set_.log_of(from.session()) == nullptr
                          ? std::optional<log>{}
                          : std::optional<log>{*set_.log_of(from.session())};
  const position synced_before = set_.synced(from.session());
  take(set_.on_records(by, records));
  const log* after = set_.log_of(from.session());
  if (problems_.contains(errc::stale_epoch) || (!problems_.empty() && records.records.size() <= 1)) {
    if (before) BATON_ASSERT(after != nullptr && same(*after, *before));
    BATON_ASSERT(set_.synced(from.session()) == synced_before);
  }
  if (!problems_.empty() || after == nullptr || draw_.below(4) != 0) return;
  if (!as_they_are) return;  // a cut is not the same cut twice
  const log once = *after;
  take(set_.on_records(by, records));
  BATON_ASSERT(set_.log_of(from.session()) != nullptr && same(*set_.log_of(from.session()), once));
}

void world::send_resync() {
  const log& from = owner();
  resync_frame frame;
  frame.session = from.session();
  frame.group = group_of(frame.session);
  frame.epoch = drawn_epoch(frame.group);
  frame.sequence = ++sequence_;
  frame.probes = from.probes(draw_.below(from.length() + 1U));
  if (draw_.below(8) == 7) frame.probes[draw_.below(frame.probes.size())].chain = draw_.byte();
  take(set_.on_resync(peer(), frame));
}

/// The next rows that the standby expects, or others; of an owner whose history is the standby's, or not.
void world::send_rows() {
  const log& from = owner();
  if (from.length() == 0) return;
  landing next;
  baton::delta_descriptor& rows = next.rows;
  rows.session = from.session();
  rows.group = group_of(rows.session);
  rows.epoch = drawn_epoch(rows.group);
  position first = expected_[rows.session];
  if (draw_.below(4) == 3) first = draw_.below(from.length());
  rows.first = std::min(first, from.length() - 1);
  rows.count = 1 + draw_.below(std::min<std::size_t>(from.length() - rows.first, 8));
  rows.chain_before = from.chain_at(rows.first);
  rows.chain_after = from.chain_at(rows.first + rows.count);
  rows.fingerprint = engine_fingerprint;
  rows.regions = regions;
  rows.bytes = rows.count * bytes_per_token;
  rows.checksum = sequence_++;
  switch (draw_.below(16)) {
    case 0:
      rows.fingerprint ^= 1;
      break;
    case 1:
      rows.bytes += draw_.byte();
      break;
    case 2:
      rows.count += draw_.byte();
      break;
    case 3:
      rows.chain_after ^= 1;
      break;
    case 4:
      rows.first = draw_.byte();
      break;
    default:
      break;
  }
  const std::uint64_t refused_before = set_.counted().refused_rows;
  const auto length = [&] {
    const log* held = set_.log_of(rows.session);
    return held == nullptr ? 0 : held->length();
  };
  const position length_before = length();
  const protocol::peer_handle by = peer();
  protocol::replica_effects effects;
  const bool admitted = set_.admit(by, rows, effects);
  take(std::move(effects));
  BATON_ASSERT(length() == length_before);
  if (!admitted) return;
  BATON_ASSERT(set_.counted().refused_rows == refused_before && problems_.empty());
  // Only rows of the standby's own history, of this engine, that fit.
  const log* held = set_.log_of(rows.session);
  const position end = rows.first + rows.count;
  BATON_ASSERT(held != nullptr && end <= held->length() && end <= context_tokens && end <= from.length());
  BATON_ASSERT(held->chain_at(end) == rows.chain_after && rows.bytes == rows.count * bytes_per_token);
  BATON_ASSERT(rows.fingerprint == engine_fingerprint);
  for (position at = rows.first; at < end; ++at)
    next.made_from.push_back(from.chain_at(at + 1));
  next.peer = by;
  expected_[rows.session] = end;
  landings_.push_back(std::move(next));
}

/// Rows arrive, mostly in order, or are lost.
void world::land() {
  if (landings_.empty()) return;
  const std::size_t which = draw_.below(4) == 0 ? draw_.below(landings_.size()) : 0;
  landing one = std::move(landings_[which]);
  landings_.erase(landings_.begin() + static_cast<std::ptrdiff_t>(which));
  if (draw_.below(6) == 0) return take(set_.on_landing_failed(one.peer, one.rows, errc::connection_lost));
  const protocol::landing_ticket ticket = next_ticket_++;
  const baton::delta_descriptor rows = one.rows;
  landed_.emplace(ticket, std::move(one));
  take(set_.on_landed(rows, ticket));
}

void world::change_role() {
  const group_id of = group();
  switch (draw_.below(4)) {
    case 0: {
      const epoch under = drawn_epoch(of);
      const epoch before = set_.highest_epoch(of);
      auto taken = set_.promote(of, under);
      BATON_ASSERT(taken.has_value() == (under >= before));
      if (!taken) return;
      BATON_ASSERT(set_.owned_here(of));
      for (const auto& replica : *taken)
        BATON_ASSERT(replica.group == of && replica.synced <= replica.log.length() &&
                     set_.log_of(replica.log.session()) == nullptr);
      auto& mine = promoted_[of];
      for (auto& replica : *taken)
        mine.push_back(std::move(replica));
      return;
    }
    case 1: {
      if (!set_.owned_here(of)) return;
      auto mine = std::move(promoted_[of]);
      promoted_.erase(of);
      taken_back_ = taken_back_ || !mine.empty();
      for (auto& one : mine) {
        if (draw_.below(3) == 2) {  // another history, made as an owner
          one.log.truncate(draw_.below(one.log.length() + 1U));
          grow(one.log, draw_);
          one.synced = 0;
        }
        // The owner's engine gives the standby the rows that it says are synced.
        engine_[one.log.session()].resize(one.synced);
      }
      take(set_.take_back(of, std::move(mine)));
      BATON_ASSERT(!set_.owned_here(of));
      return;
    }
    case 2: {
      const epoch under = drawn_epoch(of);
      const epoch before = set_.highest_epoch(of);
      set_.fence(of, under);
      BATON_ASSERT(set_.highest_epoch(of) == std::max(before, under));
      return;
    }
    default:
      if (draw_.below(4) == 0) take(set_.drop_group(of));
  }
}

/// The engine carries out the oldest order.
void world::carry_out() {
  const protocol::replica_effect order = orders_.front();
  orders_.erase(orders_.begin());
  if (const auto* cut = std::get_if<protocol::cut_rows>(&order)) {
    auto& rows = engine_[cut->session];
    rows.resize(std::min<std::size_t>(rows.size(), cut->length));
  } else if (const auto* drop = std::get_if<protocol::drop_rows>(&order)) {
    engine_.erase(drop->session);
  } else if (const auto* import = std::get_if<protocol::import_rows>(&order)) {
    const landing one = std::move(landed_.at(import->ticket));
    landed_.erase(import->ticket);
    if (!set_.current(import->session, import->generation)) return;
    BATON_ASSERT(import->count == one.made_from.size() && import->checksum == one.rows.checksum);
    auto& rows = engine_[import->session];
    const position end = import->first + import->count;
    if (draw_.below(8) == 7) {
      take(set_.on_imported(import->session, import->generation, end, result<void>{errc::corrupt, "drawn"}));
      return;
    }
    BATON_ASSERT(rows.size() == import->first);  // the engine appends
    rows.insert(rows.end(), one.made_from.begin(), one.made_from.end());
    const position before = set_.synced(import->session);
    take(set_.on_imported(import->session, import->generation, end, {}));
    BATON_ASSERT(set_.synced(import->session) == end && end > before);
  }
}

void world::take(protocol::replica_effects effects) {
  for (auto& effect : effects) {
    if (const auto* ack = std::get_if<protocol::send_ack>(&effect)) {
      BATON_ASSERT(ack->to <= peers_);
      check_ack(ack->ack);
      expected_[ack->ack.session] = ack->ack.expected;
      if (ack->ack.has_problem) problems_.insert(ack->ack.problem);
    } else if (const auto* superseded = std::get_if<protocol::superseded>(&effect)) {
      BATON_ASSERT(set_.owned_here(superseded->group));
      BATON_ASSERT(set_.highest_epoch(superseded->group) == superseded->epoch);
    } else {
      orders_.push_back(std::move(effect));
    }
  }
}

/// An acknowledgement says what is held, and is one that the other side can read.
void world::check_ack(const replica_ack& ack) const {
  BATON_ASSERT(decode<baton::link_frame>(encode(baton::link_frame{acks_frame{{ack}}})).ok());
  const log* held = set_.log_of(ack.session);
  if (held == nullptr) {
    BATON_ASSERT(ack.has_problem && ack.logged == 0 && ack.synced == 0 && ack.expected == 0);
    return;
  }
  BATON_ASSERT(ack.logged == held->length() && ack.chain == held->chain());
  BATON_ASSERT(ack.synced == set_.synced(ack.session) && ack.expected <= ack.logged);
}

void world::check() {
  if (!taken_back_) BATON_ASSERT(set_.size() <= most_replicas);  // what is taken back has a place already
  for (std::uint32_t i = 1; i <= groups; ++i) {
    epoch& known = highest_[group_id{i}];
    BATON_ASSERT(set_.highest_epoch(group_id{i}) >= known);
    known = set_.highest_epoch(group_id{i});
  }
  std::size_t held_sessions = 0;
  for (std::uint32_t i = 1; i <= sessions; ++i) {
    const log* held = set_.log_of(session_id{i});
    if (held == nullptr) continue;
    ++held_sessions;
    check_history(*held);
    const position synced = set_.synced(session_id{i});
    BATON_ASSERT(synced <= held->length() && synced <= context_tokens);
    // Synced rows are in the engine, and of this very history.
    const auto& rows = engine_[session_id{i}];
    BATON_ASSERT(rows.size() >= synced);
    for (position at = 0; at < synced; ++at)
      BATON_ASSERT(rows[at] == held->chain_at(at + 1));
  }
  BATON_ASSERT(held_sessions == set_.size());
  std::uint64_t summed = 0;
  for (const auto& sum : set_.summaries()) {
    BATON_ASSERT(sum.epoch == set_.highest_epoch(sum.group));
    summed += sum.sessions;
  }
  BATON_ASSERT(summed == held_sessions);
}

}  // namespace

// Owners, some of them replaced, send one standby records, probes and rows, which land, fail, or come late;
// the standby is promoted and steps back. See the functions above for what is checked on the way.
void replica_set(input bytes) {
  world{bytes}.run();
}

}  // namespace baton::fuzz
