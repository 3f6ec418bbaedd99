#include "actors/gateway_core.hpp"
#include "tests/unit/actors/gateway_bench.hpp"

/// Requests that nodes die of (docs/protocol.md, "Herds and poison").
namespace baton::test {

TEST_CASE("gateway_core: a request that nodes die of is not run a third time") {
  gateway_bench it;
  it.begin();
  const session_id session = it.owner.session();
  it.lose(node_a, node_b, epoch{6});
  SECTION("not by a seal") {
    CHECK(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
    it.lose(node_b, node_c, epoch{7});
    CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.empty());
  }
  SECTION("not by a question") {
    CHECK(it.tick(200ms) == "ask b 0+2");
    CHECK(it.accept().empty());
    it.lose(node_b, node_c, epoch{7});
  }
  SECTION("not by a seal that comes before the view") {
    CHECK(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
    CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.empty());
    it.lose(node_b, node_c, epoch{7});
  }
  CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
  CHECK(it.shown == "[started][poisoned]");
  CHECK(it.core.counted().poisoned == 1);
  // Nor when the client asks again, in whatever session.
  CHECK(it.submit("hi", actors::turn_handle{2}, "t") == "failed poisoned; tell c keep 2");
  CHECK(it.submit("ho", actors::turn_handle{3}, "u") == "ask c 0+2");
  CHECK(it.owner.session() != session);
  it.tick(11min);
  CHECK(it.submit("hi", actors::turn_handle{4}, "v").find("ask c 0+2") != std::string::npos);
}

TEST_CASE("gateway_core: what looked like poison gets another chance, once, when all nodes are back") {
  gateway_bench it;
  it.begin();
  it.lose(node_a, node_b, epoch{6});
  CHECK(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  it.lose(node_b, node_c, epoch{7});
  CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
  it.revive(node_c, epoch{8});
  CHECK(it.submit("hi", actors::turn_handle{2}, "t") == "ask c 0+2");
  SECTION("if it gets on, it is no poison") {
    it.accept();
    it.generate("x");
    it.hear(it.from_owner(2, epoch{8}));
    CHECK(it.submit("hi", actors::turn_handle{3}, "u") == "ask c 0+2");
    CHECK(it.submit("hi", actors::turn_handle{4}, "v") == "ask c 0+2");
  }
  SECTION("if not, that was it") {
    it.lose(node_c, node_d, epoch{9});
    CHECK(it.tick(50ms) == "failed poisoned; tell d keep 2");
    it.revive(node_d, epoch{10});
    CHECK(it.submit("hi", actors::turn_handle{3}, "u") == "failed poisoned; tell d keep 2");
  }
}

TEST_CASE("gateway_core: a node may die of a request before it can say that it has taken it") {
  gateway_bench it;
  it.join();
  REQUIRE(it.submit("hi") == "ask a 0+2");
  it.lose(node_a, node_b, epoch{6});
  CHECK(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  it.lose(node_b, node_c, epoch{7});
  CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.empty());
  CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
}

TEST_CASE("gateway_core: what is no poison goes on") {
  gateway_bench it;
  it.begin();
  SECTION("each of them made a token") {
    for (const auto& [from, to, under] :
         {std::tuple{node_a, node_b, epoch{6}}, std::tuple{node_b, node_c, epoch{7}},
          std::tuple{node_c, node_d, epoch{8}}}) {
      it.generate("x");
      it.hear(it.from_owner(it.released(), it.core.sealed(group)));
      it.lose(from, to, under);
      CHECK(it.core.on_seal({group, under, to, {}}, it.now).turns.size() == 1);
    }
  }
  SECTION("they gave it up alive") {
    for (const auto& [to, under] :
         {std::pair{node_b, epoch{6}}, std::pair{node_c, epoch{7}}, std::pair{node_d, epoch{8}}}) {
      it.move_to(to, under);
      CHECK(it.core.on_seal({group, under, to, {}}, it.now).turns.size() == 1);
    }
  }
  CHECK(it.tick(50ms).empty());
  CHECK(it.core.counted().poisoned == 0);
  CHECK(it.core.open_turns() == 1);
}

TEST_CASE("gateway_core: others of the group get on before what may be poison") {
  gateway_bench it;
  it.begin();
  const session_id poison = it.owner.session();
  CHECK(it.submit("ho", actors::turn_handle{2}, "t") == "ask a 0+2");
  CHECK(it.accept().empty());
  const session_id other = it.owner.session();
  it.generate("x");
  it.hear(it.from_owner(2));
  it.lose(node_a, node_b, epoch{6});
  const seal_reply reply = it.core.on_seal({group, epoch{6}, node_b, {}}, it.now);
  REQUIRE(reply.turns.size() == 1);
  CHECK(reply.turns[0].history.session == other);
  CHECK(it.tick(199ms).empty());
  CHECK(it.tick(1ms) == "ask b 0+2");
  CHECK(it.owner.session() == poison);
}

TEST_CASE("gateway_core: who gets on with a prompt does not die of where another one did") {
  gateway_bench it;
  it.begin();
  it.hear(it.sign(64, epoch{5}));
  it.lose(node_a, node_b, epoch{6});
  REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  SECTION("further") {
    it.hear(it.sign(128, epoch{6}));
    it.lose(node_b, node_c, epoch{7});
    CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.size() == 1);
    CHECK(it.tick(50ms).empty());
    SECTION("until somebody dies there, too") {
      it.lose(node_c, node_d, epoch{8});
      CHECK(it.core.on_seal({group, epoch{8}, node_d, {}}, it.now).turns.empty());
      CHECK(it.tick(50ms) == "failed poisoned; tell d keep 2");
    }
  }
  SECTION("no further") {
    it.hear(it.sign(64, epoch{6}));
    it.hear(it.sign(128, epoch{5}));  // late, of the first
    it.lose(node_b, node_c, epoch{7});
    CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.empty());
    CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
  }
  CHECK(it.shown.starts_with("[started]"));
}

TEST_CASE("gateway_core: of several that may be poison one is run at a time") {
  gateway_bench it;
  it.begin();
  CHECK(it.submit("ho", actors::turn_handle{2}, "t") == "ask a 0+2");
  CHECK(it.accept().empty());
  it.lose(node_a, node_b, epoch{6});
  const seal_reply reply = it.core.on_seal({group, epoch{6}, node_b, {}}, it.now);
  REQUIRE(reply.turns.size() == 1);
  const session_id first = reply.turns[0].history.session;
  CHECK(it.tick(300ms).empty());
  SECTION("the next once it has got on") {
    it.adopt(reply.turns[0]);
    it.generate("x");
    it.hear(it.from_owner(2, epoch{6}));
    CHECK(it.tick(50ms) == "ask b 0+2");
    CHECK(it.owner.session() != first);
  }
  SECTION("if the node dies, it was of that one") {
    it.lose(node_b, node_c, epoch{7});
    const seal_reply after = it.core.on_seal({group, epoch{7}, node_c, {}}, it.now);
    REQUIRE(after.turns.size() == 1);
    CHECK(after.turns[0].history.session != first);
    CHECK(it.tick(50ms).find("failed poisoned") == 0);
    CHECK(it.core.open_turns() == 1);
  }
}

TEST_CASE("gateway_core: an orchestrator that has just begun knows no node, which says nothing of them") {
  gateway_bench it;
  it.join();
  auto nodes = std::exchange(it.view.nodes, {});
  ++it.view.term;
  it.core.on_view(it.view, it.now);
  CHECK(it.submit("hi") == "ask a 0+2");
  for (node_view& node : nodes)
    node.alive = false;
  it.view.nodes = nodes;  // it has had them, and lost them
  ++it.view.version;
  it.core.on_view(it.view, it.now);
  CHECK(it.submit("ho", actors::turn_handle{2}, "t").empty());
  CHECK(it.shown == "[unavailable]");
}

TEST_CASE("gateway_core: who is suspected in error has not died of anything") {
  gateway_bench it;
  it.begin();
  it.lose(node_a, node_b, epoch{6});
  REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  it.suspect(node_b, node_c, epoch{7});
  CHECK(it.core.on_seal({group, epoch{7}, node_c, {}}, it.now).turns.empty());
  SECTION("the connection stands: it goes on elsewhere after a moment") {
    CHECK(it.tick(200ms) == "ask c 0+2");
    CHECK(it.core.counted().poisoned == 0);
  }
  SECTION("it ends as well") {
    it.core.on_node_lost(node_b, it.now);
    CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
  }
}

TEST_CASE("gateway_core: who has had a turn for as long as an engine may stall has died of it") {
  gateway_bench it;
  it.begin();
  it.lose(node_a, node_b, epoch{6});
  REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
  it.now += limits::engine_stalled_after;
  it.suspect(node_b, node_c, epoch{7});
  CHECK(it.tick(50ms) == "failed poisoned; tell c keep 2");
}

TEST_CASE("gateway_core: second chances are given one at a time, and only a token clears") {
  gateway_bench it;
  it.begin();
  CHECK(it.submit("ho", actors::turn_handle{2}, "t") == "ask a 0+2");
  it.lose(node_a, node_b, epoch{6});
  const auto to_b = it.core.on_seal({group, epoch{6}, node_b, {}}, it.now);
  REQUIRE(to_b.turns.size() == 1);
  it.lose(node_b, node_c, epoch{7});  // of the one that it had
  const auto to_c = it.core.on_seal({group, epoch{7}, node_c, {}}, it.now);
  REQUIRE(to_c.turns.size() == 1);
  CHECK(it.tick(50ms).find("failed poisoned") == 0);
  it.lose(node_c, node_d, epoch{8});
  CHECK(it.tick(50ms).find("failed poisoned") == 0);
  CHECK(it.core.open_turns() == 0);

  it.revive(node_d, epoch{9});
  CHECK(it.submit("hi", actors::turn_handle{3}, "u") == "ask d 0+2");
  it.accept();
  CHECK(it.submit("ho", actors::turn_handle{4}, "v").empty());
  CHECK(it.tick(50ms).empty());
  it.hear(it.sign(64, epoch{9}));
  it.lose(node_d, node_a, epoch{10});
  CHECK(it.tick(50ms).find("failed poisoned") == 0);  // it did not take another node
  CHECK(it.core.open_turns() == 1);                   // nor is that the other one's
  CHECK(it.submit("hi", actors::turn_handle{5}, "w").find("failed poisoned") == 0);
}

}  // namespace baton::test
