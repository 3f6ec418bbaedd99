#include "actors/protocol/session_log.hpp"

#include "schemas/limits.hpp"
#include "tests/fuzz/histories.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

namespace {

constexpr session_id session{7};

/// A piece of `history`, or one that stands on it and goes its own way, or one of nobody's.
session_piece draw_piece(choices& draw, const log& history) {
  session_piece piece = history.piece_from(draw.below(history.length() + 1U));
  switch (draw.below(6)) {
    case 0:
      return piece;
    case 1:  // shorter
      piece.tokens.resize(draw.below(piece.tokens.size() + 1));
      return piece;
    case 2:
      if (!piece.turns.empty()) {
        turn_header& changed = piece.turns[draw.below(piece.turns.size())];
        const position base = draw.below(12);
        changed = draw_turn(draw, draw.below(6), base);
      }
      return piece;
    case 3:
      piece.chain_before = draw.byte();
      return piece;
    default:
      break;
  }
  // What is a history as often as not.
  piece.turns.clear();
  piece.tokens.resize(draw.below(piece.tokens.size() + 1));
  for (std::uint32_t more = draw.below(3); more > 0; --more) {
    piece.turns.push_back(draw_turn(draw, draw.below(6), piece.end()));
    const auto tokens = draw_tokens(draw, 4);
    piece.tokens.insert(piece.tokens.end(), tokens.begin(), tokens.end());
  }
  return piece;
}

void check_adopt(log& held, const session_piece& piece) {
  const log before = held;
  const auto adopted = held.adopt(piece);
  if (!adopted.ok()) {
    BATON_ASSERT(same(held, before));
    return;
  }
  const position kept = *adopted;
  BATON_ASSERT(kept >= piece.first && kept <= before.length() && kept <= held.length());
  BATON_ASSERT(before.contains({kept, held.chain_at(kept)}));
  // It holds the piece, and what follows it within the same turn, if anything.
  BATON_ASSERT(held.length() >= piece.end());
  const auto part = held.tokens().subspan(piece.first, piece.tokens.size());
  BATON_ASSERT(std::equal(part.begin(), part.end(), piece.tokens.begin()));
  const log again = held;
  BATON_ASSERT(held.adopt(piece).ok() && same(held, again));
}

/// A standby that holds the first `length` positions catches up by records.
void check_records(const log& history, position length) {
  log standby{session, engine_fingerprint};
  BATON_ASSERT(standby.adopt(history.piece_from(0)).ok());
  standby.truncate(length);
  for (const session_record& record : history.records_from(length))
    BATON_ASSERT(standby.apply(record).ok());
  BATON_ASSERT(same(standby, history));
}

/// The probes of one history cut another one to a point that does not lie before what they have in common,
/// unless they say it is wrong; and probing on from there ends at a common point.
void check_probes(const log& theirs, const log& mine) {
  position common = std::min(theirs.length(), mine.length());
  while (!theirs.contains({common, mine.chain_at(common)}))
    --common;
  log standby = mine;
  for (int round = 0; round < 64; ++round) {
    const auto points = theirs.probes(std::min(theirs.length(), standby.length()));
    BATON_ASSERT(!points.empty() && points.size() <= limits::resync_probes);
    const position upto = standby.undisputed(points);
    BATON_ASSERT(upto >= common && upto <= standby.length() && upto <= theirs.length());
    standby.truncate(upto);
    if (theirs.contains(standby.point())) return;
    BATON_ASSERT(round < 63);
  }
}

}  // namespace

// Two histories that grow, are cut, and take each other's pieces and records; and records and pieces of
// nobody.
void session_log(input bytes) {
  choices draw{bytes};
  log held{session, engine_fingerprint};
  log other = held;
  while (draw.any()) {
    const log before = held;
    switch (draw.below(8)) {
      case 0:
        grow(held, draw);
        break;
      case 1:
        grow(other, draw);
        break;
      case 2:
        check_adopt(held, draw_piece(draw, held));
        break;
      case 3:
        check_adopt(held, draw_piece(draw, other));
        break;
      case 4: {
        const auto record = draw_record(draw, draw.flag() ? held : other);
        if (!held.apply(record).ok()) BATON_ASSERT(same(held, before));
        break;
      }
      case 5:
        check_records(held, draw.below(held.length() + 1U));
        break;
      case 6:
        check_probes(other, held);
        break;
      default:
        other = held;
    }
    check_history(held);
    check_history(other);
  }
}

}  // namespace baton::fuzz
