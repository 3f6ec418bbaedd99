#include "actors/protocol/client_stream.hpp"

#include "schemas/codec.hpp"
#include "tests/fuzz/histories.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

namespace {

namespace protocol = actors::protocol;
using verdict = protocol::client_stream::verdict;

constexpr session_id session{7};

/// A gateway's stream under test, and two owners, each of which may believe that it is the one.
class world {
 public:
  explicit world(input bytes)
      : draw_(bytes), owners_{log{session, engine_fingerprint}, log{session, engine_fingerprint}} {}

  void run() {
    while (draw_.any()) {
      step();
      check();
    }
  }

 private:
  void step();
  void open();
  void adopt();
  void send();
  void close();
  void check();

  log& owner() { return owners_[draw_.below(2)]; }

  choices draw_;
  protocol::client_stream stream_{log{session, engine_fingerprint}};
  log owners_[2];
  std::uint64_t sealed_ = 1;
  std::vector<token_id> client_;  // what the client has of the log: position i at [i]
};

void world::step() {
  switch (draw_.below(8)) {
    case 0:
      return open();
    case 1:
    case 2:
      return adopt();
    case 3:
      return grow(owner(), draw_);
    case 4:
      if (draw_.below(4) == 3) return close();
      if (draw_.below(4) == 3) ++sealed_;
      return;
    default:
      return send();
  }
}

/// A turn opens, or is refused and nothing has changed.
void world::open() {
  const log before = stream_.log();
  const position base = draw_.below(4) == 3 ? draw_.below(before.length() + 2U) : before.length();
  const turn_number last = before.last_turn() == nullptr ? 0 : before.last_turn()->number;
  turn_header turn = draw_turn(draw_, last + draw_.below(3), base);
  const auto prompt = draw_tokens(draw_, 4);
  if (draw_.below(4) != 3) turn.prompt_end = base + static_cast<position>(prompt.size());
  if (!stream_.open(turn, prompt).ok()) {
    BATON_ASSERT(same(stream_.log(), before));
    return;
  }
  const log& now = stream_.log();
  BATON_ASSERT(base <= before.length() && now.length() == turn.prompt_end);
  BATON_ASSERT(now.open_turn() != nullptr && *now.open_turn() == turn);
  BATON_ASSERT(before.contains({base, now.chain_at(base)}));
  client_.resize(base);
  client_.insert(client_.end(), prompt.begin(), prompt.end());
}

/// An owner takes what it lacks of the client's history, from whatever it says it has, and holds it then.
void world::adopt() {
  log& node = owner();
  history_point have = node.point();
  if (draw_.below(4) == 3) have = {draw_.below(node.length() + 1U), 0};
  if (draw_.below(4) == 3 && have.length <= node.length()) have.chain = node.chain_at(have.length);
  const auto piece = stream_.piece_for(have);
  BATON_ASSERT(decode<session_piece>(encode(piece)).ok() && *decode<session_piece>(encode(piece)) == piece);
  BATON_ASSERT(piece.end() == stream_.log().length());
  const log before = node;
  const auto adopted = node.adopt(piece);
  if (!adopted.ok()) {
    BATON_ASSERT(adopted.code() == errc::gap && same(node, before));
    // It says what it has, and gets what it needs.
    BATON_ASSERT(node.adopt(stream_.piece_for({0, 0})).ok());
  }
  BATON_ASSERT(node.contains(stream_.log().point()));
}

/// Tokens of an owner, or a change of them: released if they are the next ones on the client's own chain,
/// under an epoch that is not stale, and never else.
void world::send() {
  const log& node = owner();
  turn_tokens tokens;
  const std::uint32_t under = draw_.below(8);
  tokens.epoch = epoch{under == 7 ? sealed_ - 1 : under == 6 ? sealed_ + 1 : sealed_};
  tokens.session = session;
  tokens.turn = node.last_turn() == nullptr ? 1 : node.last_turn()->number;
  position first = std::min(stream_.log().length(), node.length());
  if (draw_.below(2) == 1) first = draw_.below(node.length() + 1U);
  const position count = draw_.below(std::min<std::size_t>(node.length() - first, 8) + 1);
  tokens.first = first;
  tokens.chain_before = node.chain_at(first);
  const auto part = node.tokens().subspan(first, count);
  tokens.tokens.assign(part.begin(), part.end());
  bool changed = true;
  switch (draw_.below(16)) {
    case 12:
      ++tokens.turn;
      break;
    case 13:
      tokens.chain_before ^= 1;
      break;
    case 14:
      tokens.first += draw_.byte();
      break;
    case 15:
      for (token_id& token : tokens.tokens)
        token = static_cast<token_id>(draw_.below(3));
      break;
    default:
      changed = false;
  }

  const log before = stream_.log();
  std::size_t fresh = 99;
  const verdict how = stream_.accept(tokens, epoch{sealed_}, fresh);
  const log& now = stream_.log();
  BATON_ASSERT((how == verdict::stale) == (raw(tokens.epoch) < sealed_));
  if (how != verdict::accepted) {
    BATON_ASSERT(fresh == 0 && same(now, before));
    // What continues the client's own history is not refused.
    const bool next = !changed && before.open_turn() != nullptr &&
                      before.open_turn()->number == tokens.turn && first >= before.open_turn()->prompt_end &&
                      node.contains(before.point()) && first + count > before.length() &&
                      first <= before.length();
    BATON_ASSERT(!next || how == verdict::stale);
    return;
  }
  BATON_ASSERT(fresh > 0 && fresh <= tokens.tokens.size() && before.open_turn() != nullptr);
  BATON_ASSERT(now.length() == before.length() + fresh && now.contains(before.point()));
  // Each position once, in order: the first new one is the one after the last.
  const std::size_t known = tokens.tokens.size() - fresh;
  BATON_ASSERT(tokens.first + known == client_.size());
  client_.insert(client_.end(), tokens.tokens.begin() + static_cast<std::ptrdiff_t>(known),
                 tokens.tokens.end());
  if (!changed) BATON_ASSERT(node.contains({now.length(), now.chain()}));
}

void world::close() {
  const position keep = draw_.below(stream_.log().length() + 2U);
  const position kept = std::min(keep, stream_.log().length());
  stream_.close(keep);
  BATON_ASSERT(stream_.log().length() == kept && stream_.log().open_turn() == nullptr);
  client_.resize(kept);
}

void world::check() {
  check_history(stream_.log());
  const auto tokens = stream_.log().tokens();
  BATON_ASSERT(std::equal(tokens.begin(), tokens.end(), client_.begin(), client_.end()));
}

}  // namespace

// A client's stream between two owners that come to differ. See the functions above for what is checked.
void client_stream(input bytes) {
  world{bytes}.run();
}

}  // namespace baton::fuzz
