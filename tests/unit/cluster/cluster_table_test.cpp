#include "tests/unit/cluster/cluster_world.hpp"

using namespace baton;
using namespace baton::test;

namespace {

const process_id nobody{};
using names = std::vector<process_id>;

}  // namespace

TEST_CASE("a node that registers gets a group, a second time nothing") {
  cluster_world world;
  world.node("a");
  CHECK(world.group(1).owner == run_of("a"));
  CHECK(raw(world.group(1).epoch) == world.group(1).revision);
  CHECK(world.published > 0);
  const int swaps = world.swaps, published = world.published;
  world.node("a");
  CHECK(world.swaps == swaps);
  CHECK(world.published == published);
  world.node("b");
  CHECK(world.group(2).owner == run_of("b"));
  CHECK(world.group(1).owner == run_of("a"));
  CHECK(world.group(2).epoch > world.group(1).epoch);
  world.check_settled();
  const cluster_view view = world.table->view();
  CHECK(view.term == 3);
  REQUIRE(view.nodes.size() == 2);
  CHECK(view.nodes[0].control_address == "a:1");
  CHECK(view.nodes[0].alive);
}

TEST_CASE("a heartbeat is acknowledged if its sender is known") {
  cluster_world world;
  world.node("a", 5);
  heartbeat_ack ack = world.beat(run_of("a", 5));
  CHECK(ack.known);
  CHECK(ack.term == 3);
  CHECK(ack.sequence == world.sequence);
  CHECK_FALSE(world.beat(run_of("b")).known);
  CHECK_FALSE(world.beat(run_of("a", 4)).known);  // another incarnation
  CHECK_FALSE(world.beat(run_of("a", 6)).known);
  CHECK(world.alive("a"));
}

TEST_CASE("a node behind with its view is sent one") {
  cluster_world world;
  world.node("a");
  heartbeat it;
  it.node = run_of("a");
  it.view_version = world.table->view().version;
  const int published = world.published;
  world.beat(it);
  CHECK(world.published == published);
  --it.view_version;
  world.beat(it);
  CHECK(world.published == published + 1);
}

TEST_CASE("a heartbeat's figures are in the view") {
  cluster_world world;
  world.node("a");
  world.beat(run_of("a"),
             {{group_id{1}, epoch{1}, true, 7, 100, 0}, {group_id{2}, epoch{1}, false, 5, 100, 0}});
  CHECK(world.table->view().nodes[0].sessions == 7);  // of what it owns
  CHECK(world.table->statuses().at("a").size() == 2);
}

TEST_CASE("a silent node is suspected, one that beats is not") {
  cluster_world world = three_nodes();
  world.pass(500ms);
  CHECK(world.alive("a"));
  world.beating.erase("a");
  world.pass(limits::suspect_after);
  CHECK(world.alive("a"));
  CHECK(world.group(1).owner == run_of("a"));
  world.pass(limits::heartbeat);
  CHECK_FALSE(world.alive("a"));
  CHECK(world.alive("b"));
  CHECK(world.group(1).owner != run_of("a"));
  REQUIRE(world.table->failovers().size() == 1);
  const failover_event& event = world.table->failovers()[0];
  CHECK(event.group == group_id{1});
  CHECK(event.from == run_of("a"));
  CHECK(event.to == world.group(1).owner);
  CHECK(event.epoch == world.group(1).epoch);
  CHECK(event.cause == "no heartbeat");
  CHECK(event.detected_after > limits::suspect_after);
  CHECK(event.detected_after <= limits::suspect_after + limits::heartbeat);
  world.check_settled();
}

TEST_CASE("a lost connection fails over at once") {
  cluster_world world = three_nodes();
  const epoch before = world.group(1).epoch;
  world.lost(run_of("a"));
  CHECK_FALSE(world.alive("a"));
  CHECK(world.group(1).owner.name != "a");
  CHECK_FALSE(world.group(1).owner == nobody);
  CHECK(world.group(1).in_sync.empty());
  CHECK(world.group(1).epoch > before);
  CHECK(world.table->failovers().at(0).cause == "connection lost");
  const int swaps = world.swaps;
  world.lost(run_of("a"));  // again
  world.lost(run_of("x"));
  world.lost(run_of("b", 9));  // a run that is not there
  CHECK(world.swaps == swaps);
  CHECK(world.alive("b"));
}

TEST_CASE("the in-sync node with the most rows takes over") {
  for (const bool b_has_more : {true, false}) {
    cluster_world world = three_nodes();
    world.node("d", 1, 1'000'000);  // the emptiest, not in sync
    world.gateway();
    const auto synced = [](std::uint64_t tokens) {
      return std::vector<group_status>{{group_id{1}, epoch{1}, false, 1, tokens, 0}};
    };
    world.statuses["b"] = synced(b_has_more ? 900 : 100);
    world.statuses["c"] = synced(500);
    world.statuses["d"] = synced(9999);
    world.pass(40ms);
    world.lost(run_of("a"));
    CHECK(world.group(1).owner == run_of(b_has_more ? "b" : "c"));
  }
}

TEST_CASE("among equals the one with the most room takes over") {
  cluster_world world = three_nodes();
  world.statuses["b"] = {{group_id{2}, epoch{1}, true, 60, 0, 0}};
  world.statuses["c"] = {{group_id{3}, epoch{1}, true, 20, 0, 0}, {group_id{1}, epoch{1}, false, 99, 0, 0}};
  world.pass(40ms);
  world.lost(run_of("a"));
  CHECK(world.group(1).owner == run_of("c"));
}

TEST_CASE("with none in sync another node takes over only while a gateway lives") {
  for (const bool with_gateway : {true, false}) {
    cluster_world world;
    world.node("a");
    world.node("b");
    if (with_gateway) world.gateway();
    world.lost(run_of("a"));
    CHECK(world.group(1).owner == (with_gateway ? run_of("b") : nobody));
    world.check_settled();
    if (!with_gateway) {
      world.pass(2000ms);
      CHECK(world.group(1).owner == nobody);
      world.gateway();
      world.pass(40ms);  // now there is a log to be had
      CHECK(world.group(1).owner == run_of("b"));
    }
  }
}

TEST_CASE("a gateway that is gone gives no log") {
  cluster_world world;
  world.node("a");
  world.node("b");
  world.gateway("gateway", 1);
  CHECK(world.table->view().gateways.size() == 1);
  world.lost(run_of("gateway", 2));  // another run of it
  CHECK(world.table->view().gateways.size() == 1);
  world.lost(run_of("gateway", 1));
  CHECK(world.table->view().gateways.empty());
  world.lost(run_of("a"));
  CHECK(world.group(1).owner == nobody);
}

TEST_CASE("with nobody left a group waits for a node to return") {
  cluster_world world = three_nodes();
  world.gateway();
  for (const char* name : {"a", "b", "c"})
    world.lost(run_of(name));
  for (std::uint64_t id = 1; id <= 3; ++id)
    CHECK(world.group(id).owner == nobody);
  const int swaps = world.swaps;
  world.pass(2000ms);
  CHECK(world.swaps == swaps);  // and nothing is tried meanwhile
  world.node("b", 2);
  for (std::uint64_t id = 1; id <= 3; ++id)
    CHECK(world.group(id).owner == run_of("b", 2));
  world.check_settled();
}

TEST_CASE("with nobody left and no gateway only who was in sync may return") {
  cluster_world world;
  world.node("a");
  world.node("b");
  world.add(group_id{1}, "b");
  world.held_back = true;  // both go before anything is written
  world.lost(run_of("a"));
  world.lost(run_of("b"));
  world.release();
  CHECK(world.group(1).owner == nobody);
  world.node("c");
  world.pass(2000ms);
  CHECK(world.group(1).owner == nobody);
  CHECK(world.owned_by(run_of("c")).size() == 1);  // it got one of its own
  CHECK(world.group(1).in_sync.empty());
}

TEST_CASE("an owner that is lost leaves its set to whoever of it returns") {
  cluster_world world{{record(1, run_of("a"), {run_of("b")}, 10)}};
  world.node("a");
  world.pass(limits::lease + 40ms);  // b never came
  CHECK(world.group(1).in_sync.empty());

  cluster_world other{{record(1, nobody, {run_of("b")}, 10)}};
  other.node("c");
  other.pass(limits::lease + 40ms);
  CHECK(other.group(1).owner == nobody);
  CHECK(other.group(1).in_sync == names{run_of("b")});
  other.node("b", 2);  // another run has nothing
  other.pass(40ms);
  CHECK(other.group(1).owner == nobody);
  other.node("b", 1);
  CHECK(other.group(1).owner == run_of("b", 1));
}

TEST_CASE("a restarted node is out of every set before it is used") {
  cluster_world world = three_nodes();
  const epoch before = world.group(1).epoch;
  world.held_back = true;
  world.node("b", 2);
  // Nothing that is still to be written names the new run as one that holds anything.
  for (const swap_record& swap : world.waiting)
    CHECK(std::find(swap.desired.in_sync.begin(), swap.desired.in_sync.end(), run_of("b", 2)) ==
          swap.desired.in_sync.end());
  world.release();
  CHECK(world.group(1).in_sync == names{run_of("c")});
  CHECK(world.group(1).epoch == before);  // its owner is the same
  CHECK(world.group(2).owner != run_of("b", 1));
  CHECK(world.owned_by(run_of("b", 2)).size() == 1);
  world.check_settled();
  // It may be promoted only once it is in again.
  world.lost(run_of("a"));
  CHECK(world.group(1).owner == run_of("c"));
}

TEST_CASE("an owner that restarts is another process") {
  cluster_world world = three_nodes();
  world.node("a", 2);
  CHECK((world.group(1).owner == run_of("b") || world.group(1).owner == run_of("c")));
  CHECK(world.table->failovers().at(0).cause == "restarted");
  CHECK(world.owned_by(run_of("a", 2)).size() == 1);
  CHECK_FALSE(world.beat(run_of("a", 1)).known);
  world.lost(run_of("a", 1));  // late news of the old run
  CHECK(world.alive("a"));
}

TEST_CASE("a suspected node that comes back gets a group of its own and never its old epoch") {
  cluster_world world = three_nodes();
  const group_record before = world.group(1);
  world.beating.erase("a");
  world.pass(200ms);
  REQUIRE(world.group(1).owner != run_of("a"));
  const group_record after = world.group(1);
  CHECK(after.epoch > before.epoch);
  const heartbeat_ack ack = world.beat(run_of("a"));
  CHECK(ack.known);
  CHECK(world.alive("a"));
  CHECK(world.group(1) == after);
  const auto owned = world.owned_by(run_of("a"));
  REQUIRE(owned.size() == 1);
  CHECK(owned[0] != group_id{1});
  CHECK(world.store.at(owned[0]).epoch > before.epoch);
  // What it still wants for its old group is refused.
  const in_sync_reply reply =
      world.change({group_id{1}, before.epoch, before.revision, run_of("a"), run_of("b"), false});
  CHECK_FALSE(reply.changed);
  CHECK(reply.record == after);
}

TEST_CASE("with none in sync a node of the same model takes over, if there is one") {
  cluster_world world;
  world.gateway();
  world.node("a", 1, 100, 7);
  world.node("b", 1, 200, 8);
  world.node("c", 1, 100, 7);
  const group_id lost = world.owned_by(run_of("a")).at(0);
  world.lost(run_of("a"));  // b has more room
  CHECK(world.group(raw(lost)).owner == run_of("c"));
}

TEST_CASE("at the moment when all fall silent, the first to be missed is not judged") {
  cluster_world world = three_nodes();
  world.gateway();
  const auto all = world.beating;
  world.beating.erase("a");
  world.pass(limits::heartbeat);  // the others are heard once more
  world.beating.clear();
  world.pass(limits::suspect_after - limits::heartbeat);
  const bool again = GENERATE(false, true);
  if (again) world.beating = all;
  world.pass(5s);
  CHECK(world.group(1).owner == run_of("a"));
  CHECK(world.table->failovers().empty());
}

TEST_CASE("who hears nobody judges nobody") {
  cluster_world world = three_nodes();
  world.gateway();
  const epoch before = world.group(1).epoch;
  const auto all = world.beating;
  world.beating.clear();
  world.pass(5s);
  for (const auto& [name, who] : all)
    world.lost(who);  // their connections end as well
  CHECK(world.group(1).owner == run_of("a"));
  CHECK(world.table->failovers().empty());
  SECTION("all are heard again, one after the other") {
    world.beat(run_of("c"));
    world.tick();
    world.beating = all;
    world.pass(1s);
    CHECK(world.group(1).owner == run_of("a"));
    CHECK(world.group(1).epoch == before);
  }
  SECTION("one comes back, the others do not") {
    world.beating["c"] = run_of("c");
    world.pass(limits::suspect_after);
    CHECK(world.group(1).owner == run_of("a"));
    world.pass(limits::heartbeat * 2);
    CHECK(world.group(1).owner == run_of("c"));
  }
  SECTION("one registers anew") {
    world.node("b", 2);
    world.pass(limits::suspect_after + limits::heartbeat);
    CHECK(world.group(1).owner == run_of("b", 2));
  }
}

TEST_CASE("a node outside its sets after a suspicion is put in again only on demand") {
  cluster_world world = three_nodes();
  world.beating.erase("b");
  world.pass(200ms);
  CHECK(world.group(1).in_sync == names{run_of("c")});
  world.beat(run_of("b"));
  world.beating["b"] = run_of("b");
  CHECK(world.group(1).in_sync == names{run_of("c")});
  world.add(group_id{1}, "b");
  CHECK(world.group(1).in_sync == names{run_of("c"), run_of("b")});
}

TEST_CASE("after a start an owner has one lease to register") {  // T3
  const std::vector<group_record> records{record(1, run_of("a"), {run_of("b")}, 10),
                                          record(2, run_of("b"), {}, 11)};
  SECTION("it does, and nothing changes") {
    cluster_world world{records};
    world.pass(limits::lease - 100ms);
    world.node("a");
    world.node("b");
    world.pass(2000ms);
    CHECK(world.group(1) == records[0]);
    CHECK(world.group(2) == records[1]);
    CHECK(world.swaps == 0);
  }
  SECTION("it does not, and its standby takes over") {
    cluster_world world{records};
    world.node("b");
    world.pass(limits::lease - limits::heartbeat);
    CHECK(world.group(1) == records[0]);
    world.pass(2 * limits::heartbeat);
    CHECK(world.group(1).owner == run_of("b"));
    CHECK(raw(world.group(1).epoch) > 11);
  }
  SECTION("a standby that has not registered yet is not thrown out") {
    cluster_world world{records};
    world.node("a");
    world.pass(limits::lease - limits::heartbeat);
    CHECK(world.group(1) == records[0]);
    world.pass(2 * limits::heartbeat);
    CHECK(world.group(1).in_sync.empty());
    CHECK(world.group(1).epoch == records[0].epoch);
  }
  SECTION("an owner that restarts within it waits for who holds everything") {
    cluster_world world{records};
    world.gateway();
    world.node("a", 2);
    CHECK(world.group(1) == records[0]);
    world.pass(200ms);
    CHECK(world.group(1) == records[0]);
    world.node("b");
    CHECK(world.group(1).owner == run_of("b"));
  }
  SECTION("it registers and is lost again within the lease") {
    cluster_world world{records};
    world.node("a");
    world.node("b");
    world.lost(run_of("a"));
    CHECK(world.group(1).owner == run_of("b"));
  }
}

TEST_CASE("who has slept judges nobody by what ended meanwhile, and gives all a lease") {
  cluster_world world = three_nodes();
  world.pass(200ms);
  world.now += 4s;
  world.lost(run_of("a"));  // closed by one of the two sides, for want of signs of life
  world.lost(run_of("b"));
  world.tick();
  CHECK(world.table->failovers().empty());
  CHECK(world.alive("a"));
  for (const char* back : {"a", "b"})
    world.beating[back] = run_of(back);
  SECTION("all are back") {
    world.pass(3s);
    CHECK(world.table->failovers().empty());
    world.lost(run_of("a"));  // now it says something
    CHECK_FALSE(world.alive("a"));
  }
  SECTION("one is not") {
    world.beating.erase("a");
    world.pass(limits::lease - 100ms);
    CHECK(world.alive("a"));
    world.pass(200ms);
    CHECK_FALSE(world.alive("a"));
    CHECK(world.alive("b"));
    CHECK(world.group(1).owner != run_of("a"));
  }
}

TEST_CASE("of two processes under one name the later one stays") {
  cluster_world world;
  world.gateway();
  world.node("a", 1);
  CHECK_FALSE(world.table->replaced(run_of("a", 1)));
  world.node("a", 2);
  CHECK(world.group(1).owner == run_of("a", 2));
  CHECK(world.table->replaced(run_of("a", 1)));
  CHECK_FALSE(world.table->replaced(run_of("a", 2)));
  const epoch before = world.group(1).epoch;
  world.node("a", 1);  // tries again, and would for ever
  CHECK(world.group(1).owner == run_of("a", 2));
  CHECK(world.group(1).epoch == before);
}
