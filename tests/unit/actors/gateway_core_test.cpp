#include "actors/gateway_core.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tests/unit/actors/gateway_bench.hpp"

namespace baton::test {

TEST_CASE("gateway_core: a turn is opened, its tokens are released, it ends") {
  gateway_bench it;
  CHECK_FALSE(it.core.ready());
  it.join();
  CHECK(it.core.ready());
  CHECK(it.submit("hi") == "ask a 0+2");
  CHECK(it.accept().empty());
  it.generate("the");
  CHECK(it.hear(it.from_owner(2)).empty());
  CHECK(it.shown == "[started]the");
  it.generate("re");
  REQUIRE(it.owner.append(std::vector<token_id>{actors::engines::toy::turn_end}).ok());
  turn_tokens last = it.from_owner(5);
  last.last = true;
  CHECK(it.hear(last).empty());  // the owner knows that it has ended
  CHECK(it.shown == "[started]there[stop]");
  CHECK(it.core.open_turns() == 0);
  CHECK(it.core.sessions() == 1);
  CHECK(it.released() == 8);
  CHECK(it.core.counted().finished == 1);
  CHECK(it.core.counted().tokens == 6);
  // The next turn of the session sends what is new.
  CHECK(it.submit("hithere, and") == "ask a 7+5");
}

TEST_CASE("gateway_core: requests that no turn comes of") {
  gateway_bench it;
  SECTION("no node") {
    CHECK(it.submit("hi").empty());
    CHECK(it.shown == "[unavailable]");
  }
  SECTION("longer than the context") {
    it.join();
    CHECK(it.submit(std::string(100, 'x')).empty());
    CHECK(it.shown == "[context_full]");
  }
  SECTION("more messages than the context has tokens") {
    it.join();
    actors::completion_request request;
    request.messages.assign(100, {"user", ""});
    const auto see = [&](const actors::turn_event& event) { it.see(event); };
    CHECK(it.core.on_submit(actors::turn_handle{1}, request, see, it.now).empty());
    CHECK(it.shown == "[context_full]");
  }
  SECTION("a turn is open") {
    it.begin();
    CHECK(it.submit("hello", actors::turn_handle{2}).empty());
    CHECK(it.shown == "[started][conflict]");
  }
  CHECK(it.core.counted().refused == 1);
}

TEST_CASE("gateway_core: what owners send is judged") {
  gateway_bench it;
  it.begin();
  it.generate("abc");
  REQUIRE(it.hear(it.from_owner(2)).empty());
  SECTION("a duplicate is dropped") {
    CHECK(it.hear(it.from_owner(3)).empty());
    CHECK(it.core.counted().duplicates == 1);
  }
  SECTION("a replaced owner is not heard") {
    it.generate("d");
    CHECK(it.hear(it.from_owner(5, epoch{4})).empty());
    CHECK(it.core.counted().stale == 1);
  }
  SECTION("after a gap the turn is opened again, from what was released") {
    it.generate("de");
    CHECK(it.hear(it.from_owner(6)).empty());
    CHECK(it.tick(49ms).empty());
    CHECK(it.tick(1ms) == "ask a 0+5");
  }
  SECTION("another history ends the turn") {
    it.generate("d");
    turn_tokens other = it.from_owner(5);
    other.chain_before ^= 1;
    CHECK(it.hear(other) == "diverged; failed fork; tell a keep 5");
    CHECK(it.shown == "[started]abc[fork]");
    CHECK(it.core.open_turns() == 0);
    CHECK(it.core.counted().diverged == 1);
    return;
  }
  CHECK(it.shown == "[started]abc");
  CHECK(it.released() == 5);
}

TEST_CASE("gateway_core: a new owner seals the gateway while a turn is open") {
  gateway_bench it;
  it.begin();
  it.generate("abc");
  REQUIRE(it.hear(it.from_owner(2)).empty());
  const seal order{group, epoch{6}, node_b, {{it.owner.session(), {4, it.owner.chain_at(4)}}}};
  const seal_reply reply = it.core.on_seal(order, it.now);
  CHECK(reply.sealed);
  CHECK(reply.highest == epoch{6});
  REQUIRE(reply.turns.size() == 1);
  CHECK(reply.turns[0].epoch == epoch{6});
  CHECK(reply.turns[0].history.first == 4);  // what the new owner lacks
  CHECK(reply.turns[0].history.tokens.size() == 1);
  CHECK(it.core.sealed(group) == epoch{6});
  CHECK(it.core.view().groups[0].owner == node_b);  // no view has said so yet

  it.generate("d");
  CHECK(it.hear(it.from_owner(5, epoch{5})).empty());  // the old one
  CHECK(it.shown == "[started]abc");
  CHECK(it.tick(1000ms).empty());  // nobody needs to be asked
  CHECK(it.hear(it.from_owner(5, epoch{6})).empty());
  CHECK(it.shown == "[started]abcd");
  turn_tokens last = it.from_owner(6, epoch{6});
  last.last = true;
  it.hear(last);
  CHECK(it.finished.failovers == 1);

  const seal_reply late = it.core.on_seal({group, epoch{5}, node_a, {}}, it.now);
  CHECK_FALSE(late.sealed);
  CHECK(late.highest == epoch{6});
  CHECK(late.turns.empty());
}

TEST_CASE("gateway_core: a node that is alive and cannot be reached for a lease is reported") {
  gateway_bench it;
  it.begin();
  it.core.on_node_lost(node_a, it.now);
  CHECK(it.tick(100ms).empty());
  CHECK(it.core.unreachable().empty());
  CHECK(it.tick(1100ms) == "report");
  CHECK(it.core.unreachable() == std::vector{node_a});
  CHECK(it.tick(100ms).empty());  // said
  SECTION("until it is reached") {
    it.core.on_node_known(node_a);
    CHECK(it.tick(10ms).find("report") == 0);
    CHECK(it.core.unreachable().empty());
  }
  SECTION("or is not alive") {
    it.view.nodes[0].alive = false;
    it.move_to(node_b, epoch{6});
    CHECK(it.tick(10ms) == "report");
    CHECK(it.core.unreachable().empty());
  }
  SECTION("new sessions go elsewhere") {
    group_record other = it.view.groups[0];
    other.group = group_id{4};
    other.owner = node_b;
    it.view.groups.push_back(other);
    ++it.view.version;
    it.core.on_view(it.view, it.now);
    CHECK(it.submit("ho", actors::turn_handle{2}, "t") == "ask b 0+2");
  }
}

TEST_CASE("gateway_core: an owner that has sealed and brings no token is asked: its answer may be lost") {
  gateway_bench it;
  it.begin();
  it.move_to(node_b, epoch{6});
  REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  CHECK(it.tick(limits::request_timeout - 1ms).empty());
  CHECK(it.tick(1ms) == "ask b 0+2");
}

TEST_CASE("gateway_core: a turn that a new owner has no room for waits, like one that is refused") {
  gateway_bench it;
  it.begin();
  it.generate("abc");
  it.hear(it.from_owner(2));
  it.move_to(node_b, epoch{6});
  REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  CHECK(it.note(it.core.on_failure({group, epoch{6}, it.owner.session(), 1, errc::no_room, "full"}, it.now))
            .empty());
  CHECK(it.core.open_turns() == 1);
  CHECK(it.tick(2000ms).find("ask b") == 0);
  CHECK(it.accept().empty());
  CHECK(it.shown == "[started]abc");
}

TEST_CASE("gateway_core: each new owner has the time that a turn waits for one") {
  gateway_bench it;
  it.begin();
  for (const auto& [from, to, under] :
       {std::tuple{node_a, node_b, epoch{6}}, std::tuple{node_b, node_c, epoch{7}}}) {
    it.core.on_node_lost(from, it.now);
    it.move_to(to, under);  // alive: no poison
    CHECK(it.core.on_seal({group, under, to, {}}, it.now).turns.size() == 1);
    CHECK(it.tick(1900ms).find("failed") == std::string::npos);
  }
  CHECK(it.core.open_turns() == 1);
  CHECK(it.tick(3100ms).find("failed unavailable") != std::string::npos);
}

TEST_CASE("gateway_core: a turn waits for room, and is told so if there is none in time") {
  gateway_bench it;
  it.join();
  it.submit("hi");
  const auto refuse = [&] {
    open_turn_reply reply;
    reply.refusal = errc::no_room;
    reply.reason = "full";
    return it.note(it.core.on_open_reply(it.ticket, reply, it.now));
  };
  CHECK(refuse().empty());
  CHECK(it.tick(50ms) == "ask a 0+2");
  SECTION("there is room") {
    it.accept();
    CHECK(it.shown == "[started]");
  }
  SECTION("there is none") {
    refuse();
    CHECK(it.tick(10s).find("failed no_room") == 0);
    CHECK(it.shown == "[no_room]");
  }
}

TEST_CASE("gateway_core: a conversation begins where there is least to do") {
  gateway_bench it;
  group_record second = it.view.groups[0];
  second.group = group_id{4};
  second.owner = node_b;
  it.view.groups.push_back(second);
  for (node_view& node : it.view.nodes)
    node.capacity_sessions = 4;
  it.join();
  // Idle ones, of which a has more, count for little.
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const std::string name = "idle " + std::to_string(i);
    it.submit("hi", actors::turn_handle{i}, name.c_str());
    it.accept();
    if (i % 2 == 1) REQUIRE(it.note(it.core.on_cancel(actors::turn_handle{i}, it.now)).find("tell") == 0);
  }
  // a and b have one busy each by now, or b both: the next ones level that out.
  std::map<std::string, int> busy;
  for (std::uint64_t i = 5; i <= 8; ++i) {
    const std::string name = "new " + std::to_string(i);
    ++busy[it.submit("hi", actors::turn_handle{i}, name.c_str()).substr(4, 1)];
    it.accept();
  }
  CHECK(busy["a"] + busy["b"] == 4);
  CHECK(busy["a"] == 2);
  SECTION("and if there is no room after all, it begins elsewhere") {
    const std::string at = it.submit("hi", actors::turn_handle{9}, "late").substr(4, 1);
    open_turn_reply reply;
    reply.refusal = errc::no_room;
    CHECK(it.note(it.core.on_open_reply(it.ticket, reply, it.now)).empty());
    CHECK(it.tick(50ms) == (at == "a" ? "ask b 0+2" : "ask a 0+2"));
    CHECK(it.accept().empty());
    CHECK(it.core.find_session("late")->group == (at == "a" ? group_id{4} : group));
  }
}

TEST_CASE("gateway_core: it is ready while a node can be reached") {
  gateway_bench it;
  it.core.on_view(it.view, it.now);
  CHECK_FALSE(it.core.ready());
  it.join();
  CHECK(it.core.ready());
  for (const process_id& node : {node_a, node_b, node_c, node_d})
    it.core.on_node_lost(node, it.now);
  CHECK_FALSE(it.core.ready());  // whatever the last view says of them
}

TEST_CASE("gateway_core: of a turn that a seal has opened, the first tokens say what was cached") {
  gateway_bench it;
  it.join();
  it.submit("hi");  // never answered: the owner is gone
  it.core.on_seal({group, epoch{6}, node_b, {}}, it.now);
  it.generate("a");
  turn_tokens all = it.from_owner(2, epoch{6});
  all.cached_tokens = 2;
  all.last = true;
  it.hear(all);
  CHECK(it.shown == "[started]a[length]");
  CHECK(it.finished.cached_tokens == 2);
}

TEST_CASE("gateway_core: a turn whose owner is lost is asked for again on ticks") {
  gateway_bench it;
  it.begin();
  it.core.on_node_lost(node_a, it.now);
  CHECK(it.tick(50ms).empty());  // it has not taken our hello again
  it.core.on_node_known(node_a);
  CHECK(it.tick(50ms) == "ask a 0+2");
  CHECK(it.tick(50ms).empty());  // one question at a time
  CHECK(text(it.core.on_open_reply(it.ticket, error{errc::timed_out, ""}, it.now)).empty());
  CHECK(it.tick(0ms) == "ask a 0+2");
  CHECK(it.core.counted().reopened == 3);
}

TEST_CASE("gateway_core: an owner that cannot go on") {
  gateway_bench it;
  it.begin();
  turn_failure failure{group, epoch{5}, it.owner.session(), 1, errc::not_owner, ""};
  SECTION("because it is replaced: the turn waits for the next") {
    CHECK(text(it.core.on_failure(failure, it.now)).empty());
    CHECK(it.core.open_turns() == 1);
  }
  SECTION("because it lacks history: it gets all of it") {
    failure.code = errc::gap;
    CHECK(text(it.core.on_failure(failure, it.now)) == "ask a 0+2");
  }
  SECTION("at all: the turn fails") {
    failure.code = errc::engine_failed;
    CHECK(text(it.core.on_failure(failure, it.now)) == "failed engine_failed; tell a keep 2");
    CHECK(it.shown == "[started][engine_failed]");
  }
  SECTION("of another epoch or turn is not heard") {
    failure.code = errc::engine_failed;
    failure.epoch = epoch{4};
    CHECK(it.core.on_failure(failure, it.now).empty());
    failure.epoch = epoch{5};
    failure.turn = 2;
    CHECK(it.core.on_failure(failure, it.now).empty());
    CHECK(it.core.open_turns() == 1);
  }
}

TEST_CASE("gateway_core: a view moves the group") {
  gateway_bench it;
  it.join();
  REQUIRE(it.submit("hi") == "ask a 0+2");
  it.move_to(node_b, epoch{6});
  CHECK(it.accept().empty());  // of the replaced owner: too late
  CHECK(it.shown.empty());
  CHECK(it.tick(199ms).empty());  // the new owner may seal us
  CHECK(it.tick(1ms) == "ask b 0+2");
  CHECK(it.accept().empty());
  CHECK(it.shown == "[started]");

  cluster_view old = gateway_bench::first_view();
  it.core.on_view(old, it.now);
  CHECK(it.core.view().groups[0].owner == node_b);
  old.term = 0;
  old.version = 99;
  it.core.on_view(old, it.now);
  CHECK(it.core.view().term == 1);
  CHECK(it.core.sealed(group) == epoch{6});
}

TEST_CASE("gateway_core: after three leases without an owner a turn is unavailable") {
  gateway_bench it;
  it.begin();
  it.generate("abc");
  REQUIRE(it.hear(it.from_owner(2)).empty());
  it.core.on_node_lost(node_a, it.now);
  CHECK(it.tick(3000ms).empty());
  CHECK(it.tick(1ms) == "failed unavailable; tell a keep 5");
  CHECK(it.shown == "[started]abc[unavailable]");
  CHECK(it.core.open_turns() == 0);
  CHECK(it.core.counted().failed == 1);
}

TEST_CASE("gateway_core: a client that leaves") {
  gateway_bench it;
  it.begin();
  it.generate("abc");
  REQUIRE(it.hear(it.from_owner(2)).empty());
  CHECK(it.note(it.core.on_cancel(actors::turn_handle{2}, it.now)).empty());
  CHECK(it.note(it.core.on_cancel(actors::turn_handle{1}, it.now)) == "tell a keep 5");
  it.generate("d");
  CHECK(it.hear(it.from_owner(5)).empty());
  CHECK(it.shown == "[started]abc");
  CHECK(it.released() == 5);
  CHECK(it.core.counted().cancelled == 1);
  CHECK(it.core.open_turns() == 0);
}

TEST_CASE("gateway_core: a client that retries under its idempotency key has one turn") {
  gateway_bench it;
  it.join();
  actors::completion_request request;
  request.session = "s";
  request.prompt_text = "hi";
  request.idempotency_key = "k";
  request.request_hash = 7;
  const auto see = [&](const actors::turn_event& event) { it.see(event); };
  const auto forget = [](const actors::turn_event&) {};
  REQUIRE(it.note(it.core.on_submit(actors::turn_handle{1}, request, forget, it.now)) == "ask a 0+2");
  REQUIRE(it.accept().empty());
  it.generate("abc");
  REQUIRE(it.hear(it.from_owner(2)).empty());
  CHECK(it.note(it.core.on_cancel(actors::turn_handle{1}, it.now)).empty());  // it may come back
  it.generate("d");
  CHECK(it.hear(it.from_owner(5)).empty());
  CHECK(it.core.open_turns() == 1);
  SECTION("and is back in time") {
    CHECK(it.note(it.core.on_submit(actors::turn_handle{2}, request, see, it.now)).empty());
    it.generate("e");
    CHECK(it.hear(it.from_owner(6)).empty());
    CHECK(it.shown == "[started]abcde");
    CHECK(it.core.counted().turns == 1);
    CHECK(it.core.counted().attached == 1);
    request.request_hash = 8;
    CHECK(it.note(it.core.on_submit(actors::turn_handle{3}, request, see, it.now)).empty());
    CHECK(it.shown == "[started]abcde[conflict]");
  }
  SECTION("and stays away") {
    CHECK(it.tick(29s).empty());
    CHECK(it.tick(2s) == "tell a keep 6");
    CHECK(it.core.open_turns() == 0);
    CHECK(it.core.counted().cancelled == 1);
  }
}

}  // namespace baton::test
