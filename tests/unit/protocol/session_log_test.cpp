#include <catch2/catch.hpp>

#include <string>

#include "actors/protocol/session_log.hpp"
#include "schemas/limits.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {
namespace {

using actors::protocol::session_log;

bool same_history(const session_log& a, const session_log& b) {
  return std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end()) &&
         std::equal(a.turns().begin(), a.turns().end(), b.turns().begin(), b.turns().end());
}

/// Turns that have a token; the chain does not know of others.
std::vector<turn_header> begun_turns(const session_log& log) {
  std::vector<turn_header> out;
  for (const turn_header& it : log.turns())
    if (it.base < log.length()) out.push_back(it);
  return out;
}

/// A log of random turns over few distinct tokens, so that equal and different histories are both likely.
session_log random_log(dice& random, position most = 40) {
  session_log log{session_id{7}, fingerprint};
  turn_number number = 0;
  do {
    const position prompt = 1 + random.below(6);
    number += 1 + random.below(2);
    REQUIRE(log.begin_turn(turn(number, log.length(), log.length() + prompt, random.below(2))));
    for (position i = random.below(8) + prompt; i > 0; --i)
      REQUIRE(log.append(std::vector<token_id>{static_cast<token_id>(random.below(2))}));
    if (random.chance(50)) log.close_turn();
  } while (log.length() < most && random.chance(80));
  return log;
}

void apply_all(session_log& to, const std::vector<session_record>& records) {
  for (const session_record& record : records) {
    const auto applied = to.apply(record);
    INFO((applied ? "" : applied.failure().what));
    REQUIRE(applied);
  }
}

}  // namespace

TEST_CASE("session_log: equal chains mean equal histories, and the other way round") {
  dice random{1};
  int equal = 0;
  for (int i = 0; i < 20'000; ++i) {
    session_log a = random_log(random, 4);
    session_log b = random_log(random, 4);
    a.truncate(1 + random.below(3));
    b.truncate(1 + random.below(3));
    const bool same =
        std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end()) &&
        begun_turns(a) == begun_turns(b);
    REQUIRE((a.point() == b.point()) == same);
    equal += same;
  }
  CHECK(equal > 10);  // else the test proves one direction only
}

TEST_CASE("session_log: the chain depends on all that decides what is generated") {
  const auto chain_of = [](std::uint64_t print, session_id session, const turn_header& header,
                           token_id token) {
    session_log log{session, print};
    REQUIRE(log.begin_turn(header));
    REQUIRE(log.append(std::vector<token_id>{token}));
    return log.chain();
  };
  const turn_header base = turn(1, 0, 1);
  const chain_hash reference = chain_of(1, session_id{1}, base, 5);
  CHECK(chain_of(1, session_id{1}, base, 5) == reference);
  CHECK(chain_of(2, session_id{1}, base, 5) != reference);
  CHECK(chain_of(1, session_id{2}, base, 5) != reference);
  CHECK(chain_of(1, session_id{1}, base, 6) != reference);
  CHECK(chain_of(1, session_id{1}, base, -5) != reference);

  std::vector<turn_header> others;
  const auto with = [&](auto change) {
    others.push_back(base);
    change(others.back());
  };
  with([](turn_header& it) { it.number = 2; });
  with([](turn_header& it) { it.prompt_end = 2; });
  with([](turn_header& it) { it.parameters.max_tokens = 7; });
  with([](turn_header& it) { it.parameters.end_tokens = {2}; });
  with([](turn_header& it) { it.parameters.end_tokens = {2, 3}; });
  with([](turn_header& it) { it.parameters.sampling.temperature = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.top_k = 4; });
  with([](turn_header& it) { it.parameters.sampling.top_p = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.min_p = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.repetition_penalty = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.frequency_penalty = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.presence_penalty = 0.5F; });
  with([](turn_header& it) { it.parameters.sampling.penalty_window = 65; });
  with([](turn_header& it) { it.parameters.sampling.logit_bias = {{1, 0.5F}}; });
  with([](turn_header& it) { it.parameters.sampling.seed = 9; });
  with([](turn_header& it) { it.parameters.sampling.top_logprobs = 1; });
  with([](turn_header& it) { it.parameters.sampling.logprobs = true; });
  std::vector<chain_hash> chains{reference};
  for (const turn_header& other : others)
    chains.push_back(chain_of(1, session_id{1}, other, 5));
  std::sort(chains.begin(), chains.end());
  CHECK(std::adjacent_find(chains.begin(), chains.end()) == chains.end());
}

TEST_CASE("session_log: a turn begins only at the end, with a prompt and a growing number") {
  session_log log{session_id{7}, fingerprint};
  CHECK(log.append(tokens(0, 1)).failure().code == errc::invalid_argument);
  CHECK(log.begin_turn(turn(1, 1, 2)).failure().code == errc::invalid_argument);
  CHECK(log.begin_turn(turn(1, 0, 0)).failure().code == errc::invalid_argument);
  REQUIRE(log.begin_turn(turn(3, 0, 2)));
  CHECK(log.begin_turn(turn(4, 0, 2)).failure().code == errc::invalid_argument);  // two at one place
  REQUIRE(log.append(tokens(0, 4)));
  CHECK(log.begin_turn(turn(3, 4, 6)).failure().code == errc::invalid_argument);
  CHECK(log.begin_turn(turn(2, 4, 6)).failure().code == errc::invalid_argument);
  CHECK(log.begin_turn(turn(5, 4, 6)));
}

TEST_CASE("session_log: limits on tokens and turns") {
  session_log log{session_id{7}, fingerprint};
  REQUIRE(log.begin_turn(turn(1, 0, 2)));
  REQUIRE(log.append(std::vector<token_id>(limits::session_tokens - 1, 1)));
  CHECK(log.append(std::vector<token_id>(2, 1)).failure().code == errc::no_room);
  CHECK(log.append(std::vector<token_id>(1, 1)));
  CHECK(log.append(std::vector<token_id>(1, 1)).failure().code == errc::no_room);
  CHECK(log.length() == limits::session_tokens);
  CHECK(log.probes().size() <= limits::resync_probes);

  session_log turns{session_id{7}, fingerprint};
  for (turn_number i = 1; i <= limits::session_turns; ++i) {
    REQUIRE(turns.begin_turn(turn(i, i - 1, i)));
    REQUIRE(turns.append(std::vector<token_id>{1}));
  }
  const turn_header more = turn(limits::session_turns + 1, turns.length(), turns.length() + 1);
  CHECK(turns.begin_turn(more).failure().code == errc::no_room);
  CHECK(turns.apply(open_record{more}).failure().code == errc::no_room);
}

TEST_CASE("session_log: truncate") {
  session_log log = log_of(4, 4);
  log.close_turn();
  REQUIRE(log.begin_turn(turn(2, 8, 10)));
  REQUIRE(log.append(tokens(8, 6)));
  const session_log whole = log;

  SECTION("past the end does nothing") {
    log.truncate(15);
    CHECK(same_history(log, whole));
    CHECK(log.open_turn() != nullptr);
  }
  SECTION("at the end does nothing") {
    log.close_turn();
    log.truncate(14);
    CHECK(same_history(log, whole));
    CHECK(log.open_turn() == nullptr);
  }
  SECTION("inside a closed turn: its end is not known any more, so it is open") {
    log.close_turn();
    log.truncate(12);
    REQUIRE(log.open_turn() != nullptr);
    CHECK(log.open_turn()->number == 2);
    CHECK(log.point() == history_point{12, whole.chain_at(12)});
  }
  SECTION("at the begin of a turn: it is gone, nor is it known that the one before has ended") {
    log.truncate(8);
    CHECK(log.turns().size() == 1);
    CHECK(log.open_turn() != nullptr);
    CHECK(log.point() == history_point{8, whole.chain_at(8)});
  }
  SECTION("across a turn") {
    log.truncate(7);
    CHECK(log.turns().size() == 1);
    CHECK(log.open_turn() != nullptr);
  }
  SECTION("a turn without a token goes when cut at its begin") {
    log.truncate(8);
    REQUIRE(log.begin_turn(turn(2, 8, 10)));
    log.truncate(8);
    CHECK(log.turns().size() == 1);
    CHECK(log.open_turn() != nullptr);
  }
  SECTION("to nothing") {
    log.truncate(0);
    CHECK(log.point() == session_log{session_id{7}, fingerprint}.point());
    CHECK(log.turns().empty());
    CHECK(log.open_turn() == nullptr);
    log.truncate(0);
    CHECK(log.length() == 0);
  }
  SECTION("whatever is cut, what is left is a past of the whole") {
    for (position at = 0; at <= 14; ++at) {
      session_log cut = whole;
      cut.truncate(at);
      CHECK(whole.contains(cut.point()));
      // The same tokens again give the same chain again.
      for (const session_record& record : whole.records_from(at))
        REQUIRE(cut.apply(record));
      CHECK(cut.point() == whole.point());
    }
  }
}

// --- adopt -------------------------------------------------------------------------------------------------

namespace {

struct adoption {
  const char* what;
  session_log held;
  session_piece piece;
  result<position> kept;
  session_log after;
  bool open;
};

session_log two_turns(std::uint64_t second_flavour = 1) {
  session_log log = log_of(4, 4);
  log.close_turn();
  REQUIRE(log.begin_turn(turn(2, 8, 10)));
  REQUIRE(log.append(tokens(8, 6, second_flavour)));
  return log;
}

session_log cut(session_log log, position at) {
  log.truncate(at);
  return log;
}

session_log closed(session_log log) {
  log.close_turn();
  return log;
}

/// A log cut to `base`, with another turn there.
session_log with_turn(session_log log, const turn_header& header, position count, std::uint64_t flavour) {
  log.truncate(header.base);
  REQUIRE(log.begin_turn(header));
  REQUIRE(log.append(tokens(header.base, count, flavour)));
  return log;
}

std::vector<adoption> adoptions() {
  const session_log none{session_id{7}, fingerprint};
  const session_log one = log_of(4, 4);
  const session_log two = two_turns();
  const session_log edited = with_turn(two, turn(3, 6, 9), 3, 5);
  const session_log other_tail = with_turn(two, turn(2, 8, 10), 4, 9);
  return {
      {"a new session", none, one.piece_from(0), position{0}, one, true},
      {"a new turn at the end", closed(one), with_turn(one, turn(2, 8, 10), 2, 1).piece_from(8), position{8},
       cut(two, 10), true},
      {"a new turn, said from the begin", closed(one), cut(two, 10).piece_from(0), position{8}, cut(two, 10),
       true},
      {"an edited history", two, edited.piece_from(6), position{6}, edited, true},
      {"an edited history, said from the begin", two, edited.piece_from(0), position{6}, edited, true},
      {"an edited history that ends sooner", two, with_turn(two, turn(3, 2, 3), 1, 5).piece_from(2),
       position{2}, with_turn(two, turn(3, 2, 3), 1, 5), true},
      {"resume with the same log", two, two.piece_from(0), position{14}, two, true},
      {"resume, the gateway is behind: the tail stays", two, cut(two, 11).piece_from(0), position{14}, two,
       true},
      {"resume, the gateway is behind, by a point", two, cut(two, 11).piece_from(11), position{14}, two,
       true},
      {"resume, the gateway is ahead", cut(two, 11), two.piece_from(11), position{11}, two, true},
      {"resume, the gateway is far ahead", cut(two, 3), two.piece_from(3), position{3}, two, true},
      {"resume, the gateway is ahead, all said", cut(two, 11), two.piece_from(0), position{11}, two, true},
      {"resume, the log is a fork", two, other_tail.piece_from(0), position{8}, other_tail, true},
      {"a closed turn stays closed", closed(two), two.piece_from(0), position{14}, two, false},
      {"a closed turn stays closed when nothing is said", closed(two), two.piece_from(14), position{14}, two,
       false},
      {"a closed turn with a tail stays closed", closed(two), cut(two, 12).piece_from(9), position{14}, two,
       false},
      {"a turn that was cut goes on", cut(closed(two), 12), cut(two, 12).piece_from(9), position{12},
       cut(two, 12), true},
      {"a turn that was cut goes on when nothing is said", cut(closed(two), 12), cut(two, 12).piece_from(12),
       position{12}, cut(two, 12), true},
      {"a later turn is no tail of this one", two, one.piece_from(0), position{8}, one, true},
      {"a later turn is no tail of this one, by a point", two, one.piece_from(8), position{8}, one, true},
      {"another turn at the same place", with_turn(two, turn(3, 8, 10), 6, 1), two.piece_from(0), position{8},
       two, true},
      {"a point that is not held", one, two.piece_from(9), {errc::gap, ""}, one, true},
      {"a point of another history",
       log_of(4, 4, 2),
       two.piece_from(8),
       {errc::gap, ""},
       log_of(4, 4, 2),
       true},
      {"the begin of another session",
       log_of(4, 4, 1, session_id{8}),
       two.piece_from(0),
       {errc::gap, ""},
       log_of(4, 4, 1, session_id{8}),
       true},
  };
}

}  // namespace

TEST_CASE("session_log: adopt") {
  for (adoption& it : adoptions()) {
    INFO(it.what);
    const auto kept = it.held.adopt(it.piece);
    REQUIRE(kept.ok() == it.kept.ok());
    if (kept)
      CHECK(*kept == *it.kept);
    else
      CHECK(kept.code() == it.kept.code());
    CHECK(it.held.point() == it.after.point());
    CHECK(same_history(it.held, it.after));
    CHECK((it.held.open_turn() != nullptr) == it.open);
  }
}

TEST_CASE("session_log: a piece that is no history changes nothing") {
  const session_log two = two_turns();
  std::vector<std::pair<const char*, session_piece>> bad;
  const auto with = [&](const char* what, position from, auto change) {
    session_piece piece = two.piece_from(from);
    change(piece);
    bad.emplace_back(what, std::move(piece));
  };
  with("turn past the end", 8, [](session_piece& it) { it.turns.back().base = 15; });
  with("turn before the piece", 8, [](session_piece& it) { it.turns.back().base = 7; });
  with("turns in reverse", 0, [](session_piece& it) { std::swap(it.turns[0], it.turns[1]); });
  with("two turns at one place", 0, [](session_piece& it) { it.turns[1].base = 0; });
  with("a turn without a prompt", 8, [](session_piece& it) { it.turns[0].prompt_end = 8; });
  with("a number that does not grow", 8, [](session_piece& it) { it.turns[0].number = 1; });
  with("tokens before the first turn", 0, [](session_piece& it) { it.turns.clear(); });
  with("the first turn comes late", 0, [](session_piece& it) { it.turns.erase(it.turns.begin()); });
  with("too many tokens", 0, [](session_piece& it) { it.tokens.resize(limits::session_tokens + 1); });
  with("a first past all bounds", 8, [](session_piece& it) { it.first = 0xffffffff; });
  with("too many turns", 8, [](session_piece& it) {
    it.tokens.resize(limits::session_turns * 2);
    for (position i = 1; i <= limits::session_turns; ++i)
      it.turns.push_back(turn(2 + i, 8 + i, 9 + i));
  });
  for (const session_log& held : {closed(log_of(4, 4)), with_turn(two, turn(2, 8, 9), 3, 4)})
    for (const auto& [what, piece] : bad) {
      INFO(what);
      session_log log = held;
      CHECK_FALSE(log.adopt(piece).ok());
      CHECK(same_history(log, held));
      CHECK(log.point() == held.point());
      CHECK((log.open_turn() != nullptr) == (held.open_turn() != nullptr));
    }
}

TEST_CASE("session_log: adopting any piece of any history gives that history, or a tail of its last turn") {
  dice random{2};
  int forked = 0;
  for (int i = 0; i < 20'000; ++i) {
    session_log mine = random_log(random, 8);
    const session_log theirs = random_log(random, 8);
    // The longest common history, found the slow way.
    position common = 0;
    for (position at = 0; at <= std::min(mine.length(), theirs.length()); ++at)
      if (mine.chain_at(at) == theirs.chain_at(at)) common = at;
    const session_log before = mine;
    const position first = random.below(theirs.length() + 1);
    const auto kept = mine.adopt(theirs.piece_from(first));
    if (first > common) {
      REQUIRE(kept.code() == errc::gap);
      REQUIRE(same_history(mine, before));
      continue;
    }
    REQUIRE(kept);
    REQUIRE(mine.contains(theirs.point()));
    REQUIRE(before.chain_at(*kept) == mine.chain_at(*kept));
    REQUIRE(mine.last_turn()->number == theirs.last_turn()->number);
    if (*kept == before.length()) REQUIRE(mine.contains(before.point()));
    forked += *kept < before.length();
  }
  CHECK(forked > 1000);
}

// --- records -----------------------------------------------------------------------------------------------

TEST_CASE("session_log: records_from brings a log cut anywhere to the same end") {
  dice random{3};
  for (int i = 0; i < 2'000; ++i) {
    const session_log whole = random_log(random);
    for (position at = 0; at <= whole.length(); ++at) {
      session_log other = whole;
      other.truncate(at);
      apply_all(other, whole.records_from(at));
      REQUIRE(other.point() == whole.point());
      REQUIRE(same_history(other, whole));
      REQUIRE((other.open_turn() != nullptr) == (whole.open_turn() != nullptr));
    }
  }
}

TEST_CASE("session_log: long histories travel in records of bounded size") {
  const session_log whole = log_of(limits::record_tokens * 2, 3);
  const auto records = whole.records_from(0);
  CHECK(records.size() == 4);  // a turn, three times tokens
  session_log other{session_id{7}, fingerprint};
  apply_all(other, records);
  CHECK(other.point() == whole.point());
}

TEST_CASE("session_log: records applied again change nothing") {
  dice random{4};
  for (int i = 0; i < 2'000; ++i) {
    const session_log whole = random_log(random, 12);
    session_log other{session_id{7}, fingerprint};
    for (const session_record& record : whole.records_from(0)) {
      REQUIRE(other.apply(record));
      const session_log once = other;
      for (int again = 0; again < 3; ++again)
        REQUIRE(other.apply(record));
      REQUIRE(same_history(other, once));
    }
    // Even from the begin, late. (Only cuts say something new when they come late: replica_set keeps those
    // out.)
    for (const session_record& record : whole.records_from(0))
      REQUIRE(other.apply(record));
    REQUIRE(same_history(other, whole));
  }
}

TEST_CASE("session_log: records that do not follow are refused and change nothing") {
  const session_log held = two_turns();
  const session_log fork = two_turns(9);
  struct refusal {
    const char* what;
    session_record record;
    errc code;
  };
  const std::vector<refusal> table{
      {"tokens past the end", tokens_record{15, 1, {1}}, errc::gap},
      {"tokens at the largest position", tokens_record{0xffffffff, 1, {1, 2}}, errc::gap},
      {"tokens on another chain", tokens_record{14, fork.chain(), {1}}, errc::fork},
      {"tokens on chain zero", tokens_record{14, 0, {1}}, errc::fork},
      {"one bit of the chain flipped", tokens_record{14, held.chain() ^ 1, {1}}, errc::fork},
      {"other tokens over the same", tokens_record{12, held.chain_at(12), {1, 2, 3}}, errc::fork},
      {"tokens across the begin of a turn", tokens_record{6, held.chain_at(6), tokens(6, 4)}, errc::fork},
      {"a turn past the end", open_record{turn(3, 15, 16)}, errc::gap},
      {"another turn in the past", open_record{turn(3, 8, 10)}, errc::fork},
      {"a turn whose number is taken", open_record{turn(2, 14, 16)}, errc::fork},
      {"a turn without a prompt", open_record{turn(3, 14, 14)}, errc::fork},
      {"a cut past the end", truncate_record{15, 1}, errc::gap},
      {"a cut at the largest position", truncate_record{0xffffffff, 1}, errc::gap},
      {"a cut of another history", truncate_record{12, fork.chain_at(12)}, errc::fork},
  };
  for (const refusal& it : table) {
    INFO(it.what);
    session_log log = held;
    const auto applied = log.apply(it.record);
    REQUIRE_FALSE(applied);
    CHECK(applied.failure().code == it.code);
    CHECK(same_history(log, held));
    CHECK(log.point() == held.point());
  }
}

TEST_CASE("session_log: a turn that never had a token gives way to another at its place") {
  session_log log = closed(log_of(4, 4));
  REQUIRE(log.apply(open_record{turn(2, 8, 10)}));
  REQUIRE(log.apply(open_record{turn(2, 8, 10)}));
  CHECK(log.apply(open_record{turn(1, 8, 12)}).failure().code == errc::fork);
  CHECK(log.last_turn()->number == 2);
  REQUIRE(log.apply(open_record{turn(3, 8, 12)}));
  CHECK(log.turns().size() == 2);
  CHECK(log.last_turn()->number == 3);
  REQUIRE(log.apply(tokens_record{8, log.chain(), {1}}));
  CHECK(log.apply(open_record{turn(4, 8, 12)}).failure().code == errc::fork);
}

TEST_CASE("session_log: close and drop records") {
  session_log log = two_turns();
  REQUIRE(log.apply(close_record{1}));  // an old one
  CHECK(log.open_turn() != nullptr);
  REQUIRE(log.apply(close_record{2}));
  CHECK(log.open_turn() == nullptr);
  REQUIRE(log.apply(tokens_record{14, log.chain(), {3}}));
  CHECK(log.open_turn() != nullptr);
  REQUIRE(log.apply(drop_record{}));
  CHECK(log.length() == 0);
  CHECK(log.last_turn() == nullptr);
  REQUIRE(log.apply(close_record{2}));
}

// --- probes ------------------------------------------------------------------------------------------------

TEST_CASE(
    "session_log: probes contradict a fork, and find it in a few rounds without cutting what is common") {
  dice random{5};
  for (int i = 0; i < 500; ++i) {
    const session_log whole = log_of(4, 1 + random.below(3000));
    // A log that parts at `fork` and goes on differently for a while.
    const position fork = random.below(whole.length() + 1);
    session_log other = cut(whole, fork);
    if (other.last_turn() == nullptr) REQUIRE(other.begin_turn(turn(1, 0, 4, 99)));
    REQUIRE(other.append(tokens(fork, random.below(50), 77)));
    int rounds = 0;
    for (position upto = whole.length(); !whole.contains(other.point());
         upto = std::min(upto, other.length())) {
      const auto probes = whole.probes(upto);
      REQUIRE(probes.size() <= limits::resync_probes);
      REQUIRE(probes.front() == whole.point());
      REQUIRE(probes.back().length == 0);
      for (std::size_t k = 0; k < probes.size(); ++k) {
        REQUIRE(whole.contains(probes[k]));
        if (k > 0) REQUIRE(probes[k].length < probes[k - 1].length);
      }
      const position before = other.length();
      other.truncate(other.undisputed(probes));
      REQUIRE(other.length() >= fork);
      upto = std::min(upto, other.length());
      REQUIRE((other.length() < before || rounds == 0));
      REQUIRE(++rounds <= 8);
    }
    REQUIRE(other.length() == fork);
  }
}

TEST_CASE(
    "session_log: a log that is a past of the peer's is not disputed, one that goes further is cut to its "
    "end") {
  const session_log whole = log_of(4, 300);
  for (position at = 0; at <= whole.length(); at += 7) {
    CHECK(cut(whole, at).undisputed(whole.probes()) == at);
    CHECK(whole.undisputed(cut(whole, at).probes()) == at);
  }
  CHECK(whole.undisputed({}) == whole.length());
  CHECK(whole.undisputed(log_of(4, 300, 1, session_id{8}).probes()) == 0);
  const session_log empty{session_id{7}, fingerprint};
  CHECK(empty.probes().size() == 1);
  CHECK(empty.undisputed(whole.probes()) == 0);
}

}  // namespace baton::test
