#pragma once

#include <algorithm>
#include <vector>

#include "actors/protocol/session_log.hpp"
#include "tests/fuzz/input.hpp"

/// Histories of sessions for the targets over the protocol: drawn from an input, small numbers, so that
/// pieces of different ones meet.
namespace baton::fuzz {

using log = actors::protocol::session_log;

inline constexpr std::uint64_t engine_fingerprint = 0xfeed;

inline turn_header draw_turn(choices& draw, turn_number number, position base) {
  turn_header turn;
  turn.number = number;
  turn.base = base;
  turn.prompt_end = base + draw.below(4);  // 0: no turn at all
  turn.parameters.max_tokens = 1 + draw.below(2);
  return turn;
}

inline std::vector<token_id> draw_tokens(choices& draw, std::size_t most) {
  std::vector<token_id> tokens(draw.below(most + 1));
  for (token_id& token : tokens)
    token = static_cast<token_id>(draw.below(3));
  return tokens;
}

/// One step of an owner of the history: a turn, tokens, a cut, or an end.
inline void grow(log& history, choices& draw) {
  switch (draw.below(6)) {
    case 0: {
      const turn_number last = history.last_turn() == nullptr ? 0 : history.last_turn()->number;
      static_cast<void>(history.begin_turn(draw_turn(draw, last + draw.below(3), history.length())).ok());
      return;
    }
    case 1:
      history.truncate(draw.below(history.length() + 1U));
      return;
    case 2:
      history.close_turn();
      return;
    default:
      static_cast<void>(history.append(draw_tokens(draw, 5)).ok());
  }
}

/// Records as nobody sends them, made of small numbers and of points of `history`.
inline session_record draw_record(choices& draw, const log& history) {
  const position at = draw.below(history.length() + 2U);
  const chain_hash chain =
      at <= history.length() && draw.below(4) != 0 ? history.chain_at(at) : chain_hash{draw.byte()};
  switch (draw.below(5)) {
    case 0:
      return open_record{draw_turn(draw, draw.below(5), at)};
    case 1:
      return truncate_record{at, chain};
    case 2:
      return close_record{draw.below(5)};
    case 3:
      return draw.below(8) == 0 ? session_record{drop_record{}} : session_record{close_record{0}};
    default:
      return tokens_record{at, chain, draw_tokens(draw, 5)};
  }
}

inline bool same(const log& a, const log& b) {
  return a.session() == b.session() && a.point() == b.point() &&
         std::equal(a.turns().begin(), a.turns().end(), b.turns().begin(), b.turns().end()) &&
         std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end()) &&
         (a.open_turn() == nullptr) == (b.open_turn() == nullptr);
}

/// What holds for every history: turns in order, tokens in turns, and a chain that is the chain of just
/// these, at every length.
inline void check_history(const log& history) {
  position least = 0;
  const turn_header* before = nullptr;
  for (const turn_header& turn : history.turns()) {
    BATON_ASSERT(turn.base >= least && turn.base <= history.length() && turn.prompt_end > turn.base);
    BATON_ASSERT(before == nullptr || turn.number > before->number);
    least = turn.base + 1;
    before = &turn;
  }
  BATON_ASSERT(history.length() == 0 || (!history.turns().empty() && history.turns().front().base == 0));
  BATON_ASSERT(history.open_turn() == nullptr || history.open_turn() == history.last_turn());
  log fresh{history.session(), engine_fingerprint};
  position at = 0;
  const auto append_until = [&](position until) {
    for (; at < until; ++at) {
      BATON_ASSERT(fresh.chain() == history.chain_at(at));
      BATON_ASSERT(fresh.append(history.tokens().subspan(at, 1)).ok());
    }
  };
  for (const turn_header& turn : history.turns()) {
    append_until(turn.base);
    BATON_ASSERT(fresh.begin_turn(turn).ok());
  }
  append_until(history.length());
  BATON_ASSERT(fresh.point() == history.point());
}

}  // namespace baton::fuzz
