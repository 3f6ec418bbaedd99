#include <catch2/catch.hpp>

#include "tests/unit/protocol/primary_bench.hpp"

namespace baton::test {
namespace {

/// An owner with an archive. The gateway has recalled a conversation: two turns, the second just begun.
struct archiving : bench {
  session_log recalled{session, fingerprint};
  std::uint64_t generation = 0;

  explicit archiving(std::size_t replicas = 0) : bench(commit_rule::mode::semi_sync, replicas) {
    how.archive = true;
    table = primary_table{how};
    REQUIRE(recalled.begin_turn(turn(1, 0, 10)));
    REQUIRE(recalled.append(tokens(0, 20)));
    recalled.close_turn();
    REQUIRE(recalled.begin_turn(turn(2, 20, 26)));
    REQUIRE(recalled.append(tokens(20, 6)));
    at = 26;
  }

  std::string open_recalled(session_id from = session_id{99}) {
    open_turn request = opening(recalled.piece_from(0), 2);
    request.restore_from = from;
    return text(seen(table.on_open_turn(1, request, true, now)));
  }
  std::string restored(position rows, std::uint64_t under) {
    return text(note(table.on_restored(session, under, rows, true)));
  }
  primary_effects seen(primary_effects effects) {
    for (const primary_effect& effect : effects)
      if (const auto* it = std::get_if<restore_rows>(&effect)) generation = it->generation;
    return note(std::move(effects));
  }
};

}  // namespace

TEST_CASE("primary_table: what an archive has is not evaluated again") {
  archiving it;
  it.own();
  CHECK(it.open_recalled() ==
        "accept cached 0; archive: begin 0 rows 0; begin 0 rows 0; say turn1@0 0+20 turn2@20 20+6; cut 0; "
        "restore from 99");
  CHECK(it.table.exports_current(session, it.generation));
  // All but the last token of the first turn: the second one's prompt is evaluated from there.
  CHECK(it.restored(19, it.generation) == "cut 19; run 26 from 19");
  CHECK(it.table.counted().restored == 19);
  CHECK(it.table.counted().recomputed == 0);
  engine_step step;
  step.session = session;
  step.run = it.run;
  step.rows = step.at = 26;
  step.has_token = true;
  const auto first = it.table.on_step(step, true, it.now);
  const auto* shown = only<emit_tokens>(first);
  REQUIRE(shown != nullptr);
  CHECK(shown->tokens.cached_tokens == 19);
}

TEST_CASE("primary_table: an archive that has nothing, or less, costs no more than that") {
  archiving it;
  it.own();
  it.open_recalled();
  SECTION("nothing") {
    CHECK(it.restored(0, it.generation) == "cut 0; run 26 from 0");
    CHECK(it.table.counted().recomputed == 19);
  }
  SECTION("the middle of a batch of the prompt: that batch is evaluated whole") {
    CHECK(it.restored(6, it.generation) == "cut 4; run 26 from 4");
  }
  SECTION("more than there is: the last token has no row") {
    CHECK(it.restored(1000, it.generation) == "cut 23; run 26 from 23");
  }
}

TEST_CASE("primary_table: no archive is asked without need") {
  archiving it;
  SECTION("the gateway knows of none") {
    it.own();
    CHECK_THAT(it.open_recalled(session_id{}), Catch::EndsWith("run 26 from 0"));
  }
  SECTION("this node has none") {
    it.how.archive = false;
    it.table = primary_table{it.how};
    it.own();
    CHECK_THAT(it.open_recalled(), Catch::EndsWith("run 26 from 0"));
  }
  SECTION("the session is here already") {
    it.own();
    it.open_recalled();
    it.restored(19, it.generation);
    CHECK(text(it.table.on_end_turn({group, it.record.epoch, session, 2, 26})) != "");
    CHECK_THAT(it.open_recalled(), !Catch::Contains("restore"));
  }
}

TEST_CASE("primary_table: what is restored after the engine was cut is of no use") {
  archiving it;
  it.own();
  it.open_recalled();
  const std::uint64_t before = it.generation;
  SECTION("the turn was cancelled") {
    CHECK_THAT(text(it.table.on_end_turn({group, it.record.epoch, session, 2, 26})), Catch::Contains("cut"));
    CHECK(it.restored(19, before) == "");
    CHECK_FALSE(it.table.exports_current(session, before));
  }
  SECTION("another history") {
    it.recalled.truncate(24);
    REQUIRE(it.recalled.append(std::vector<token_id>{9, 9}));
    CHECK_THAT(it.open_recalled(), Catch::EndsWith("run 26 from 0"));
    CHECK(it.restored(19, before) == "");
  }
  SECTION("another owner") {
    it.record.owner = standby_b;
    it.record.epoch = baton::epoch{8};
    ++it.record.revision;
    CHECK_THAT(it.see(), Catch::Contains("end"));
    CHECK(it.restored(19, before) == "");
  }
}

TEST_CASE("primary_table: a turn that is opened again while its rows are restored waits for them") {
  archiving it;
  it.own();
  it.open_recalled();
  CHECK(it.open_recalled() == "accept cached 0");
  CHECK(it.restored(19, it.generation) == "cut 19; run 26 from 19");
}

TEST_CASE(
    "primary_table: rows that come while nobody waits for the turn are kept for when it is opened again") {
  archiving it;
  it.own();
  it.open_recalled();
  CHECK(text(it.table.on_gateway_lost(edge)) == "");
  CHECK(it.restored(19, it.generation) == "cut 19");
  CHECK(it.open_recalled() == "accept cached 19; cut 19; run 26 from 19");
}

TEST_CASE("primary_table: the archive is told of every session, whatever standbys there are") {
  archiving it{2};
  it.own();
  CHECK_THAT(it.open(), Catch::Contains("archive: begin 0 rows 0; say"));
  CHECK_THAT(it.link_up(standby_b), !Catch::Contains("archive"));
  SECTION("and by its next owner") {
    archiving next{2};
    CHECK(next.see() == "take e5");
    session_log held = next.log;
    CHECK_THAT(text(next.table.on_replicas(group, next.record.epoch,
                                           std::vector<held_replica>{{group, held, 9}}, next.now)),
               Catch::Contains("archive: begin 10 rows 9"));
  }
}

}  // namespace baton::test
