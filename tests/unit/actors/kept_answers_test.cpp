#include "actors/kept_answers.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "tests/unit/actors/gateway_bench.hpp"

namespace baton::test {

using actors::kept_answers;
using actors::turn_handle;

namespace {

/// A client: what it has been told, in order.
struct reader {
  std::string said;
  std::size_t events = 0;
  actors::completion_service::receiver hears() {
    return [this](const actors::turn_event& event) {
      ++events;
      if (std::holds_alternative<actors::turn_started>(event))
        said += "[started]";
      else if (const auto* text = std::get_if<actors::turn_text>(&event))
        said += text->text;
      else if (std::holds_alternative<actors::turn_finished>(event))
        said += "[end]";
      else
        said += "[failed]";
    };
  }
};

actors::turn_text words(const std::string& text, position last) {
  actors::turn_text out;
  out.text = text;
  out.last = last;
  return out;
}

constexpr turn_handle first{1}, second{2}, third{3};

}  // namespace

TEST_CASE("kept_answers: a request that is sent again gets what there is, and the rest as it comes") {
  kept_answers answers{{}};
  kept_answers::time_point now{1h};
  reader a, b, c;
  REQUIRE(answers.ask("k", 7, first, a.hears(), now) == kept_answers::verdict::fresh);
  const auto turn = answers.recorder("k");
  turn(actors::turn_started{});
  turn(words("one ", 4));
  turn(words("two ", 5));
  REQUIRE(answers.ask("k", 7, second, b.hears(), now) == kept_answers::verdict::attached);
  CHECK(b.said == "[started]one two ");
  CHECK(b.events == 2);  // of a long answer it is not told word for word
  turn(words("three", 6));
  CHECK(answers.leave(first, now));
  turn(words(".", 7));
  turn(actors::turn_finished{});
  CHECK(a.said == "[started]one two three");
  CHECK(b.said == "[started]one two three.[end]");
  CHECK_FALSE(answers.leave(second, now));
  REQUIRE(answers.ask("k", 7, third, c.hears(), now) == kept_answers::verdict::attached);
  CHECK(c.said == b.said);
  CHECK(answers.on_tick(now + 1h).empty());
  CHECK(answers.size() == 0);
  CHECK(answers.bytes() == 0);
}

TEST_CASE("kept_answers: another request under a known key is refused, also when that one has ended") {
  kept_answers answers{{}};
  const kept_answers::time_point now{1h};
  reader a, b;
  REQUIRE(answers.ask("k", 7, first, a.hears(), now) == kept_answers::verdict::fresh);
  CHECK(answers.ask("k", 8, second, b.hears(), now) == kept_answers::verdict::conflict);
  answers.recorder("k")(actors::turn_finished{});
  CHECK(answers.ask("k", 8, second, b.hears(), now) == kept_answers::verdict::conflict);
  CHECK(b.said.empty());
  CHECK(answers.ask("l", 8, second, b.hears(), now) == kept_answers::verdict::fresh);
}

TEST_CASE("kept_answers: what failed is run again when it is asked for again") {
  kept_answers answers{{}};
  const kept_answers::time_point now{1h};
  reader a, b;
  REQUIRE(answers.ask("k", 7, first, a.hears(), now) == kept_answers::verdict::fresh);
  answers.recorder("k")(actors::turn_failed{});
  CHECK(a.said == "[failed]");
  CHECK(answers.ask("k", 7, second, b.hears(), now) == kept_answers::verdict::fresh);
  CHECK(b.said.empty());
}

TEST_CASE("kept_answers: a turn goes on without readers, for so long") {
  kept_answers answers{{}};
  kept_answers::time_point now{1h};
  reader a, b;
  REQUIRE(answers.ask("k", 7, first, a.hears(), now) == kept_answers::verdict::fresh);
  const auto turn = answers.recorder("k");
  REQUIRE(answers.leave(first, now));
  turn(words("on", 3));
  CHECK(answers.on_tick(now + 29s).empty());
  SECTION("somebody comes back") {
    REQUIRE(answers.ask("k", 7, second, b.hears(), now + 29s) == kept_answers::verdict::attached);
    CHECK(answers.on_tick(now + 99s).empty());
    CHECK(b.said == "on");
    CHECK(a.said.empty());
  }
  SECTION("nobody does") {
    CHECK(answers.on_tick(now + 31s) == std::vector{first});
    CHECK(answers.ask("k", 7, second, b.hears(), now + 31s) == kept_answers::verdict::fresh);
  }
  SECTION("it ends meanwhile") {
    turn(actors::turn_finished{});
    CHECK(answers.on_tick(now + 99s).empty());
    REQUIRE(answers.ask("k", 7, second, b.hears(), now + 99s) == kept_answers::verdict::attached);
    CHECK(b.said == "on[end]");
  }
}

TEST_CASE("kept_answers: the oldest make room") {
  kept_answers answers{{30s, 600s, 4000}};
  const kept_answers::time_point now{1h};
  for (std::uint64_t i = 1; i <= 4; ++i) {
    reader a;
    const std::string key = std::to_string(i);
    REQUIRE(answers.ask(key, 7, turn_handle{i}, a.hears(), now) == kept_answers::verdict::fresh);
    answers.recorder(key)(words(std::string(1200, 'x'), 3));
    answers.recorder(key)(actors::turn_finished{});
  }
  CHECK(answers.on_tick(now).empty());
  CHECK(answers.bytes() <= 4000);
  REQUIRE(answers.size() == 2);
  reader a;
  CHECK(answers.ask("2", 7, turn_handle{9}, a.hears(), now) == kept_answers::verdict::fresh);
  CHECK(answers.ask("4", 7, turn_handle{10}, a.hears(), now) == kept_answers::verdict::attached);
}

}  // namespace baton::test
