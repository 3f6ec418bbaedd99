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
};

}  // namespace

TEST_CASE("primary_table: a planned move rests at a step, flushes, asks, and gives the group up") {
  moving it;
  CHECK(it.want_move(standby_b) == "pause");
  CHECK(it.want_move(standby_b).empty());  // once
  CHECK(it.step() == "say 11+1");          // what the engine had begun still counts
  CHECK(it.open(it.log.piece_from(0), 1) == "refuse not_owner");
  CHECK(it.paused().empty());
  CHECK(it.progress(standby_b, 12, 10) == "emit 10+2");  // a row is still under way
  CHECK(it.progress(standby_b, 12, 11) == "hand over to b");
  CHECK(it.progress(standby_b, 12, 11).empty());  // asked already
  it.record.owner = standby_b;
  it.record.epoch = epoch{6};
  it.record.revision += 1;
  it.record.in_sync.clear();
  const auto done = it.table.on_hand_over_reply(group, in_sync_reply{true, it.record}, it.now);
  CHECK(text(done) == "cut 11; end; return 1");
  const auto* back = only<return_replicas>(done);
  REQUIRE(back != nullptr);
  CHECK(back->sessions.front().log.length() == 12);  // nothing is lost
  CHECK(back->sessions.front().synced == 11);        // nothing is evaluated again
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
  REQUIRE(it.want_move(standby_b) == "pause");
  it.paused();
  const auto tick = [&](int after) {
    it.now += milliseconds{after};
    return text(it.note(it.table.on_tick(true, it.now)));
  };
  SECTION("it is wanted no more") {
    CHECK(it.want_move({}) == "cut 10; run 11 from 10");
    CHECK(it.progress(standby_b, 11, 10) == "emit 10+1");
  }
  SECTION("the standby is lost") {
    it.table.on_link_down("b", it.now);
    CHECK(tick(10).find("run 11 from 10") != std::string::npos);
  }
  SECTION("the standby does not catch up") {
    CHECK(tick(2000).empty());
    CHECK(tick(1) == "cut 10; run 11 from 10");
    CHECK(it.step().find("say") == 0);
    CHECK(tick(1900).empty());  // and for a while it is not tried again
    CHECK(it.progress(standby_b, 12, 10) == "emit 10+2");
    CHECK(tick(101) == "pause");
  }
  SECTION("the orchestrator does not answer") {
    REQUIRE(it.progress(standby_b, 11, 10) == "emit 10+1; hand over to b");
    CHECK(it.want_move({}).empty());  // it may have been made: not taken back at once
    CHECK(tick(500) == "hand over to b");
    CHECK(tick(1501) == "cut 10; run 11 from 10");
    CHECK(tick(3000).empty());
  }
  SECTION("the orchestrator refuses: it is asked again") {
    REQUIRE(it.progress(standby_b, 11, 10) == "emit 10+1; hand over to b");
    CHECK(it.table.on_hand_over_reply(group, in_sync_reply{false, it.record}, it.now).empty());
    CHECK(tick(500) == "hand over to b");
  }
}

TEST_CASE("primary_table: a pause that comes after the move was given up is no pause") {
  moving it;
  REQUIRE(it.want_move(standby_b) == "pause");
  REQUIRE(it.want_move({}).empty());
  CHECK(it.paused() == "cut 10; run 11 from 10");
}

TEST_CASE("primary_table: idle sessions move without a pause") {
  bench it;
  it.own_with_b();
  CHECK(it.want_move(standby_b) == "hand over to b");
}

}  // namespace baton::test
