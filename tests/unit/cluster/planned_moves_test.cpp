#include "tests/unit/cluster/cluster_world.hpp"

/// Planned moves as the orchestrator orders and grants them (docs/protocol.md, M).
using namespace baton;
using namespace baton::test;

TEST_CASE("what a draining node owns is to go to a standby that is in sync and stays") {
  cluster_world world = three_nodes();
  world.gateway();
  const auto drain = [&](const std::string& node, bool on) {
    cluster_effects effects;
    const bool known = world.table->drain(node, on, effects);
    world.run(std::move(effects));
    return known;
  };
  CHECK_FALSE(drain("x", true));
  REQUIRE(world.group(1).owner == run_of("a"));
  for (const process_id& standby : {run_of("b"), run_of("c")})
    world.change(world.asks(group_id{1}, standby, false));
  REQUIRE(drain("a", true));
  CHECK(world.table->view().nodes[0].draining);
  CHECK(world.table->view().moves.empty());  // nobody holds all of it
  world.change(world.asks(group_id{1}, run_of("b"), true));
  REQUIRE(world.table->view().moves.size() == 1);
  const group_move wanted = world.table->view().moves[0];
  CHECK(wanted == group_move{group_id{1}, world.group(1).epoch, run_of("b")});
  SECTION("the order is taken back") {
    REQUIRE(drain("a", false));
    CHECK(world.table->view().moves.empty());
  }
  SECTION("the standby is to stay") {
    REQUIRE(drain("b", true));
    CHECK(world.table->view().moves.empty());
  }
  SECTION("the owner hands over, and gets nothing new") {
    const epoch before = world.group(1).epoch;
    CHECK_FALSE(world.hand_over({group_id{1}, before, run_of("a"), run_of("c")}).changed);
    CHECK_FALSE(world.hand_over({group_id{1}, epoch{raw(before) + 1}, run_of("a"), run_of("b")}).changed);
    CHECK_FALSE(world.hand_over({group_id{1}, before, run_of("b"), run_of("b")}).changed);
    const in_sync_reply done = world.hand_over({group_id{1}, before, run_of("a"), run_of("b")});
    CHECK(done.changed);
    CHECK(done.record.owner == run_of("b"));
    CHECK(done.record.epoch > before);
    CHECK(done.record.in_sync.empty());
    CHECK(world.table->failovers().back().cause == "planned move");
    world.pass(500ms);
    for (const auto& [id, record] : world.store)
      CHECK(record.owner != run_of("a"));
    world.lost(run_of("b"));  // to one that stays, rather than to one that leaves
    CHECK(world.group(1).owner == run_of("c"));
    world.node("a", 2);  // a restart ends the order
    CHECK_FALSE(world.table->view().nodes[0].draining);
  }
}

TEST_CASE("a group that is handed over is shown as it was until its new owner has it") {
  cluster_world world = three_nodes();
  const auto reports = [&](const char* node, epoch under) {
    world.statuses[node] = {group_status{group_id{1}, under, true, 1, 10, 0}};
  };
  const auto shown = [&] { return world.table->view().groups.at(0).owner; };
  world.add(group_id{1}, "b");
  const epoch before = world.group(1).epoch;
  reports("a", before);
  world.pass(40ms);
  const std::uint64_t version = world.table->view().version;
  REQUIRE(world.hand_over({group_id{1}, before, run_of("a"), run_of("b")}).changed);
  const epoch after = world.group(1).epoch;
  CHECK(world.group(1).owner == run_of("b"));
  world.pass(40ms);
  CHECK(shown() == run_of("a"));
  CHECK(world.table->view().groups.at(0).epoch == before);
  CHECK(world.table->view().moves == std::vector{group_move{group_id{1}, before, run_of("b")}});
  SECTION("it says so") {
    reports("b", after);
    world.pass(20ms);
  }
  SECTION("the old one has let it go") {
    world.statuses["a"].clear();
    world.pass(20ms);
  }
  SECTION("the old one is lost") {
    world.lost(run_of("a"));
  }
  SECTION("it takes too long") {
    world.pass(2900ms);
    CHECK(shown() == run_of("a"));
    world.pass(100ms);
  }
  SECTION("the new one is lost: then it is another's") {
    world.lost(run_of("b"));
    CHECK(shown() == world.group(1).owner);
    CHECK(shown() != run_of("b"));
    return;
  }
  CHECK(shown() == run_of("b"));
  CHECK(world.table->view().groups.at(0).epoch == after);
  CHECK(world.table->view().moves.empty());
  CHECK(world.table->view().version > version + 1);  // everybody is told
}

TEST_CASE("what gateways cannot reach moves to where more of them can") {
  cluster_world world = three_nodes();
  REQUIRE(world.group(1).owner == run_of("a"));
  const auto cannot_reach = [&](const char* gateway, const std::vector<process_id>& nodes) {
    world.run(world.table->on_gateway({{gateway, incarnation{1}}, nodes}, world.now));
  };
  cannot_reach("edge", {});
  cannot_reach("edge2", {run_of("b")});
  CHECK(world.table->view().moves.empty());  // what b owns nobody holds
  cannot_reach("edge2", {run_of("a")});
  const auto moves = world.table->view().moves;
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].group == group_id{1});
  CHECK(moves[0].to != run_of("a"));
  SECTION("not if all are as hard to reach") {
    cannot_reach("edge2", {run_of("a"), run_of("b"), run_of("c")});
    CHECK(world.table->view().moves.empty());
  }
  SECTION("to the one that can be reached") {
    cannot_reach("edge2", {run_of("a"), run_of("b")});
    for (const group_move& move : world.table->view().moves)
      CHECK(move.to == run_of("c"));
  }
  SECTION("not any more when it can be reached again") {
    cannot_reach("edge2", {});
    CHECK(world.table->view().moves.empty());
  }
  SECTION("nor when that gateway is gone") {
    world.run(world.table->on_lost({"edge2", incarnation{1}}, "connection closed", world.now));
    CHECK(world.table->view().moves.empty());
  }
}

TEST_CASE("a group moves by order, and stays where it was ordered to") {
  cluster_world world = three_nodes();
  const auto move = [&](std::uint64_t id, const std::string& node) {
    cluster_effects effects;
    const bool ordered = world.table->move(group_id{id}, node, effects);
    world.run(std::move(effects));
    return ordered;
  };
  REQUIRE(world.group(1).owner == run_of("a"));
  CHECK_FALSE(move(9, "b"));
  CHECK_FALSE(move(1, "x"));
  CHECK(move(1, "a"));
  CHECK(world.table->view().moves.empty());  // it is there
  world.change(world.asks(group_id{1}, run_of("c"), false));
  REQUIRE(move(1, "c"));
  // Also while it does not hold all of it: the owner has to bring that first.
  REQUIRE(world.table->view().moves.size() == 1);
  const group_move wanted = world.table->view().moves[0];
  CHECK(wanted == group_move{group_id{1}, world.group(1).epoch, run_of("c")});
  SECTION("it is done") {
    world.change(world.asks(group_id{1}, run_of("c"), true));
    CHECK(world.hand_over({wanted.group, wanted.epoch, run_of("a"), run_of("c")}).changed);
    CHECK(world.table->view().moves.empty());
  }
  SECTION("another order takes its place") {
    REQUIRE(move(1, "b"));
    CHECK(world.table->view().moves.at(0).to == run_of("b"));
  }
  SECTION("the node is lost") {
    world.lost(run_of("c"));
    CHECK(world.table->view().moves.empty());
    world.node("c", 2);
    CHECK(world.table->view().moves.empty());
  }
  SECTION("the node is to be drained") {
    cluster_effects effects;
    REQUIRE(world.table->drain("c", true, effects));
    CHECK(world.table->view().moves.empty());
    CHECK_FALSE(move(1, "c"));
  }
}

TEST_CASE("a node that says so drains") {
  cluster_world world = three_nodes();
  heartbeat it;
  it.node = run_of("a");
  it.draining = true;
  world.beat(it);
  CHECK(world.table->view().nodes[0].draining);
  it.draining = false;
  world.beat(it);
  CHECK_FALSE(world.table->view().nodes[0].draining);
}

TEST_CASE("restarts do not pile up groups: one is moved to a node that owns none") {
  std::vector<group_record> records;
  for (std::uint64_t id = 1; id <= 8; ++id)
    records.push_back(record(id, run_of("a"), {run_of("b")}, id));
  cluster_world world{std::move(records)};
  world.node("a");
  world.node("b");
  for (std::uint64_t id = 1; id <= 8; ++id)
    world.statuses["a"].push_back({group_id{id}, epoch{id}, true, 1, 0, 0});  // none is empty
  world.pass(200ms);
  CHECK(world.store.size() == 8);
  REQUIRE(world.table->view().moves.size() == 1);
  const group_move wanted = world.table->view().moves[0];
  CHECK(wanted.to == run_of("b"));
  CHECK(world.hand_over({wanted.group, wanted.epoch, run_of("a"), run_of("b")}).changed);
  world.statuses.clear();
  world.pass(20ms);
  CHECK(world.table->view().moves.empty());
}
