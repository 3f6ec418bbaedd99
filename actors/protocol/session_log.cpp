#include "actors/protocol/session_log.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "schemas/hash.hpp"
#include "schemas/limits.hpp"

namespace baton::actors::protocol {

session_log::session_log(session_id session, std::uint64_t fingerprint)
    : session_(session), chains_{hash_step(fingerprint, raw(session))} {}

chain_hash session_log::chain_at(position at) const {
  BATON_ASSERT(at < chains_.size());
  return chains_[at];
}

bool session_log::contains(history_point point) const noexcept {
  return point.length < chains_.size() && chains_[point.length] == point.chain;
}

const turn_header* session_log::open_turn() const noexcept { return open_ ? &turns_.back() : nullptr; }

const turn_header* session_log::turn_beginning_at(position at) const noexcept {
  const auto found = std::lower_bound(turns_.begin(), turns_.end(), at,
                                      [](const turn_header& turn, position base) { return turn.base < base; });
  return found != turns_.end() && found->base == at ? &*found : nullptr;
}

result<void> session_log::begin_turn(turn_header turn) {
  if (turn.base != length())
    return {errc::invalid_argument, "turn begins at " + std::to_string(turn.base) + ", the log ends at " +
                                        std::to_string(length())};
  if (turn.prompt_end <= turn.base)
    return {errc::invalid_argument, "a turn without a prompt"};
  if (!turns_.empty() && (turn.number <= turns_.back().number || turns_.back().base == turn.base))
    return {errc::invalid_argument, "turn " + std::to_string(turn.number) + " does not follow turn " +
                                        std::to_string(turns_.back().number)};
  if (turns_.size() >= limits::session_turns)
    return {errc::no_room, "too many turns"};
  turns_.push_back(std::move(turn));
  open_ = true;
  return {};
}

void session_log::push(token_id token) {
  chain_hash before = chains_.back();
  // Only the last turn can begin at the end of the log.
  if (turns_.back().base == length())
    before = hash_step(before, hash_of(turns_.back()));
  tokens_.push_back(token);
  chains_.push_back(hash_step(before, static_cast<std::uint32_t>(token)));
}

result<void> session_log::append(std::span<const token_id> tokens) {
  if (turns_.empty())
    return {errc::invalid_argument, "tokens before the first turn"};
  if (tokens.size() > limits::session_tokens - tokens_.size())
    return {errc::no_room, "token log past " + std::to_string(limits::session_tokens)};
  for (const token_id token : tokens)
    push(token);
  open_ = open_ || !tokens.empty();
  return {};
}

void session_log::truncate(position to) {
  if (to >= length()) {
    // A turn may have begun without a token yet.
    if (to == length() && !turns_.empty() && turns_.back().base == to) {
      turns_.pop_back();
      open_ = false;
    }
    return;
  }
  tokens_.resize(to);
  chains_.resize(std::size_t{to} + 1);
  while (!turns_.empty() && turns_.back().base >= to)
    turns_.pop_back();
  open_ = false;
}

result<void> session_log::apply(const session_record& record) {
  if (const auto* open = std::get_if<open_record>(&record)) {
    if (open->turn.base > length())
      return {errc::gap, "turn at " + std::to_string(open->turn.base) + " past " + std::to_string(length())};
    if (const turn_header* known = turn_beginning_at(open->turn.base); known != nullptr && *known == open->turn)
      return {};  // said twice
    if (auto begun = begin_turn(open->turn); !begun)
      return {errc::fork, begun.failure().what};
    return {};
  }
  if (const auto* tokens = std::get_if<tokens_record>(&record)) {
    const position end = tokens->first + static_cast<position>(tokens->tokens.size());
    if (tokens->first > length())
      return {errc::gap, "tokens at " + std::to_string(tokens->first) + " past " + std::to_string(length())};
    if (chain_at(tokens->first) != tokens->chain_before)
      return {errc::fork, "another chain at " + std::to_string(tokens->first)};
    // A record may overlap what is held, when it was sent twice; what it repeats must be the same.
    const position held = std::min(length(), end) - tokens->first;
    if (!std::equal(tokens->tokens.begin(), tokens->tokens.begin() + held, tokens_.begin() + tokens->first))
      return {errc::fork, "other tokens from " + std::to_string(tokens->first)};
    return append(std::span{tokens->tokens}.subspan(held));
  }
  if (const auto* cut = std::get_if<truncate_record>(&record)) {
    if (cut->length > length())
      return {errc::gap, "cut at " + std::to_string(cut->length) + " past " + std::to_string(length())};
    if (chain_at(cut->length) != cut->chain)
      return {errc::fork, "another chain at the cut"};
    truncate(cut->length);
    return {};
  }
  if (const auto* close = std::get_if<close_record>(&record)) {
    if (!turns_.empty() && turns_.back().number == close->turn)
      close_turn();
    return {};
  }
  truncate(0);
  return {};
}

result<position> session_log::adopt(const session_piece& piece) {
  if (!contains({piece.first, piece.chain_before}))
    return {errc::gap, "the log of " + std::to_string(length()) + " tokens does not reach the piece at " +
                           std::to_string(piece.first)};
  // How far does what we hold agree with the piece?
  std::size_t turn = 0;
  position same = piece.first;
  bool agrees = true;
  const auto turn_matches = [&](position at) {
    const turn_header* mine = turn_beginning_at(at);
    const bool theirs = turn < piece.turns.size() && piece.turns[turn].base == at;
    if (mine == nullptr && !theirs)
      return true;
    return mine != nullptr && theirs && *mine == piece.turns[turn++];
  };
  while (agrees && same < length() && same < piece.end()) {
    agrees = turn_matches(same) && tokens_[same] == piece.tokens[same - piece.first];
    same += agrees ? 1 : 0;
  }
  // What follows the piece may stay only if it belongs to the piece's last turn.
  const turn_header* last = piece.turns.empty() ? nullptr : &piece.turns.back();
  if (agrees && same == piece.end() && (turns_.empty() || last == nullptr || turns_.back() == *last)) {
    if (length() > same || last != nullptr)
      return same;
  }
  truncate(same);
  for (const turn_header& header : piece.turns) {
    if (header.base < same)
      continue;
    const auto until = std::min(piece.end(), header.base);
    if (auto added = append(std::span{piece.tokens}.subspan(length() - piece.first, until - length())); !added)
      return added.failure();
    if (auto begun = begin_turn(header); !begun)
      return begun.failure();
  }
  if (auto added = append(std::span{piece.tokens}.subspan(length() - piece.first)); !added)
    return added.failure();
  open_ = !turns_.empty();
  return same;
}

session_piece session_log::piece_from(position first) const {
  BATON_ASSERT(first <= length());
  session_piece piece{session_, first, chain_at(first), {}, {tokens_.begin() + first, tokens_.end()}};
  for (const turn_header& turn : turns_)
    if (turn.base >= first)
      piece.turns.push_back(turn);
  return piece;
}

std::vector<session_record> session_log::records_from(position first) const {
  BATON_ASSERT(first <= length());
  std::vector<session_record> records;
  position at = first;
  const auto tokens_until = [&](position until) {
    while (at < until) {
      const position end = std::min(until, at + limits::record_tokens);
      records.emplace_back(tokens_record{at, chain_at(at), {tokens_.begin() + at, tokens_.begin() + end}});
      at = end;
    }
  };
  for (const turn_header& turn : turns_) {
    if (turn.base < first)
      continue;
    tokens_until(turn.base);
    records.emplace_back(open_record{turn});
  }
  tokens_until(length());
  if (!open_ && !turns_.empty())
    records.emplace_back(close_record{turns_.back().number});
  return records;
}

std::vector<history_point> session_log::probes() const {
  std::vector<history_point> points;
  position back = 0;
  while (points.size() + 1 < limits::resync_probes) {
    points.push_back({length() - back, chain_at(length() - back)});
    if (back == length())
      return points;
    back = std::min(length(), back == 0 ? 1 : back * 2);
  }
  points.push_back({0, chain_at(0)});
  return points;
}

history_point session_log::longest_common(std::span<const history_point> points) const {
  history_point best{0, chain_at(0)};
  for (const history_point& point : points)
    if (point.length > best.length && contains(point))
      best = point;
  return best;
}

}  // namespace baton::actors::protocol
