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

const turn_header* session_log::open_turn() const noexcept {
  return open_ ? &turns_.back() : nullptr;
}

const turn_header* session_log::turn_beginning_at(position at) const noexcept {
  const auto found =
      std::lower_bound(turns_.begin(), turns_.end(), at,
                       [](const turn_header& turn, position base) { return turn.base < base; });
  return found != turns_.end() && found->base == at ? &*found : nullptr;
}

const turn_header* session_log::turn_after(position at) const noexcept {
  const auto found =
      std::upper_bound(turns_.begin(), turns_.end(), at,
                       [](position base, const turn_header& turn) { return base < turn.base; });
  return found == turns_.end() ? nullptr : &*found;
}

bool session_log::follows_without_last(const turn_header& turn) const noexcept {
  return turn.prompt_end > turn.base && (turns_.size() < 2 || turns_[turns_.size() - 2].number < turn.number);
}

result<void> session_log::begin_turn(turn_header turn) {
  if (turn.base != length())
    return {errc::invalid_argument,
            "turn begins at " + std::to_string(turn.base) + ", the log ends at " + std::to_string(length())};
  if (turn.prompt_end <= turn.base) return {errc::invalid_argument, "a turn without a prompt"};
  if (!turns_.empty() && (turn.number <= turns_.back().number || turns_.back().base == turn.base))
    return {errc::invalid_argument, "turn " + std::to_string(turn.number) + " does not follow turn " +
                                        std::to_string(turns_.back().number)};
  if (turns_.size() >= limits::session_turns) return {errc::no_room, "too many turns"};
  turns_.push_back(std::move(turn));
  open_ = true;
  return {};
}

void session_log::push(token_id token) {
  chain_hash before = chains_.back();
  // Only the last turn can begin at the end of the log.
  if (turns_.back().base == length()) before = hash_step(before, hash_of(turns_.back()));
  tokens_.push_back(token);
  chains_.push_back(hash_step(before, static_cast<std::uint32_t>(token)));
}

result<void> session_log::append(std::span<const token_id> tokens) {
  if (tokens.empty()) return {};
  if (turns_.empty()) return {errc::invalid_argument, "tokens before the first turn"};
  if (tokens.size() > limits::session_tokens - tokens_.size())
    return {errc::no_room, "token log past " + std::to_string(limits::session_tokens)};
  for (const token_id token : tokens)
    push(token);
  open_ = true;
  return {};
}

void session_log::truncate(position to) {
  if (to > length() || (to == length() && turn_beginning_at(to) == nullptr)) return;
  while (!turns_.empty() && turns_.back().base >= to)
    turns_.pop_back();
  open_ = !turns_.empty();
  tokens_.resize(to);
  chains_.resize(std::size_t{to} + 1);
}

result<void> session_log::apply(const session_record& record) {
  if (const auto* open = std::get_if<open_record>(&record)) {
    if (open->turn.base > length())
      return {errc::gap, "turn at " + std::to_string(open->turn.base) + " past " + std::to_string(length())};
    if (const turn_header* known = turn_beginning_at(open->turn.base);
        known != nullptr && *known == open->turn) {
      open_ = open_ || known == &turns_.back();
      return {};  // said twice
    }
    if (turn_beginning_at(length()) != nullptr && open->turn.base == length() &&
        follows_without_last(open->turn))
      truncate(length());  // instead of a turn that never had a token
    if (auto begun = begin_turn(open->turn); !begun)
      return {begun.code() == errc::no_room ? errc::no_room : errc::fork, begun.failure().what};
    return {};
  }
  if (const auto* tokens = std::get_if<tokens_record>(&record)) {
    const std::uint64_t end = std::uint64_t{tokens->first} + tokens->tokens.size();
    if (tokens->first > length())
      return {errc::gap, "tokens at " + std::to_string(tokens->first) + " past " + std::to_string(length())};
    if (chain_at(tokens->first) != tokens->chain_before)
      return {errc::fork, "another chain at " + std::to_string(tokens->first)};
    // A record is of one turn.
    if (const turn_header* next = turn_after(tokens->first); next != nullptr && next->base < end)
      return {errc::fork, "a turn begins at " + std::to_string(next->base)};
    // A record may overlap what is held, when it was sent twice; what it repeats must be the same.
    const auto held = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(length(), end) - tokens->first);
    if (!std::equal(tokens->tokens.begin(), tokens->tokens.begin() + held, tokens_.begin() + tokens->first))
      return {errc::fork, "other tokens from " + std::to_string(tokens->first)};
    return append(std::span{tokens->tokens}.subspan(static_cast<std::size_t>(held)));
  }
  if (const auto* cut = std::get_if<truncate_record>(&record)) {
    if (cut->length > length())
      return {errc::gap, "cut at " + std::to_string(cut->length) + " past " + std::to_string(length())};
    if (chain_at(cut->length) != cut->chain) return {errc::fork, "another chain at the cut"};
    truncate(cut->length);
    return {};
  }
  if (const auto* close = std::get_if<close_record>(&record)) {
    if (!turns_.empty() && turns_.back().number == close->turn) close_turn();
    return {};
  }
  truncate(0);
  return {};
}

position session_log::agreement_with(const session_piece& piece) const {
  std::size_t turn = 0;
  const auto turn_matches = [&](position at) {
    const turn_header* mine = turn_beginning_at(at);
    const bool theirs = turn < piece.turns.size() && piece.turns[turn].base == at;
    if (mine == nullptr && !theirs) return true;
    return mine != nullptr && theirs && *mine == piece.turns[turn++];
  };
  position same = piece.first;
  while (same < length() && same < piece.end() && turn_matches(same) &&
         tokens_[same] == piece.tokens[same - piece.first])
    ++same;
  return same;
}

result<void> session_log::check_follows(const session_piece& piece, position same) const {
  const auto wrong = [](const char* what) { return error{errc::invalid_argument, what}; };
  if (piece.tokens.size() > limits::session_tokens - std::min(piece.first, limits::session_tokens))
    return {errc::no_room, "a piece past the longest session"};
  if (piece.first == 0 && !piece.tokens.empty() && (piece.turns.empty() || piece.turns.front().base != 0))
    return wrong("tokens before the first turn");
  const auto kept = static_cast<std::size_t>(
      std::count_if(turns_.begin(), turns_.end(), [&](const turn_header& turn) { return turn.base < same; }));
  if (kept + piece.turns.size() > limits::session_turns) return {errc::no_room, "too many turns"};
  turn_number number = kept == 0 ? 0 : turns_[kept - 1].number;
  position least = piece.first;
  for (const turn_header& turn : piece.turns) {
    if (turn.base < least || turn.base > piece.end() || turn.prompt_end <= turn.base)
      return wrong("turns out of order");
    least = turn.base + 1;
    if (turn.base < same) continue;  // held already
    if (kept + (&turn - piece.turns.data()) != 0 && turn.number <= number)
      return wrong("turn numbers out of order");
    number = turn.number;
  }
  return {};
}

result<position> session_log::agreement(const session_piece& piece) const {
  if (!contains({piece.first, piece.chain_before}))
    return {errc::gap, "the log of " + std::to_string(length()) + " tokens does not reach the piece at " +
                           std::to_string(piece.first)};
  const position same = agreement_with(piece);
  if (auto fits = check_follows(piece, same); !fits) return fits.failure();
  return same;
}

result<position> session_log::adopt(const session_piece& piece) {
  const auto agreed = agreement(piece);
  if (!agreed) return agreed.failure();
  const position same = *agreed;
  // What follows the piece may stay only if it belongs to the piece's last turn.
  const bool same_turn = piece.turns.empty() ? turns_.empty() || turns_.back().base < piece.end()
                                             : !turns_.empty() && turns_.back() == piece.turns.back();
  if (same == piece.end() && same_turn) return length();  // the tail as well
  truncate(same);
  for (const turn_header& header : piece.turns) {
    if (header.base < same) continue;
    const auto added =
        append(std::span{piece.tokens}.subspan(length() - piece.first, header.base - length()));
    BATON_ASSERT(added.ok() && begin_turn(header).ok());  // checked above
  }
  const auto added = append(std::span{piece.tokens}.subspan(length() - piece.first));
  BATON_ASSERT(added.ok());
  open_ = !turns_.empty();
  return same;
}

session_piece session_log::piece_from(position first) const {
  BATON_ASSERT(first <= length());
  session_piece piece{session_, first, chain_at(first), {}, {tokens_.begin() + first, tokens_.end()}};
  for (const turn_header& turn : turns_)
    if (turn.base >= first) piece.turns.push_back(turn);
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
    if (turn.base < first) continue;
    tokens_until(turn.base);
    records.emplace_back(open_record{turn});
  }
  tokens_until(length());
  if (!open_ && !turns_.empty())
    records.emplace_back(close_record{turns_.back().number});
  else if (open_ && records.empty())
    records.emplace_back(open_record{turns_.back()});  // it may have been closed there, under another owner
  return records;
}

std::vector<history_point> session_log::probes(position upto) const {
  BATON_ASSERT(upto <= length());
  std::vector<history_point> points;
  if (upto < length()) points.push_back(point());
  position back = 0;
  while (points.size() + 1 < limits::resync_probes) {
    points.push_back({upto - back, chain_at(upto - back)});
    if (back == upto) return points;
    back = std::min(upto, back == 0 ? 1 : back * 2);
  }
  points.push_back({0, chain_at(0)});
  return points;
}

position session_log::undisputed(std::span<const history_point> points) const {
  position upto = length();
  if (!points.empty()) upto = std::min(upto, points.front().length);
  for (const history_point& point : points)
    if (point.length <= upto && !contains(point)) upto = std::max<position>(point.length, 1) - 1;
  return upto;
}

}  // namespace baton::actors::protocol
