#include "tests/unit/cluster/cluster_world.hpp"

using namespace baton;
using namespace baton::test;

namespace {
const process_id nobody{};
using names = std::vector<process_id>;
}  // namespace

TEST_CASE("a compare-and-swap that lost goes on from what is really there") {
  cluster_world world = three_nodes();
  world.node("d");
  world.meddle(group_id{1}, run_of("d"));
  world.lost(run_of("a"));
  CHECK(world.group(1).owner == run_of("d"));
  world.check_settled();
  world.pass(100ms);
  CHECK(world.group(1).owner == run_of("d"));
  CHECK(world.table->failovers().empty());
}

TEST_CASE("a lost compare-and-swap is tried again on a tick") {
  cluster_world world = three_nodes();
  world.meddle(group_id{1}, run_of("x"));  // nobody we know
  world.lost(run_of("a"));
  CHECK(world.group(1).owner == run_of("x"));
  const int swaps = world.swaps;
  world.pass(limits::lease + 40ms);
  CHECK(world.swaps > swaps);
  CHECK(world.group(1).owner != run_of("x"));
  world.check_settled();
}

TEST_CASE("a store that fails is tried again on each tick, no more, and loses nothing") {
  cluster_world world = three_nodes();
  const auto before = world.store;
  world.store_down = true;
  world.lost(run_of("a"));
  CHECK(world.swaps < 20);
  const cluster_view view = world.table->view();
  REQUIRE(view.groups.size() == 3);
  CHECK(view.groups[0] == before.at(group_id{1}));  // what was known stays known
  int swaps = world.swaps;
  for (int i = 0; i < 10; ++i) {
    world.pass(limits::heartbeat);
    CHECK(world.swaps > swaps);
    CHECK(world.swaps <= swaps + 5);
    swaps = world.swaps;
  }
  CHECK(world.store == before);
  world.store_down = false;
  world.pass(limits::heartbeat);
  CHECK((world.group(1).owner == run_of("b") || world.group(1).owner == run_of("c")));
  world.check_settled();
  REQUIRE(world.table->failovers().size() == 1);
}

TEST_CASE("a new node meets a store that fails") {
  cluster_world world;
  world.store_down = true;
  world.node("a");
  CHECK(world.table->view().groups.empty());  // a group that does not exist is not shown
  world.pass(100ms);
  world.store_down = false;
  world.pass(40ms);
  CHECK(world.owned_by(run_of("a")) == std::vector{group_id{1}});
  world.check_settled();
}

TEST_CASE("a group that was made unnoticed is found although nobody asks for it any more") {
  cluster_world world;
  world.gateway();
  world.node("a");
  world.store_lies = true;
  world.node("b");
  world.store_lies = false;
  world.lost(run_of("a"));  // so b has group 1, and needs no other
  CHECK(world.owned_by(run_of("b")) == std::vector{group_id{1}, group_id{2}});
  CHECK(world.table->view().groups.size() == 1);
  world.pass(limits::heartbeat * 2);
  world.check_settled();
}

TEST_CASE("who has obeyed another store, or later decisions, is told nothing") {
  cluster_world world = three_nodes();
  const cluster_view view = world.table->view();
  allegiance it;
  obey(it, view);
  CHECK(it.store == 77);
  CHECK_FALSE(world.table->foreign({}));
  CHECK_FALSE(world.table->foreign(it));
  SECTION("of another store") {
    ++it.store;
  }
  SECTION("of a later term") {
    ++it.term;
  }
  SECTION("of a later epoch") {
    it.epoch = epoch{raw(it.epoch) + 1};
  }
  CHECK(world.table->foreign(it));
  node_registration node;
  node.node = run_of("d");
  node.obeyed = it;
  world.run(world.table->on_node(node, world.now));
  world.run(world.table->on_gateway({run_of("gateway"), {}, it}, world.now));
  CHECK(world.table->view() == view);
}

TEST_CASE("a late view of an earlier term takes no obedience back") {
  allegiance it;
  obey(it, {3, 1, {}, {}, {record(1, run_of("a"), {}, 9)}, {}, 5});
  obey(it, {2, 8, {}, {}, {record(1, run_of("a"), {}, 4)}, {}, 5});
  CHECK(it == allegiance{5, 3, epoch{9}});
}

TEST_CASE("a number that is taken in the store is not given twice") {
  cluster_world world;
  world.meddle(group_id{1}, run_of("x"));
  world.node("a");
  world.pass(40ms);
  CHECK(world.group(1).owner == run_of("x"));
  CHECK(world.owned_by(run_of("a")) == std::vector{group_id{2}});
  world.check_settled();
}

TEST_CASE("two nodes lost at once leave the groups to the third") {
  SECTION("by silence") {
    cluster_world world = three_nodes();
    world.statuses["b"] = {{group_id{1}, epoch{1}, false, 1, 900, 0}};  // b would be the first choice
    world.pass(40ms);
    world.beating.erase("a");
    world.beating.erase("b");
    world.pass(200ms);
    CHECK(world.group(1).owner == run_of("c"));  // it was in sync: no gateway is needed
    CHECK(world.group(2).owner == nobody);
    world.check_settled();
  }
  SECTION("by their connections, before anything is written") {
    cluster_world world = three_nodes();
    world.gateway();
    world.held_back = true;
    world.lost(run_of("a"));
    world.lost(run_of("b"));
    world.release();
    for (std::uint64_t id = 1; id <= 3; ++id)
      CHECK(world.group(id).owner == run_of("c"));
    for (const auto& [id, it] : world.store)
      CHECK(it.in_sync.empty());
    world.check_settled();
  }
}

TEST_CASE("an in-sync set changes only for its owner, under its epoch and revision") {
  cluster_world world;
  world.node("a");
  world.node("b");
  world.node("c");
  const group_id group{1};
  const group_record before = world.group(1);
  const auto refused = [&](auto change) {
    in_sync_change it = world.asks(group, run_of("b"), true);
    change(it);
    const int swaps = world.swaps;
    const in_sync_reply reply = world.change(it);
    CHECK_FALSE(reply.changed);
    CHECK(world.swaps == swaps);
    CHECK(world.group(1) == before);
    return reply;
  };
  CHECK(refused([](in_sync_change& it) { it.epoch = epoch{raw(it.epoch) - 1}; }).record == before);
  refused([](in_sync_change& it) { it.epoch = epoch{raw(it.epoch) + 1}; });
  refused([](in_sync_change& it) { ++it.revision; });
  refused([](in_sync_change& it) { it.owner = run_of("c"); });
  refused([](in_sync_change& it) { it.owner = run_of("a", 2); });
  refused([](in_sync_change& it) { it.standby = run_of("b", 2); });
  refused([](in_sync_change& it) { it.standby = run_of("x"); });
  refused([](in_sync_change& it) { it.standby = run_of("a"); });  // itself
  CHECK(refused([](in_sync_change& it) { it.group = group_id{99}; }).record == group_record{});

  in_sync_reply reply = world.change(world.asks(group, run_of("b"), true));
  CHECK(reply.changed);
  CHECK(reply.record == world.group(1));
  CHECK(reply.record.in_sync == names{run_of("b")});
  CHECK(reply.record.epoch == before.epoch);
  CHECK(reply.record.revision > before.revision);
  const int swaps = world.swaps;
  reply = world.change(world.asks(group, run_of("b"), true));  // said twice
  CHECK(reply.changed);
  CHECK(world.swaps == swaps);
  // A removal is asked for when somebody is slow: it need not know the latest revision.
  in_sync_change remove = world.asks(group, run_of("b"), false);
  remove.revision = before.revision;
  CHECK(world.change(remove).changed);
  CHECK(world.group(1).in_sync.empty());
  CHECK(world.change(remove).changed);  // said twice
}

TEST_CASE("a dead standby does not join, and leaves") {
  cluster_world world = three_nodes();
  world.lost(run_of("b"));
  CHECK(world.group(1).in_sync == names{run_of("c")});
  CHECK_FALSE(world.change(world.asks(group_id{1}, run_of("b"), true)).changed);
}

TEST_CASE("one change of a group at a time") {
  cluster_world world;
  world.node("a");
  world.node("b");
  world.node("c");
  world.held_back = true;
  const in_sync_change first = world.asks(group_id{1}, run_of("b"), true);
  world.run(world.table->on_change(100, first, world.now));
  CHECK(world.waiting.size() == 1);
  in_sync_change second = first;
  second.standby = run_of("c");
  CHECK_FALSE(world.change(second).changed);
  world.tick();
  CHECK(world.waiting.size() == 1);
  world.release();
  CHECK(world.replies.at(100).changed);
  CHECK(world.group(1).in_sync == names{run_of("b")});
  // A change that loses is answered with what is there.
  world.held_back = true;
  world.run(world.table->on_change(101, world.asks(group_id{1}, run_of("c"), true), world.now));
  world.meddle(group_id{1}, run_of("c"));
  world.release();
  CHECK_FALSE(world.replies.at(101).changed);
  CHECK(world.replies.at(101).record.owner == run_of("c"));
}

TEST_CASE("a change that was under way when its owner died is followed by the failover") {
  cluster_world world = three_nodes();
  world.held_back = true;
  world.run(world.table->on_change(100, world.asks(group_id{1}, run_of("b"), false), world.now));
  world.lost(run_of("a"));
  world.release();
  CHECK(world.group(1).owner == run_of("c"));  // b had left
  world.check_settled();
}

TEST_CASE("a change whose outcome is not known is not answered until the store can be read again") {
  cluster_world world = three_nodes();
  const group_record before = world.group(1);
  world.store_down = true;
  const auto wanted = world.asks(group_id{1}, run_of("b"), false);
  world.change_unanswered(wanted);
  world.change_unanswered(wanted);
  world.store_down = false;
  world.pass(limits::heartbeat * 4);  // a write of the record as it was known shows that it still is so
  const in_sync_reply reply = world.change(world.asks(group_id{1}, run_of("b"), false));
  CHECK(reply.changed);
  CHECK(reply.record.revision > before.revision);
}

TEST_CASE("a busy engine without progress is dead, an idle or slow one is not") {
  cluster_world world = three_nodes();
  world.beating.erase("a");
  heartbeat it;
  it.node = run_of("a");
  const auto run_for = [&](std::chrono::milliseconds span, bool busy, bool progress) {
    for (const auto end = world.now + span; world.now < end;) {
      world.pass(limits::heartbeat * 4);
      it.busy = busy;
      it.progress += progress ? 1 : 0;
      it.view_version = world.table->view().version;
      world.beat(it);
    }
  };
  run_for(40s, false, false);
  CHECK(world.alive("a"));
  run_for(40s, true, true);
  CHECK(world.alive("a"));
  run_for(29s, true, false);
  CHECK(world.alive("a"));
  run_for(2s, true, false);
  CHECK_FALSE(world.alive("a"));
  CHECK(world.group(1).owner != run_of("a"));
  CHECK(world.table->failovers().at(0).cause == "engine stalled");
  run_for(5s, true, false);  // it still beats: that is no life
  CHECK_FALSE(world.alive("a"));
  run_for(100ms, true, true);
  CHECK(world.alive("a"));
}

TEST_CASE("events for people are bounded") {
  cluster_world world;
  world.gateway();
  world.node("a", 1);
  for (std::uint64_t run = 2; run < 600; ++run)
    world.node("a", run);
  CHECK(world.table->failovers().size() == 256);
  CHECK(world.store.size() == 1);  // and restarts do not pile up groups
  CHECK(world.alive("a"));
}

TEST_CASE("epochs never fall and every group finds a living owner, whatever happens") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    dice draw{seed};
    cluster_world world;
    world.gateway();
    std::map<std::string, std::uint64_t> run;
    const std::vector<std::string> everybody{"a", "b", "c", "d"};
    std::map<group_id, epoch> epochs;
    const auto check_epochs = [&] {
      for (const auto& [id, it] : world.store) {
        CHECK(it.epoch >= epochs[id]);
        epochs[id] = it.epoch;
      }
    };
    for (int step = 0; step < 80; ++step) {
      const std::string& name = everybody[draw.below(4)];
      switch (draw.below(7)) {
        case 0:
          world.node(name, ++run[name]);
          break;
        case 1:
          world.node(name, run[name]);
          break;
        case 2:
          world.lost(run_of(name, run[name]));
          break;
        case 3:
          world.beating.erase(name);
          break;
        case 4:
          world.store_down = draw.chance(30);
          world.store_lies = draw.chance(30);
          break;
        case 5:
          if (draw.chance(50))
            world.held_back = true;
          else
            world.release();
          break;
        default:
          if (!world.store.empty()) {
            auto it =
                std::next(world.store.begin(), draw.below(static_cast<std::uint32_t>(world.store.size())));
            world.run(world.table->on_change(
                1, world.asks(it->first, run_of(name, run[name]), draw.chance(70)), world.now));
          }
      }
      world.pass(20ms * draw.below(12));
      check_epochs();
    }
    world.store_down = world.store_lies = false;
    world.release();
    for (const std::string& name : everybody)
      if (world.alive(name) && world.beating.contains(name))
        continue;
      else
        world.node(name, ++run[name]);
    world.pass(limits::lease);
    check_epochs();
    world.check_settled();
    for (const auto& [id, it] : world.store) {
      CHECK(world.alive(it.owner.name));
      CHECK(it.owner == world.beating.at(it.owner.name));
      for (const process_id& member : it.in_sync)
        CHECK(member == world.beating.at(member.name));
    }
    world.pass(5s);  // with groups enough, none is made for a node while one may still be moved to it
    for (const auto& [name, who] : world.beating)
      CHECK_FALSE(world.owned_by(who).empty());
  }
}
