#include <catch2/catch.hpp>

#include "tests/unit/protocol/primary_bench.hpp"

namespace baton::test {

TEST_CASE("primary_table: deposed") {
  bench it;
  it.own();
  it.open();
  it.step();
  SECTION("by the view") {
    it.record.owner = standby_b;
    it.record.epoch = baton::epoch{6};
    CHECK(it.see() == "stop; cut 10; end; return 1");
  }
  SECTION("by a sink, and a late view does not give it back") {
    CHECK(it.table.on_fenced(group, baton::epoch{5}).empty());
    CHECK(text(it.table.on_fenced(group, baton::epoch{6})) == "stop; cut 10; end; return 1");
    ++it.record.revision;
    CHECK(it.see().empty());
  }
  SECTION("by the answer to a change of the in-sync set") {
    group_record other = it.record;
    other.epoch = baton::epoch{6};
    other.owner = standby_b;
    CHECK(text(it.table.on_in_sync_reply(group, in_sync_reply{false, other}, it.now)) ==
          "stop; cut 10; end; return 1");
  }
  SECTION("and owner again, in one view") {
    it.record.epoch = baton::epoch{7};
    CHECK(it.see() == "stop; cut 10; end; return 1; take e7");
    return;
  }
  CHECK_FALSE(it.table.owns(group));
  CHECK(it.table.sessions() == 0);
  CHECK(it.step().empty());
  CHECK(it.progress(standby_b, 10).empty());
  CHECK(it.open() == "refuse not_owner");
  CHECK(it.table.on_end_turn({group, baton::epoch{5}, session, 1, 11}).empty());
  CHECK(it.table.counted().demotions == 1);
}

TEST_CASE("primary_table: views") {
  bench it;
  it.own();
  cluster_view old = it.view();
  it.see();
  old.groups[0].owner = standby_b;
  old.groups[0].epoch = baton::epoch{9};
  CHECK(it.table.on_view(old, it.now).empty());  // version
  old.version = 1000;
  old.term = 0;
  CHECK(it.table.on_view(old, it.now).empty());
  CHECK(it.table.owns(group));
  old.term = 2;
  old.version = 1;
  CHECK(text(it.table.on_view(old, it.now)) == "return 0");
}

// --- turns -------------------------------------------------------------------------------------------------

TEST_CASE("primary_table: end of a turn") {
  bench it;
  it.own();
  it.open();
  it.step();
  it.step();
  it.step();
  const auto end = [&](turn_number turn, position keep) {
    return text(it.table.on_end_turn({group, it.record.epoch, session, turn, keep}));
  };
  CHECK(end(2, 11).empty());
  CHECK(text(it.table.on_end_turn({group, baton::epoch{4}, session, 1, 11})).empty());
  CHECK(end(1, 11) == "stop; cut 11; say cut11 close");
  CHECK(end(1, 11) == "cut 11; say close");  // again
  CHECK(it.step().empty());                  // of the run that was stopped
  CHECK(end(1, 99) == "cut 11; say close");
}

TEST_CASE("primary_table: an edited history keeps no row of the old branch") {
  bench it;
  it.own();
  it.open();
  for (int i = 0; i < 20; ++i)
    it.step();
  it.table.on_end_turn({group, it.record.epoch, session, 1, 30});
  session_log edited = it.log;
  for (token_id token = 10; token < 30; ++token)
    REQUIRE(edited.append(std::vector<token_id>{token}));
  SECTION("in what was generated") {
    edited.truncate(20);
    REQUIRE(edited.begin_turn(turn(2, 20, 60)));
    REQUIRE(edited.append(tokens(20, 40, 9)));
    CHECK(it.open(edited.piece_from(20), 2) ==
          "accept cached 19; say cut20 turn2@20 20+40; cut 19; run 60 from 19");
  }
  SECTION("in a prompt: the batch that is cut short is made again") {
    edited.truncate(7);
    REQUIRE(edited.begin_turn(turn(2, 7, 60)));
    REQUIRE(edited.append(tokens(7, 53, 9)));
    CHECK(it.open(edited.piece_from(0), 2) == "accept cached 4; say cut7 turn2@7 7+53; cut 4; run 60 from 4");
  }
}

TEST_CASE("primary_table: the same turn opened twice goes on from what the gateway has") {
  bench it;
  it.own();
  it.open();
  it.step();
  it.step();
  CHECK(it.open() == "accept cached 10; stop; cut 11; run 12 from 11; emit 10+2");
  CHECK(it.step() == "say 12+1; emit 12+1");
}

TEST_CASE("primary_table: requests that are refused change nothing") {
  bench it;
  it.own();
  it.open();
  it.step();
  const auto refused = [&](const session_piece& piece, turn_number turn, const char* how) {
    CHECK(it.open(piece, turn) == how);
    CHECK(it.table.sessions() == 1);
    CHECK(it.step().find("say") == 0);  // the session goes on
  };
  session_piece piece = it.log.piece_from(0);
  refused(piece, 2, "refuse invalid_argument");
  session_log longer = it.log;
  REQUIRE(longer.append(std::vector<token_id>(90, 1)));
  refused(longer.piece_from(0), 1, "refuse context_full");
  refused(log_of(10, 0, 1, session_id{8}).piece_from(3), 1, "refuse gap");
  refused(log_of(10, 0, 2).piece_from(10), 1, "refuse gap");
  piece.tokens.resize(5);
  refused(piece, 1, "refuse invalid_argument");  // a prompt that is not all there
  piece = it.log.piece_from(0);
  piece.turns.push_back(turn(1, 10, 11));
  piece.tokens.push_back(1);
  refused(piece, 1, "refuse invalid_argument");
  piece = log_of(10, 0, 1, session_id{8}).piece_from(0);
  piece.turns.push_back(turn(1, 5, 9));  // a new session, of turns that are no history
  refused(piece, 1, "refuse invalid_argument");
  CHECK(it.table.counted().refused == 7);
  open_turn stale = it.opening(it.log.piece_from(0), 1);
  stale.epoch = baton::epoch{4};
  CHECK(text(it.table.on_open_turn(1, stale, true, it.now)) == "refuse not_owner");
  stale = it.opening(it.log.piece_from(0), 1);
  stale.group = group_id{2};
  CHECK(text(it.table.on_open_turn(1, stale, true, it.now)) == "refuse not_owner");
}

TEST_CASE("primary_table: a gateway that is lost pauses its turns, which go on when it opens them again") {
  bench it;
  it.own_with_b();
  it.open();
  it.progress(standby_b, 10);
  it.step();
  it.progress(standby_b, 11);
  it.step();
  CHECK(it.table.on_gateway_lost({"edge", incarnation{2}}).empty());
  const session_log log = *it.table.log_of(session);
  CHECK(text(it.table.on_gateway_lost(edge)) == "stop");
  CHECK(it.table.log_of(session)->length() == log.length());
  CHECK(it.table.log_of(session)->open_turn() != nullptr);
  CHECK(it.open(log.piece_from(0), 1).find("accept") == 0);
  CHECK(it.step().find("say") == 0);
}

TEST_CASE(
    "primary_table: a turn that had all its tokens when it was taken over ends, and generates none more") {
  bench it;
  it.own();
  turn_header header = turn(1, 0, 10);
  header.parameters.max_tokens = 3;
  session_log whole{session, fingerprint};
  REQUIRE(whole.begin_turn(header).ok());
  REQUIRE(whole.append(tokens(0, 13, 1)).ok());
  const auto effects = it.open(whole.piece_from(0), 1);
  CHECK(effects.find("run") == std::string::npos);
  CHECK(effects.find("last") != std::string::npos);
}

TEST_CASE("primary_table: places are made by the least recently used that is idle") {
  bench it;
  it.own();
  const auto open = [&](std::uint64_t id) {
    it.now += milliseconds{1};
    const session_log log = log_of(4, 0, 1, session_id{id});
    return it.open(log.piece_from(0), 1);
  };
  const auto end = [&](std::uint64_t id) {
    it.table.on_end_turn({group, it.record.epoch, session_id{id}, 1, 4});
  };
  open(1);
  open(2);
  CHECK(open(3) == "refuse no_room");
  end(2);
  end(1);
  CHECK(open(3).find("accept cached 0; drop engine; end drop; begin 0") == 0);  // 1 went
  end(3);
  CHECK(open(2).find("accept cached 0; cut") == 0);
}

TEST_CASE("primary_table: a session begun here has a place in the engine, and passes it on") {
  bench it;
  it.own();
  auto& places = *it.how.places;
  const auto begin = [&](std::uint64_t id) {
    return it.open(log_of(4, 0, 1, session_id{id}).piece_from(0), 1);
  };
  begin(1);
  CHECK(places.unused() == 5);
  it.table.on_end_turn({group, it.record.epoch, session_id{1}, 1, 4});
  while (places.take()) {
  }
  CHECK(begin(2).find("drop engine;") != std::string::npos);  // the place of 1
  it.table.on_end_turn({group, it.record.epoch, session_id{2}, 1, 4});
  begin(3);
  CHECK(places.unused() == 0);
  CHECK(begin(4) == "refuse no_room");
}

TEST_CASE("primary_table: what a take-over brings beyond the share yields to replicas without room") {
  promotion it;
  auto& places = *it.how.places;
  it.see();
  std::vector<held_replica> replicas;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    REQUIRE(places.take());
    replicas.push_back({group, log_of(4, 0, 1, session_id{id}), 0});
  }
  it.table.on_replicas(group, it.record.epoch, std::move(replicas), it.now);
  it.sealed({});
  CHECK(it.table.sessions() == 4);
  const auto evicted = [](const primary_effects& effects) {
    const auto* drop = only<drop_engine>(effects);
    return drop != nullptr && drop->place_unused;
  };
  REQUIRE(places.unused() == 2);
  CHECK_FALSE(evicted(it.table.on_tick(true, it.now)));  // room for as many as a node begins
  CHECK(evicted(it.table.on_unprotected("b", session_id{4}, it.now)));
  while (places.take()) {
  }
  CHECK(evicted(it.table.on_tick(true, it.now)));
  CHECK(it.table.sessions() == 2);
  CHECK_FALSE(evicted(it.table.on_tick(true, it.now)));  // the share is kept
  CHECK_FALSE(evicted(it.table.on_unprotected("b", session_id{4}, it.now)));
}

TEST_CASE("primary_table: an engine that fails ends the turn and says so") {
  bench it;
  it.own();
  it.open();
  it.step();
  CHECK(it.table.on_engine_failure(session, it.run + 1, {errc::engine_failed, ""}).empty());
  CHECK(text(it.table.on_engine_failure(session, it.run, {errc::engine_failed, "x"})) ==
        "fail engine_failed; stop; cut 10; say close");
  CHECK(it.table.on_engine_failure(session, it.run, {errc::engine_failed, "x"}).empty());
}

TEST_CASE("primary_table: an owner that makes no token says every 64 rows that it gets on") {
  bench it;
  it.own();
  it.open();
  const auto evaluated = [&](position rows) {
    engine_step step;
    step.session = session;
    step.run = it.run;
    step.rows = rows;
    return text(it.table.on_step(step, true, it.now));
  };
  CHECK(evaluated(40).empty());
  CHECK(evaluated(64) == "sign 64");
  CHECK(evaluated(100).empty());
  CHECK(evaluated(200) == "sign 200");
  it.table.on_gateway_lost(edge);  // nobody to tell
  CHECK(evaluated(300).empty());
}

TEST_CASE("primary_table: steps of older runs and unknown sessions are ignored") {
  bench it;
  it.own();
  it.open();
  const run_number old = it.run;
  it.step();
  it.open();
  engine_step late;
  late.session = session;
  late.run = old;
  late.has_token = true;
  late.at = 11;
  CHECK(it.table.on_step(late, true, it.now).empty());
  late.session = session_id{99};
  CHECK(it.table.on_step(late, true, it.now).empty());
}

TEST_CASE("primary_table: the engine may run ahead of what is committed, not without bound") {
  bench it;
  it.how.context_tokens = 2000;
  it.table = primary_table{it.how};
  it.own_with_b();
  it.open();
  it.progress(standby_b, 10);
  for (int i = 0; i < 100; ++i)
    CHECK(it.step().find("allow") == std::string::npos);
  CHECK(it.progress(standby_b, 60) == "emit 10+50");
  CHECK(it.progress(standby_b, 110) == "emit 60+50; allow");
}

TEST_CASE("primary_table: exports of a history that has been cut are not current") {
  bench it;
  it.own();
  const auto effects = it.table.on_open_turn(1, it.opening(it.log.piece_from(0), 1), true, it.now);
  const auto* cut = only<cut_engine>(effects);
  REQUIRE(cut != nullptr);
  CHECK(it.table.exports_current(session, cut->generation));
  it.table.on_end_turn({group, it.record.epoch, session, 1, 10});
  CHECK_FALSE(it.table.exports_current(session, cut->generation));
  CHECK_FALSE(it.table.exports_current(session_id{99}, 0));
}

TEST_CASE("primary_table: what is reported") {
  bench it;
  it.own_with_b();
  it.open();
  it.step();
  it.progress(standby_b, 11, 4);
  const auto statuses = it.table.statuses();
  REQUIRE(statuses.size() == 1);
  CHECK(statuses[0].owner);
  CHECK(statuses[0].epoch == it.record.epoch);
  CHECK(statuses[0].sessions == 1);
  CHECK(statuses[0].synced_tokens == 10);
  CHECK(statuses[0].lag_tokens == 6);
}

}  // namespace baton::test
