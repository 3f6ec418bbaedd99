#include "tests/unit/protocol/primary_bench.hpp"

namespace baton::test {

namespace {

/// A turn is under way, all of it held by b.
struct moving : bench {
  moving() {
    own_with_b();
    open();
    progress(standby_b, 10, 9);
    step();
  }
  /// The orchestrator's answer: b owns the group.
  primary_effects given() {
    const group_record next{group, epoch{7}, 7, standby_b, {}};
    return note(table.on_hand_over_reply(group, in_sync_reply{true, next}, now));
  }
  std::string tick(int after) {
    now += milliseconds{after};
    return text(note(table.on_tick(true, now)));
  }
};

}  // namespace

TEST_CASE("primary_table: a planned move asks, rests at a step, flushes, and hands the group on") {
  moving it;
  CHECK(it.want_move(standby_b) == "pause; hand over to b");
  CHECK(it.want_move(standby_b).empty());  // once
  CHECK(it.step() == "say 11+1");          // what the engine had begun still counts
  CHECK(it.open(it.log.piece_from(0), 1) == "refuse not_owner");
  CHECK(it.paused().empty());
  SECTION("the record has changed before all has been said") {
    CHECK(it.given().empty());
    CHECK(it.see().empty());                               // it goes on as the owner, as views have it
    CHECK(it.progress(standby_b, 12, 10) == "emit 10+2");  // a row is still under way
    CHECK(it.progress(standby_b, 12, 11) == "appoint b e7; cut 11; end; return 1");
  }
  SECTION("the record changes last") {
    CHECK(it.progress(standby_b, 12, 11) == "emit 10+2");
    const auto done = it.given();
    CHECK(text(done) == "appoint b e7; cut 11; end; return 1");
    const auto* back = only<return_replicas>(done);
    REQUIRE(back != nullptr);
    CHECK(back->sessions.front().log.length() == 12);  // nothing is lost
    CHECK(back->sessions.front().synced == 11);        // nothing is evaluated again
  }
  CHECK_FALSE(it.table.owns(group));
  CHECK(it.see().empty());  // a view that still has the old record gives it back to nobody
}

TEST_CASE("primary_table: who is appointed takes over before a view says so, once") {
  bench it;
  CHECK(text(it.table.on_appointed({group, epoch{5}})) == "take e5");
  CHECK(text(it.table.on_appointed({group, epoch{5}})).empty());
  CHECK(it.see().empty());
  CHECK(text(it.table.on_appointed({group, epoch{4}})).empty());
  CHECK(it.table.epoch_of(group) == epoch{5});
}

TEST_CASE("primary_table: nothing moves to a standby that is not in sync, or not linked") {
  moving it;
  SECTION("not in sync") {
    CHECK(it.want_move(standby_c).empty());
  }
  SECTION("not linked") {
    it.table.on_link_down("b", it.now);
    CHECK(it.want_move(standby_b).empty());
  }
  SECTION("asked of an older epoch") {
    cluster_view old = it.view();
    old.moves.push_back({group, epoch{4}, standby_b});
    CHECK(it.table.on_view(old, it.now).empty());
  }
}

TEST_CASE("primary_table: a planned move waits for a standby that holds nearly all, while decoding goes on") {
  bench it;
  it.how.context_tokens = 2000;
  it.table = primary_table{it.how};
  it.own_with_b();
  it.log = log_of(500, 0);
  it.at = 500;
  it.open();
  CHECK(it.want_move(standby_b).empty());
  it.step();
  CHECK(it.progress(standby_b, 501, 100).find("pause") == std::string::npos);
  CHECK(it.progress(standby_b, 501, 460).find("pause") != std::string::npos);
}

TEST_CASE("primary_table: a planned move that comes to nothing lets decoding go on") {
  moving it;
  REQUIRE(it.want_move(standby_b) == "pause; hand over to b");
  it.paused();
  const auto refused = [&] {
    return text(it.note(it.table.on_hand_over_reply(group, in_sync_reply{false, it.record}, it.now)));
  };
  SECTION("it is wanted no more") {
    CHECK(it.want_move({}).empty());  // it may have been made: not taken back at once
    CHECK(refused() == "cut 10; run 11 from 10");
    CHECK(it.progress(standby_b, 11, 10) == "emit 10+1");
  }
  SECTION("the standby is lost") {
    it.table.on_link_down("b", it.now);
    CHECK(it.tick(10).find("run") == std::string::npos);
    CHECK(refused() == "cut 10; run 11 from 10");
  }
  SECTION("the standby does not catch up, and nobody answers") {
    CHECK(it.tick(500) == "hand over to b");
    CHECK(it.tick(500) == "hand over to b");
    CHECK(it.tick(500) == "hand over to b");
    CHECK(it.tick(500) == "hand over to b");
    CHECK(it.tick(1) == "cut 10; run 11 from 10");
    CHECK(it.step().find("say") == 0);
    CHECK(it.tick(1900).empty());  // and for a while it is not tried again
    CHECK(it.progress(standby_b, 12, 10) == "emit 10+2");
    CHECK(it.tick(101) == "pause; hand over to b");
  }
  SECTION("the orchestrator refuses: it is asked again") {
    REQUIRE(it.progress(standby_b, 11, 10) == "emit 10+1");
    CHECK(refused().empty());
    CHECK(it.tick(500) == "hand over to b");
  }
}

TEST_CASE("primary_table: what has been given away is not kept, whatever goes wrong") {
  moving it;
  REQUIRE(it.want_move(standby_b) == "pause; hand over to b");
  REQUIRE(it.given().empty());
  SECTION("the standby is lost") {
    it.table.on_link_down("b", it.now);
    CHECK(it.tick(10).find("appoint b e7; stop") != std::string::npos);
  }
  SECTION("the standby does not catch up") {
    it.paused();
    CHECK(it.tick(2000).empty());
    CHECK(it.tick(1) == "appoint b e7; cut 10; end; return 1");
  }
  SECTION("a view is first") {
    it.paused();
    it.record = {group, epoch{7}, 7, standby_b, {}};
    CHECK(it.see() == "cut 10; end; return 1");
  }
  SECTION("somebody else has it by now") {
    it.paused();
    CHECK(text(it.table.on_fenced(group, epoch{9})) == "cut 10; end; return 1");
  }
  CHECK_FALSE(it.table.owns(group));
}

TEST_CASE("primary_table: a pause that comes after the move was given up is no pause") {
  moving it;
  REQUIRE(it.want_move(standby_b) == "pause; hand over to b");
  REQUIRE(it.want_move({}).empty());
  REQUIRE(it.table.on_hand_over_reply(group, in_sync_reply{false, it.record}, it.now).empty());
  CHECK(it.paused() == "cut 10; run 11 from 10");
}

TEST_CASE("primary_table: idle sessions move without a pause") {
  bench it;
  it.own_with_b();
  CHECK(it.want_move(standby_b) == "hand over to b");
}

}  // namespace baton::test
