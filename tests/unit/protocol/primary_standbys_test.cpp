#include <catch2/catch.hpp>

#include <map>

#include "tests/unit/protocol/primary_bench.hpp"

/// Groups that have fewer standbys than there are links (docs/protocol.md, R).
namespace baton::test {

namespace {

/// One standby out of those that are linked; the first to come up is it.
struct one_replica : bench {
  explicit one_replica(commit_rule::mode mode = commit_rule::mode::semi_sync) : bench(mode, 1) {
    own();
    REQUIRE(link_up(standby_b) == "add b r5");
    REQUIRE(swapped({standby_b}).empty());
    REQUIRE(link_up(standby_c).empty());
  }
  std::string tick(milliseconds after) {
    now += after;
    return text(note(table.on_tick(true, now)));
  }
  std::string link_down(const process_id& who) { return text(table.on_link_down(who.name, now)); }
};

}  // namespace

TEST_CASE("primary_table: a group has as many standbys as it shall, and waits for no other") {
  one_replica it;
  CHECK(it.open() == "accept cached 0; begin 0 rows 0 to b; say turn1@0 0+10; cut 0; run 10 from 0");
  CHECK(it.step() == "say 10+1");
  CHECK(it.progress(standby_b, 11) == "emit 10+1");
  CHECK(it.tick(milliseconds{5000}).empty());
  CHECK(it.table.waits_for(group) == std::vector<std::string>{"b"});
}

TEST_CASE("primary_table: a lost standby is replaced after a lease, and the count of replicas is restored") {
  one_replica it;
  it.open();
  CHECK(it.link_down(standby_b) == "remove b r6");
  CHECK(it.swapped({}).empty());
  CHECK(it.step() == "say 10+1; emit 10+1");  // alone, under its lease
  CHECK(it.tick(milliseconds{900}).empty());
  SECTION("it comes back before that, with what it had") {
    CHECK(it.link_up(standby_b).empty());
    CHECK(it.tick(milliseconds{5000}).empty());
    CHECK(it.progress(standby_b, 11) == "add b r7");
  }
  SECTION("the other one gets all that there is, and is waited for from then on") {
    CHECK(it.tick(milliseconds{200}) == "end drop to b; begin 11 rows 10 to c");
    CHECK(it.progress(standby_c, 11) == "add c r7");
    CHECK(it.swapped({standby_c}).empty());
    CHECK(it.step() == "say 11+1");
    CHECK(it.link_up(standby_b).empty());  // it is late
    CHECK(it.progress(standby_c, 12) == "emit 11+1");
    CHECK(it.table.waits_for(group) == std::vector<std::string>{"c"});
  }
}

TEST_CASE("primary_table: a lost standby is not replaced while it is waited for") {
  one_replica it;
  it.open();
  CHECK(it.link_down(standby_b) == "remove b r6");
  CHECK(it.tick(milliseconds{2000}) == "remove b r6");  // no answer yet: it may be promoted
  CHECK(it.swapped({}) == "");
  CHECK(it.tick(milliseconds{50}) == "end drop to b; begin 10 rows 0 to c");
}

TEST_CASE("primary_table: a standby that is chosen late knows how often the history has been cut") {
  one_replica it;
  it.open();
  it.step();
  it.step();
  CHECK(text(it.table.on_end_turn({group, it.record.epoch, session, 1, 11})) ==
        "stop; cut 11; say cut11 close");
  it.link_down(standby_b);
  it.swapped({});
  const auto chosen = it.table.on_tick(true, it.now += milliseconds{2000});
  REQUIRE(text(chosen) == "end drop to b; begin 11 rows 11 to c");
  CHECK(std::get<begin_replication>(chosen.back()).cuts == 1);
  CHECK(it.progress(standby_c, 11, 0, true, 0).empty());
  CHECK(it.progress(standby_c, 11, 0, true, 1) == "add c r7");
}

TEST_CASE("primary_table: where the group is to move it has a standby more, and one less when that is lost") {
  one_replica it;
  it.open();
  it.step();
  CHECK(it.want_move(standby_c) == "begin 11 rows 10 to c");
  CHECK(it.progress(standby_c, 11, 10) == "add c r6");
  CHECK(it.swapped({standby_b, standby_c}).empty());
  SECTION("it goes there") {
    CHECK(it.progress(standby_c, 11, 10) == "pause; hand over to c");
    CHECK(it.paused().empty());
  }
  SECTION("it does not") {
    CHECK(it.want_move({}).empty());
    CHECK(it.link_down(standby_c) == "remove c r7");
    CHECK(it.swapped({standby_b}).empty());
    CHECK(it.tick(milliseconds{2000}) == "end drop to c");
    CHECK(it.tick(milliseconds{2000}).empty());
  }
}

TEST_CASE("primary_table: after a take-over the group has its standbys again") {
  promotion it;
  it.how.replicas = 1;
  it.table = primary_table(it.how);
  REQUIRE(it.link_up(standby_b).empty());
  REQUIRE(it.link_up(standby_c).empty());
  const std::string took = it.promote();
  CHECK((took == "take e5 | cut 12; seal edge held 1; begin 15 rows 12 to b" ||
         took == "take e5 | cut 12; seal edge held 1; begin 15 rows 12 to c"));
}

TEST_CASE("primary_table: groups spread over standbys, each in an order of its own") {
  primary_table::options how = usual();
  how.replicas = 2;
  std::map<std::string, int> chosen;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    primary_table table(how);
    for (const char* name : {"b", "c", "d", "e"})
      table.on_link_up(name, {name, incarnation{1}}, time_point{});
    cluster_view view;
    view.version = 1;
    view.groups.push_back({group_id{id}, epoch{1}, 1, self, {}});
    table.on_view(view, time_point{});
    std::vector<held_replica> replicas{{group_id{id}, log_of(10, 0), 0}};
    for (const auto& effect : table.on_replicas(group_id{id}, epoch{1}, std::move(replicas), time_point{}))
      if (const auto* begun = std::get_if<begin_replication>(&effect)) ++chosen[begun->standbys.at(0)];
  }
  for (const char* name : {"b", "c", "d", "e"}) {
    CAPTURE(name);
    CHECK(chosen[name] > 15);  // 30 each, if they were dealt out
  }
}

}  // namespace baton::test
