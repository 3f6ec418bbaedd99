#include <catch2/catch.hpp>

#include "tests/unit/protocol/primary_bench.hpp"

namespace baton::test {

using names = std::vector<std::string>;

TEST_CASE("primary_table: a turn alone") {
  bench it;
  it.own();
  CHECK(it.open() == "accept cached 0; begin 0 rows 0; say turn1@0 0+10; cut 0; run 10 from 0");
  CHECK(it.step() == "say 10+1; emit 10+1");
  CHECK(it.step(true) == "say 11+1; emit 11+1 last; say close");
  // The next turn goes on from the token before it, whose row is made anew.
  REQUIRE(it.log.append(std::vector<token_id>{10, 11}));
  it.log.close_turn();
  REQUIRE(it.log.begin_turn(turn(2, 12, 15)));
  REQUIRE(it.log.append(tokens(12, 3)));
  CHECK(it.open(it.log.piece_from(12), 2) == "accept cached 11; say turn2@12 12+3; cut 11; run 15 from 11");
}

TEST_CASE("primary_table: order of open, step, acknowledgement and release in each commit mode") {
  SECTION("async") {
    bench it{commit_rule::mode::async};
    it.own_with_b();
    it.open();
    CHECK(it.step() == "say 10+1; emit 10+1");
  }
  SECTION("semi-sync") {
    bench it;
    it.own_with_b();
    it.open();
    CHECK(it.step() == "say 10+1");
    CHECK(it.progress(standby_b, 10).empty());
    CHECK(it.progress(standby_b, 11) == "emit 10+1");
    CHECK(it.step() == "say 11+1");
    CHECK(it.step(true) == "say 12+1");
    CHECK(it.progress(standby_b, 12) == "emit 11+1");
    CHECK(it.progress(standby_b, 13) == "emit 12+1 last; say close");
    CHECK(it.progress(standby_b, 13).empty());
  }
  SECTION("strict") {
    bench it{commit_rule::mode::strict};
    it.own_with_b();
    it.open();
    it.step();
    CHECK(it.progress(standby_b, 11, 9).empty());
    CHECK(it.progress(standby_b, 11, 10) == "emit 10+1");
  }
  SECTION("quorum of one out of two") {
    bench it{commit_rule::mode::quorum};
    it.own_with_b();
    REQUIRE(it.link_up(standby_c) == "add c r6");
    REQUIRE(it.swapped({standby_b, standby_c}).empty());
    it.open();
    it.step();
    CHECK(it.progress(standby_c, 11) == "emit 10+1");
    CHECK(it.progress(standby_b, 11).empty());
  }
}

TEST_CASE("primary_table: every standby that is in sync, joins or leaves is waited for") {
  bench it;
  it.own_with_b();
  it.open();
  REQUIRE(it.progress(standby_b, 10).empty());
  // I2: waited for before it is in the record.
  REQUIRE(it.link_up(standby_c).empty());
  CHECK(it.progress(standby_c, 9).empty());
  CHECK(it.progress(standby_c, 10) == "add c r6");
  it.step();
  CHECK(it.progress(standby_b, 11).empty());
  CHECK(it.progress(standby_c, 11) == "emit 10+1");
  REQUIRE(it.swapped({standby_b, standby_c}).empty());
  it.step();
  CHECK(it.progress(standby_c, 12).empty());
  // I1: waited for until it is out of the record.
  CHECK(text(it.table.on_link_down("b", it.now)) == "remove b r7");
  CHECK(it.step() == "say 12+1");
  CHECK(it.progress(standby_c, 13).empty());
  it.now += milliseconds{600};
  CHECK(text(it.table.on_tick(true, it.now)) == "remove b r7");  // asked again
  CHECK(it.swapped({standby_c}) == "emit 11+2");
}

TEST_CASE("primary_table: what checkers read") {
  bench it;
  CHECK(it.table.waits_for(group).empty());
  it.own_with_b();
  CHECK(it.table.log_of(session) == nullptr);
  it.open();
  it.step();
  REQUIRE(it.table.log_of(session) != nullptr);
  CHECK(it.table.log_of(session)->length() == 11);
  CHECK((it.table.waits_for(group) == names{"b"}));
  REQUIRE(it.link_up(standby_c).empty());
  CHECK((it.table.waits_for(group) == names{"b"}));
  REQUIRE(it.progress(standby_c, 10) == "add c r6");
  CHECK((it.table.waits_for(group) == names{"b", "c"}));  // joining
  it.swapped({standby_b, standby_c});
  CHECK((it.table.waits_for(group) == names{"b", "c"}));
  it.table.on_link_down("b", it.now);
  CHECK((it.table.waits_for(group) == names{"b", "c"}));  // leaving
  it.swapped({standby_c});
  CHECK((it.table.waits_for(group) == names{"c"}));
}

TEST_CASE("primary_table: a change of the in-sync set that is lost, refused or overtaken") {
  bench it;
  it.own();
  REQUIRE(it.link_up(standby_b) == "add b r5");
  SECTION("no answer: asked again") {
    CHECK(text(it.table.on_tick(true, it.now)).empty());
    it.now += milliseconds{500};
    CHECK(text(it.table.on_tick(true, it.now)) == "add b r5");
    CHECK(it.table.on_in_sync_reply(group, {errc::timed_out, ""}, it.now).empty());
  }
  SECTION("refused: the record as it is, asked again under its revision") {
    it.record.revision = 8;
    CHECK(it.table.on_in_sync_reply(group, in_sync_reply{false, it.record}, it.now).empty());
    it.now += milliseconds{500};
    CHECK(text(it.table.on_tick(true, it.now)) == "add b r8");
  }
  SECTION("an addition that crosses a loss is waited for until the record is past it") {
    CHECK(text(it.table.on_link_down("b", it.now)) == "remove b r5");
    CHECK((it.table.waits_for(group) == names{"b"}));
    SECTION("it was written") {
      CHECK(it.swapped({standby_b}).empty());  // to remove it was asked for already
      CHECK((it.table.waits_for(group) == names{"b"}));
      it.now += milliseconds{500};
      CHECK(text(it.table.on_tick(true, it.now)) == "remove b r6");
      it.open();
      CHECK(it.step() == "say 10+1");
    }
    SECTION("it never will be") {
      CHECK(it.swapped({}).empty());
      CHECK(it.table.waits_for(group).empty());
    }
    SECTION("an answer from before says nothing") {
      CHECK(it.table.on_in_sync_reply(group, in_sync_reply{false, it.record}, it.now).empty());
      CHECK((it.table.waits_for(group) == names{"b"}));
    }
  }
  SECTION("a member that is an earlier incarnation is taken out") {
    it.swapped({standby_b});
    const process_id restarted{"b", incarnation{2}};
    CHECK(text(it.table.on_link_up("b", restarted, it.now)) == "remove b r6");
    CHECK(it.swapped({}).empty());
    CHECK(text(it.table.on_tick(true, it.now)) == "add b r7");
  }
  SECTION("an old answer changes nothing") {
    it.swapped({standby_b});
    group_record old = it.record;
    old.revision = 5;
    old.in_sync.clear();
    CHECK(it.table.on_in_sync_reply(group, in_sync_reply{false, old}, it.now).empty());
    it.open();
    CHECK(it.step() == "say 10+1");  // still waits for b
  }
  SECTION("by the view") {
    it.record.in_sync = {standby_b};
    ++it.record.revision;
    CHECK(it.see().empty());
    it.open();
    CHECK(it.step() == "say 10+1");
  }
}

TEST_CASE("primary_table: a standby that cannot hold a session leaves, and joins when it can") {
  bench it;
  it.own_with_b();
  it.open();
  REQUIRE(it.progress(standby_b, 10).empty());
  it.step();
  CHECK(text(it.table.on_unprotected("b", session, it.now)) == "remove b r6");
  CHECK(it.swapped({}) == "emit 10+1");
  CHECK(text(it.table.on_tick(true, it.now)).empty());
  CHECK(it.progress(standby_b, 11) == "add b r7");
}

TEST_CASE("primary_table: progress counts only for the history that is here now") {
  bench it;
  it.own_with_b();
  it.open();
  REQUIRE(it.progress(standby_b, 10).empty());
  it.step();
  it.step();
  it.step();
  SECTION("of another history") {
    standby_progress other{session, it.record.epoch, 13, 0, 12345, 0};
    CHECK(it.table.on_progress("b", other, true, it.now).empty());
  }
  SECTION("of another epoch, or of nothing") {
    standby_progress other{session, baton::epoch{4}, 13, 0, it.log.chain(), 0};
    CHECK(it.table.on_progress("b", other, true, it.now).empty());
    other.session = session_id{99};
    CHECK(it.table.on_progress("b", other, true, it.now).empty());
  }
}

TEST_CASE(
    "primary_table: progress from before a cut does not count, although the same has followed it since") {
  bench it;
  it.own_with_b();
  turn_header header = *it.log.last_turn();
  header.parameters.sampling.logprobs = true;  // so that an unreleased tail is sampled again
  it.log = session_log{session, fingerprint};
  REQUIRE(it.log.begin_turn(header));
  REQUIRE(it.log.append(tokens(0, 10)));
  it.open();
  it.step();
  it.step();
  CHECK(it.open() == "accept cached 8; say cut10; stop; cut 8; run 10 from 8");
  it.at = 10;
  it.step();
  it.step();
  CHECK(it.progress(standby_b, 12).empty());
  CHECK(it.progress(standby_b, 12, 0, true, 1) == "emit 10+2");
}

TEST_CASE("primary_table: a lapsed lease") {
  SECTION("alone, nothing leaves") {
    bench it;
    it.own();
    it.open();
    CHECK(it.step(false, false) == "say 10+1");
    CHECK(text(it.table.on_tick(false, it.now)).empty());
    CHECK(text(it.table.on_tick(true, it.now)) == "emit 10+1");
    CHECK(it.open(log_of(10, 0, 2, session_id{8}).piece_from(0), 1, false) == "refuse unavailable");
  }
  SECTION("with acknowledgements it goes on (L5)") {
    bench it;
    it.own_with_b();
    it.open();
    CHECK(it.step(false, false) == "say 10+1");
    CHECK(it.progress(standby_b, 11, 0, false) == "emit 10+1");
  }
  SECTION("with a set, nothing that it has not acknowledged, in async as well") {
    bench it{commit_rule::mode::async};
    it.own_with_b();
    it.open();
    CHECK(it.step() == "say 10+1; emit 10+1");
    CHECK(it.step(false, false) == "say 11+1");
    CHECK(it.progress(standby_b, 12, 0, false) == "emit 11+1");
    CHECK(it.step(false, false) == "say 12+1");
    CHECK(text(it.table.on_tick(true, it.now)) == "emit 12+1");
  }
}

// --- promotion ---------------------------------------------------------------------------------------------

TEST_CASE("primary_table: promotion") {
  promotion it;
  CHECK(it.promote() == "take e5 | cut 12; seal edge held 1; begin 15 rows 12");
  CHECK(it.table.counted().promotions == 1);
  // Until its gateway is sealed, nothing is opened by it.
  CHECK(it.open(it.gateway(12).piece_from(0), 1) == "refuse not_owner");
  SECTION("the gateway is behind: the tail stays, and is released") {
    const session_log known = it.gateway(12);
    CHECK(it.sealed({it.opening(known.piece_from(12), 1)}) == "cut 12; run 15 from 12; emit 12+3");
    CHECK(it.table.counted().recomputed == 2);
    CHECK(it.step() == "say 15+1; emit 15+1");
  }
  SECTION("the gateway asks again: what was computed again still counts") {
    const open_turn request = it.opening(it.gateway(12).piece_from(12), 1);
    it.sealed({request});
    CHECK(it.step() == "say 15+1; emit 15+1");
    std::uint64_t shown = 0;
    for (const primary_effect& effect : it.table.on_open_turn(2, request, true, it.now))
      if (const auto* emit = std::get_if<emit_tokens>(&effect)) shown = emit->tokens.recomputed_tokens;
    CHECK(shown == 2);
    CHECK(it.table.counted().recomputed == 2);
  }
  SECTION("the gateway has the same") {
    CHECK(it.sealed({it.opening(it.held.piece_from(15), 1)}) == "cut 12; run 15 from 12");
  }
  SECTION("the gateway is ahead (async)") {
    session_log ahead = it.held;
    REQUIRE(ahead.append(std::vector<token_id>{15, 16}));
    CHECK(it.sealed({it.opening(ahead.piece_from(15), 1)}) == "say 15+2; cut 12; run 17 from 12");
    it.at = 17;
    CHECK(it.step() == "say 17+1; emit 17+1");
  }
  SECTION("the gateway knows another tail: ours is cut, with its rows") {
    session_log other = it.gateway(11);
    REQUIRE(other.append(std::vector<token_id>{99, 98, 97}));
    CHECK(it.sealed({it.opening(other.piece_from(0), 1)}) == "say cut11 11+3; cut 11; run 14 from 11");
  }
  SECTION("the gateway is in the middle of a batch: it is made again") {
    CHECK(it.sealed({it.opening(it.gateway(10).piece_from(10), 1)}) == "cut 12; run 15 from 12; emit 10+5");
  }
  SECTION("a session that is not held here") {
    const session_log unknown = log_of(6, 3, 5, session_id{9});
    CHECK(it.sealed({it.opening(unknown.piece_from(0), 1)}) ==
          "begin 0 rows 0; say turn1@0 0+9; cut 0; run 9 from 0");
    CHECK(it.sealed({}).empty());  // twice
  }
  SECTION("a piece that does not reach") {
    const session_log unknown = log_of(6, 3, 5, session_id{9});
    CHECK(it.sealed({it.opening(unknown.piece_from(4), 1)}) == "fail gap");
  }
  SECTION("the gateway does not answer") {
    CHECK(it.table.on_seal_reply(edge, group, it.record.epoch, {errc::timed_out, ""}, it.now).empty());
    CHECK(it.open(it.gateway(12).piece_from(12), 1) == "accept cached 10; cut 12; run 15 from 12; emit 12+3");
  }
  SECTION("the gateway is gone") {
    CHECK(it.table.on_gateway_lost(edge).empty());
    CHECK(it.open(it.gateway(12).piece_from(12), 1) == "accept cached 10; cut 12; run 15 from 12; emit 12+3");
  }
  SECTION("the gateway knows a higher epoch") {
    seal_reply reply;
    reply.highest = baton::epoch{6};
    CHECK(text(it.table.on_seal_reply(edge, group, it.record.epoch, reply, it.now)) ==
          "cut 12; end; return 1");
    CHECK_FALSE(it.table.owns(group));
    CHECK(it.see().empty());  // the same record again gives it back to nobody
  }
  SECTION("an answer of another epoch") {
    CHECK(it.table.on_seal_reply(edge, group, baton::epoch{4}, seal_reply{}, it.now).empty());
    CHECK(it.table.owns(group));
  }
}

TEST_CASE("primary_table: a tail is committed anew before it is released, if there are standbys") {
  promotion it;
  it.promote();
  CHECK(it.link_up(standby_b).empty());
  CHECK(it.progress(standby_b, 10).empty());
  CHECK(it.progress(standby_b, 15).empty());  // what the client has is not known yet
  CHECK(it.sealed({it.opening(it.gateway(12).piece_from(12), 1)}) ==
        "cut 12; run 15 from 12; add b r5; emit 12+3");
  it.step();
  CHECK(it.progress(standby_b, 16) == "emit 15+1");
}

TEST_CASE(
    "primary_table: a finished turn that comes by promotion ends in strict mode, whose rows nobody makes") {
  promotion it{commit_rule::mode::strict};
  it.held.close_turn();
  it.promote();
  REQUIRE(it.link_up(standby_b).empty());
  REQUIRE(it.progress(standby_b, 15, 12).empty());
  it.table.on_tick(true, it.now);
  CHECK(it.sealed({it.opening(it.gateway(12).piece_from(12), 1)}) ==
        "cut 12; add b r5; emit 12+3 last; say close");
}

TEST_CASE("primary_table: a finished turn that comes by promotion ends, and is not generated further") {
  promotion it;
  it.held.close_turn();
  it.promote();
  it.table.on_tick(true, it.now);  // the lease holds
  CHECK(it.sealed({it.opening(it.gateway(12).piece_from(12), 1)}) == "cut 12; emit 12+3 last; say close");
}

TEST_CASE("primary_table: a tail without its logprobs is sampled again where they are wanted") {
  promotion it;
  turn_header header = *it.held.last_turn();
  header.parameters.sampling.logprobs = true;
  it.held = session_log{session, fingerprint};
  REQUIRE(it.held.begin_turn(header));
  REQUIRE(it.held.append(tokens(0, 15)));
  it.promote();
  CHECK(it.sealed({it.opening(it.gateway(13).piece_from(13), 1)}) == "say cut13; cut 12; run 13 from 12");
  it.at = 13;
  CHECK(it.step() == "say 13+1; emit 13+1");
}

TEST_CASE("primary_table: replicas that come too late go back") {
  bench it;
  REQUIRE(it.see() == "take e5");
  SECTION("another owner meanwhile") {
    it.record.owner = standby_b;
    it.record.epoch = baton::epoch{6};
    CHECK(it.see() == "return 0");
    CHECK(text(it.table.on_replicas(group, baton::epoch{5}, std::vector<held_replica>{{group, it.log, 3}},
                                    it.now)) == "return 1");
  }
  SECTION("none, since a higher epoch is known on the data plane") {
    CHECK(it.table.on_replicas(group, baton::epoch{5}, std::nullopt, it.now).empty());
    CHECK_FALSE(it.table.owns(group));
  }
  SECTION("nothing is opened before they are there") {
    CHECK(it.open() == "refuse not_owner");
  }
}

}  // namespace baton::test
