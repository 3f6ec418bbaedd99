#include "actors/engine_loop.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "actors/engines/toy_engine.hpp"

namespace baton::test {

namespace {

/// A toy engine behind its loop, with chunks of 4, and a note of what came out: "a5" is a token of session a
/// at position 5, "a." its last, "a|" its pause, "a[2,4)" rows.
struct loop_bench {
  actors::engines::toy_engine engine;
  std::string said;
  actors::engine_loop loop{engine, outlets()};

  static actors::engines::toy_engine::options small(std::uint32_t max_batch, token_id fault) {
    actors::engines::toy_engine::options how;
    how.prefill_chunk = 4;
    how.max_batch = max_batch;
    how.context_tokens = 256;
    how.fault = fault;
    return how;
  }
  explicit loop_bench(std::uint32_t max_batch = 1, token_id fault = -1) : engine(small(max_batch, fault)) {}

  static char name(session_id session) { return static_cast<char>('a' + raw(session) - 1); }
  void note(session_id session, const std::string& what) {
    if (!said.empty()) said += ' ';
    said += name(session) + what;
  }

  actors::engine_loop::outlets outlets() {
    return {[this](const actors::protocol::engine_step& step) {
              if (step.has_token) note(step.session, std::to_string(step.at));
              if (step.finished) note(step.session, ".");
              if (step.paused) note(step.session, "|" + std::to_string(step.rows));
            },
            [this](const actors::engine_failed& failure) { note(failure.session, "!"); },
            [](const actors::import_done&) {},
            [this](const actors::exported_rows& rows) {
              note(rows.session, "[" + std::to_string(rows.first) + "," +
                                     std::to_string(rows.first + rows.image->count) + ")");
            },
            [this](const error&) { said += "broken"; }};
  }

  /// A turn with a prompt of `prompt` tokens; the run has the session's number.
  void run(std::uint64_t session, position prompt, std::uint32_t max_tokens) {
    actors::protocol::run_engine order;
    order.session = session_id{session};
    order.run = session;
    order.tokens.assign(prompt, 65);
    turn_header turn;
    turn.number = 1;
    turn.prompt_end = prompt;
    turn.parameters.max_tokens = max_tokens;
    order.turns = {turn};
    order.allowed = 1000;
    loop.run(order);
  }

  /// What comes of up to `steps` evaluations.
  std::string step(int steps) {
    said.clear();
    while (steps-- > 0 && loop.step()) {
    }
    return said;
  }
};

}  // namespace

TEST_CASE("engine_loop: a prompt, tokens, the end") {
  loop_bench it;
  it.run(1, 6, 3);
  CHECK(it.step(1).empty());
  CHECK(it.step(100) == "a6 a7 a8 a.");
  CHECK_FALSE(it.loop.has_work());
  CHECK(it.engine.length(session_id{1}) == 8);
}

TEST_CASE("engine_loop: rows go out every so many tokens, and all at the end") {
  loop_bench it;
  it.loop.set_policy({true, 2});
  it.run(1, 6, 4);
  CHECK(it.step(2) == "a[0,4) a6 a[4,6)");
  CHECK(it.step(100) == "a7 a8 a[6,8) a9 a. a[8,9)");
}

TEST_CASE("engine_loop: a pause is at the boundary of a step, with all rows out") {
  loop_bench it;
  it.loop.set_policy({true, 100});
  it.run(1, 3, 20);
  CHECK(it.step(3) == "a3 a[0,3) a4 a5");
  it.said.clear();
  it.loop.pause(session_id{1}, 7);  // another run's
  CHECK(it.said.empty());
  it.loop.pause(session_id{1}, 1);
  CHECK(it.said == "a[3,5) a|5");
  CHECK_FALSE(it.loop.has_work());
  it.said.clear();
  it.loop.pause(session_id{1}, 1);  // it has ended
  CHECK(it.said.empty());
}

TEST_CASE("engine_loop: a pause in the middle of a prompt keeps what has been evaluated") {
  loop_bench it;
  it.loop.set_policy({true, 1});
  it.run(1, 10, 20);
  CHECK(it.step(1) == "a[0,4)");
  it.said.clear();
  it.loop.pause(session_id{1}, 1);
  CHECK(it.said == "a|4");
}

TEST_CASE("engine_loop: who generates waits for two that catch up, however many do (case 81)") {
  const auto catching_up = static_cast<std::uint64_t>(GENERATE(2, 8, 40));
  loop_bench it;
  it.run(1, 1, 100);
  CHECK(it.step(1) == "a1");
  for (std::uint64_t session = 2; session < 2 + catching_up; ++session)
    it.run(session, session == 2 ? 200 : 100, 1);
  const std::string said = it.step(60);
  CHECK(std::count(said.begin(), said.end(), 'a') == 20);  // every third
}

TEST_CASE("engine_loop: of those that catch up, the first and the shortest go on") {
  loop_bench it;
  it.run(1, 40, 1);  // ten batches
  it.run(2, 40, 1);
  it.run(3, 8, 1);  // two
  it.run(4, 4, 1);  // one
  CHECK(it.step(2) == "d4 d.");
  CHECK(it.step(4) == "c8 c.");
  CHECK(it.step(100) == "a40 a. b40 b.");
}

TEST_CASE("engine_loop: who came first and has least to do as well does not keep the other place") {
  loop_bench it;
  it.run(1, 40, 1);
  it.run(2, 80, 1);  // taken over, say
  it.step(10);
  CHECK(it.engine.length(session_id{1}) == 20);
  CHECK(it.engine.length(session_id{2}) == 20);
}

TEST_CASE("engine_loop: where sessions share batches, at most two of a batch catch up") {
  loop_bench it(8);
  it.run(1, 1, 100);
  CHECK(it.step(1) == "a1");
  for (std::uint64_t session = 2; session < 10; ++session)
    it.run(session, session == 2 ? 50 : 40, 1);
  const auto before = it.engine.counters().evaluated_tokens;
  CHECK(it.step(1) == "a2");
  CHECK(it.engine.counters().evaluated_tokens - before == 1 + 2 * 4);
}

TEST_CASE("engine_loop: an engine that has failed is not asked again") {
  loop_bench it(1, 65);  // the token of all prompts
  it.run(1, 2, 20);
  it.run(2, 1, 20);
  CHECK(it.step(5) == "broken");
  CHECK_FALSE(it.loop.has_work());
  it.loop.pause(session_id{2}, 2);
  it.run(3, 4, 20);
  CHECK(it.step(5).empty());
  CHECK_FALSE(it.engine.holds(session_id{3}));
}

TEST_CASE("engine_loop: a stopped run says nothing more, a failed one says why") {
  loop_bench it;
  it.run(1, 2, 20);
  CHECK(it.step(1) == "a2");
  it.loop.stop(session_id{1}, 1);
  CHECK(it.step(5).empty());
  it.run(1, 300, 1);  // longer than the context
  CHECK(it.step(500) == "a!");
  CHECK_FALSE(it.loop.has_work());
}

}  // namespace baton::test
