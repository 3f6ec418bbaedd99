#include "actors/protocol/client_stream.hpp"

#include "schemas/limits.hpp"
#include "tests/unit/protocol/support.hpp"

using namespace baton;
using namespace baton::actors::protocol;
using baton::test::fingerprint;
using baton::test::tokens;
using baton::test::turn;
using verdict = client_stream::verdict;

namespace {

constexpr session_id session{7};
constexpr epoch current{5};

/// A stream with one open turn: a prompt of four tokens, nothing released yet.
client_stream begun() {
  client_stream stream{session_log{session, fingerprint}};
  REQUIRE(stream.open(turn(1, 0, 4), tokens(0, 4)).ok());
  return stream;
}

/// What an owner whose log is `log` sends of [first, first + count).
turn_tokens from_owner(const session_log& log, position first, position count, epoch under = current) {
  turn_tokens out;
  out.epoch = under;
  out.session = log.session();
  out.turn = log.last_turn()->number;
  out.first = first;
  out.chain_before = log.chain_at(first);
  const auto part = log.tokens().subspan(first, count);
  out.tokens.assign(part.begin(), part.end());
  return out;
}

struct judged {
  verdict how;
  std::size_t fresh;
  friend bool operator==(const judged&, const judged&) = default;
};

judged accept(client_stream& stream, const turn_tokens& message, epoch sealed = current) {
  std::size_t fresh = 99;
  const verdict how = stream.accept(message, sealed, fresh);
  return {how, fresh};
}

}  // namespace

TEST_CASE("tokens in order are accepted once") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  CHECK((accept(stream, from_owner(owner, 4, 3)) == judged{verdict::accepted, 3}));
  CHECK(stream.log().length() == 7);
  CHECK(stream.log().chain() == owner.chain_at(7));
  CHECK((accept(stream, from_owner(owner, 4, 3)) == judged{verdict::duplicate, 0}));
  CHECK((accept(stream, from_owner(owner, 5, 1)) == judged{verdict::duplicate, 0}));
  CHECK((accept(stream, from_owner(owner, 7, 0)) == judged{verdict::duplicate, 0}));
  // An overlap brings its end.
  CHECK((accept(stream, from_owner(owner, 5, 4)) == judged{verdict::accepted, 2}));
  CHECK((accept(stream, from_owner(owner, 4, 10)) == judged{verdict::accepted, 5}));
  CHECK(stream.log().chain() == owner.chain());
}

TEST_CASE("what an owner of a lower epoch says is stale, of a higher one welcome") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  CHECK((accept(stream, from_owner(owner, 4, 3, epoch{4})) == judged{verdict::stale, 0}));
  CHECK(stream.log().length() == 4);
  CHECK((accept(stream, from_owner(owner, 4, 3, epoch{6})) == judged{verdict::accepted, 3}));
  CHECK((accept(stream, from_owner(owner, 7, 3, epoch{5}), epoch{6}) == judged{verdict::stale, 0}));
  // Stale before anything else: even what would contradict.
  turn_tokens wrong = from_owner(owner, 4, 3, epoch{4});
  wrong.chain_before ^= 1;
  CHECK((accept(stream, wrong) == judged{verdict::stale, 0}));
}

TEST_CASE("a gap is not released") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  CHECK((accept(stream, from_owner(owner, 5, 3)) == judged{verdict::gap, 0}));
  turn_tokens far = from_owner(owner, 5, 3);
  far.first = 0xffff'ffff;
  CHECK((accept(stream, far) == judged{verdict::gap, 0}));
  CHECK(stream.log().length() == 4);
}

TEST_CASE("another history diverges") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  REQUIRE(accept(stream, from_owner(owner, 4, 4)).how == verdict::accepted);
  const chain_hash before = stream.log().chain();

  turn_tokens other_chain = from_owner(owner, 8, 2);
  other_chain.chain_before ^= 1;
  CHECK((accept(stream, other_chain) == judged{verdict::diverged, 0}));
  turn_tokens other_token = from_owner(owner, 6, 4);
  other_token.tokens[1] ^= 1;  // one that the client has
  CHECK((accept(stream, other_token) == judged{verdict::diverged, 0}));
  turn_tokens other_all = from_owner(owner, 6, 2);
  other_all.tokens[0] ^= 1;  // nothing new in it, and still wrong
  CHECK((accept(stream, other_all) == judged{verdict::diverged, 0}));
  CHECK(
      (accept(stream, from_owner(owner, 3, 7)) == judged{verdict::diverged, 0}));  // the prompt is no answer
  const session_log other = test::log_of(4, 10, 2);
  CHECK((accept(stream, from_owner(other, 8, 2)) == judged{verdict::diverged, 0}));
  const session_log other_session = test::log_of(4, 10, 1, session_id{8});
  CHECK((accept(stream, from_owner(other_session, 8, 2)) == judged{verdict::diverged, 0}));

  CHECK(stream.log().length() == 8);
  CHECK(stream.log().chain() == before);
  CHECK((accept(stream, from_owner(owner, 8, 2)) == judged{verdict::accepted, 2}));
}

TEST_CASE("tokens past the longest session are never released") {
  client_stream stream{session_log{session, fingerprint}};
  const position prompt = limits::session_tokens - 1;
  REQUIRE(stream.open(turn(1, 0, prompt), tokens(0, prompt)).ok());
  turn_tokens message = from_owner(stream.log(), prompt, 0);
  message.tokens = {1, 2};
  CHECK((accept(stream, message).how == verdict::diverged));
  CHECK(stream.log().length() == prompt);
  message.tokens = {1};
  CHECK((accept(stream, message) == judged{verdict::accepted, 1}));
}

TEST_CASE("late tokens of a turn that has ended are duplicates") {
  client_stream stream = begun();
  session_log owner = test::log_of(4, 10);
  REQUIRE(accept(stream, from_owner(owner, 4, 6)).how == verdict::accepted);
  stream.close(8);  // cut by a stop string
  CHECK(stream.log().length() == 8);
  CHECK(stream.log().open_turn() == nullptr);
  CHECK((accept(stream, from_owner(owner, 10, 4)) == judged{verdict::duplicate, 0}));
  REQUIRE(stream.open(turn(2, 8, 10), tokens(8, 2, 3)).ok());
  CHECK((accept(stream, from_owner(owner, 10, 4)) == judged{verdict::duplicate, 0}));
  CHECK(stream.log().length() == 10);
}

TEST_CASE("closing keeps at most what there is") {
  client_stream stream = begun();
  stream.close(1000);
  CHECK(stream.log().length() == 4);
  CHECK(stream.log().open_turn() == nullptr);
}

TEST_CASE("a turn opens at the end or further back, and else changes nothing") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  REQUIRE(accept(stream, from_owner(owner, 4, 6)).how == verdict::accepted);
  stream.close(10);
  const session_log before = stream.log();
  const auto refused = [&](const turn_header& header, const std::vector<token_id>& prompt, errc code) {
    const auto opened = stream.open(header, prompt);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.code() == code);
    CHECK(stream.log().point() == before.point());
    CHECK(stream.log().turns().size() == 1);
    CHECK(stream.log().open_turn() == nullptr);
  };
  refused(turn(2, 11, 12), tokens(11, 1), errc::gap);
  refused(turn(2, 6, 6), {}, errc::invalid_argument);
  refused(turn(2, 6, 8), tokens(6, 1), errc::invalid_argument);  // not its prompt
  refused(turn(1, 6, 8), tokens(6, 2), errc::invalid_argument);  // the number does not grow
  refused(turn(2, 6, limits::session_tokens + 1), std::vector<token_id>(limits::session_tokens - 5),
          errc::no_room);

  REQUIRE(stream.open(turn(2, 6, 8), tokens(6, 2, 9)).ok());  // another branch
  CHECK(stream.log().length() == 8);
  CHECK(stream.log().chain_at(6) == owner.chain_at(6));
  CHECK(stream.log().chain_at(8) != owner.chain_at(8));
  REQUIRE(stream.open(turn(1, 0, 2), tokens(0, 2)).ok());  // all anew
  CHECK(stream.log().length() == 2);
  CHECK(stream.log().turns().size() == 1);
}

TEST_CASE("a turn too many is refused before anything is cut") {
  session_log log{session, fingerprint};
  for (turn_number number = 1; number <= limits::session_turns; ++number) {
    REQUIRE(log.begin_turn(turn(number, number - 1, number)).ok());
    REQUIRE(log.append(tokens(number - 1, 1)).ok());
  }
  const position end = limits::session_turns;
  REQUIRE(log.append(tokens(end, 4)).ok());
  client_stream stream{log};
  const auto opened = stream.open(turn(end + 1, end + 1, end + 2), tokens(end + 1, 1));
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.code() == errc::no_room);
  CHECK(stream.log().point() == log.point());                  // the client has been given those four
  CHECK(stream.open(turn(end + 1, 1, 2), tokens(1, 1)).ok());  // after a cut there is room
}

TEST_CASE("a node gets what it lacks of the history") {
  client_stream stream = begun();
  const session_log owner = test::log_of(4, 10);
  REQUIRE(accept(stream, from_owner(owner, 4, 6)).how == verdict::accepted);
  const session_log& log = stream.log();

  session_piece piece = stream.piece_for({6, log.chain_at(6)});  // a beginning
  CHECK(piece == log.piece_from(6));
  piece = stream.piece_for({0, log.chain_at(0)});  // nothing
  CHECK(piece == log.piece_from(0));
  piece = stream.piece_for({10, log.chain_at(10)});  // all
  CHECK(piece == log.piece_from(10));
  CHECK(piece.tokens.empty());
  piece = stream.piece_for({12, owner.chain_at(12)});  // more: if it is more of the same, it has the end
  CHECK(piece == log.piece_from(10));
  piece = stream.piece_for({6, log.chain_at(6) ^ 1});  // another history
  CHECK(piece == log.piece_from(0));
  piece = stream.piece_for({10, log.chain_at(10) ^ 1});  // another one of the same length
  CHECK(piece == log.piece_from(0));
}

TEST_CASE("what a node adopts from the stream is the stream's history") {
  test::dice draw{77};
  for (int round = 0; round < 200; ++round) {
    client_stream stream = begun();
    const session_log owner = test::log_of(4, 10);
    REQUIRE(accept(stream, from_owner(owner, 4, draw.below(11))).how != verdict::diverged);
    const bool other = draw.chance(30);
    session_log node = other ? test::log_of(4, draw.below(11), 2) : owner;
    node.truncate(draw.below(node.length() + 1));
    auto adopted = node.adopt(stream.piece_for(node.point()));
    if (!adopted.ok())  // it has more, of something else, and says so
      adopted = node.adopt(stream.log().piece_from(0));
    REQUIRE(adopted.ok());
    CHECK(node.contains(stream.log().point()));
  }
}
