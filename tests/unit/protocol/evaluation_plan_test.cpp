#include <catch2/catch.hpp>

#include <algorithm>

#include "actors/protocol/evaluation_plan.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {
namespace {

using actors::protocol::evaluation_plan;

struct batch {
  position first = 0;
  position last = 0;
  friend bool operator==(const batch&, const batch&) = default;
};

/// What a primary does that is given these turns one after the other: the tokens before a turn stand, its
/// prompt goes in chunks from the token before it, what it generates goes one by one, and the next turn takes
/// over where it begins.
std::vector<batch> naive(const std::vector<turn_header>& turns, std::uint32_t chunk, position end) {
  std::vector<batch> out;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const position begin = turns[i].base == 0 ? 0 : turns[i].base - 1;
    const bool last = i + 1 == turns.size();
    const position stop = last ? end : std::min(end, turns[i + 1].base == 0 ? 0 : turns[i + 1].base - 1);
    position at = begin;
    while (at < stop) {
      const position prompt_end = std::min(turns[i].prompt_end, stop);
      const position next = at < prompt_end ? std::min(at + chunk, prompt_end) : at + 1;
      out.push_back({at, next});
      at = next;
    }
  }
  return out;
}

std::vector<batch> planned(const evaluation_plan& plan, position end) {
  std::vector<batch> out;
  for (position at = 0; at < end;) {
    const std::uint32_t count = plan.batch_at(at, end);
    REQUIRE(count > 0);
    REQUIRE(count <= plan.prefill_chunk);
    out.push_back({at, at + count});
    at += count;
  }
  return out;
}

/// Turns whose bases lie anywhere after the one before, also inside its prompt.
std::vector<turn_header> random_turns(dice& random, position& end) {
  std::vector<turn_header> turns;
  position base = 0;
  const std::uint32_t count = 1 + random.below(5);
  for (std::uint32_t i = 0; i < count; ++i) {
    const position prompt = 1 + random.below(20);
    turns.push_back(turn(i + 1, base, base + prompt));
    base = random.chance(30) ? base + 1 + random.below(prompt) : base + prompt + random.below(10);
    base = std::max(base, turns.back().base + 1);
  }
  end = turns.back().prompt_end + random.below(10);
  return turns;
}

}  // namespace

TEST_CASE("evaluation_plan: batches tile the log as the reference does") {
  dice random{1};
  for (int i = 0; i < 20'000; ++i) {
    position end = 0;
    const auto turns = random_turns(random, end);
    const std::uint32_t chunk = 1 + random.below(12);
    const evaluation_plan plan{turns, chunk};
    REQUIRE(planned(plan, end) == naive(turns, chunk, end));
  }
}

TEST_CASE("evaluation_plan: a resume point is the last begin of a batch") {
  dice random{2};
  for (int i = 0; i < 5'000; ++i) {
    position end = 0;
    const auto turns = random_turns(random, end);
    const std::uint32_t chunk = 1 + random.below(12);
    const evaluation_plan plan{turns, chunk};
    const auto batches = naive(turns, chunk, end);
    for (position rows = 0; rows < end; ++rows) {
      position begin = 0;
      for (const batch& it : batches)
        if (it.first <= rows) begin = it.first;
      REQUIRE(plan.resume_point(rows) == begin);
    }
    REQUIRE(plan.resume_point(end) ==
            end);  // one past the whole log, which ends with a generated token or a prompt
  }
}

/// Rows before the first batch that is not the same in both.
position rows_in_common(const std::vector<batch>& a, const std::vector<batch>& b) {
  position same = 0;
  for (std::size_t k = 0; k < std::min(a.size(), b.size()) && a[k] == b[k]; ++k)
    same = a[k].last;
  return same;
}

TEST_CASE(
    "evaluation_plan: rows kept when a turn begins or goes were made in batches that stay as they were") {
  dice random{3};
  int short_prompts = 0;
  for (int i = 0; i < 20'000; ++i) {
    position end = 0;
    const auto turns = random_turns(random, end);
    const std::uint32_t chunk = 1 + random.below(12);
    if (turns.size() < 2) continue;
    const evaluation_plan plan{turns, chunk};
    const std::vector<turn_header> before(turns.begin(), turns.end() - 1);
    const position base = turns.back().base;
    // Either way, all of the earlier turn had been evaluated, or will be.
    const position far = std::max(before.back().prompt_end, base) + 5;
    const position same = rows_in_common(naive(before, chunk, far), naive(turns, chunk, end));
    const position begin = std::max<position>(base, 1) - 1;
    const position kept = evaluation_plan{before, chunk}.rows_kept_at_begin(base);
    REQUIRE(kept == std::min(same, begin));
    REQUIRE(plan.resume_point(kept) == kept);
    // And back: a cut takes the turn away again.
    for (position length = before.back().base + 1; length <= base; ++length)
      REQUIRE(plan.rows_kept_at_cut(length) == std::min(kept, length));
    REQUIRE(plan.rows_kept_at_cut(base + 1) == base + 1);
    short_prompts += base <= before.back().prompt_end;
  }
  CHECK(short_prompts > 1000);
}

TEST_CASE("evaluation_plan: rows kept by records") {
  const std::vector<turn_header> turns{turn(1, 0, 10), turn(2, 14, 20)};
  const evaluation_plan plan{turns, 4};
  constexpr position all = 0xffff'ffff;
  CHECK(plan.rows_kept_after(open_record{turn(3, 25, 30)}) == 24);
  CHECK(plan.rows_kept_after(open_record{turn(3, 19, 30)}) ==
        17);                                                  // cuts a prompt short, in the batch from 17
  CHECK(plan.rows_kept_after(open_record{turns[1]}) == all);  // said twice
  CHECK(plan.rows_kept_after(open_record{turns[0]}) == all);
  CHECK(plan.rows_kept_after(truncate_record{15, 0}) == 15);
  CHECK(plan.rows_kept_after(truncate_record{14, 0}) == 13);  // the row before a prompt is of its first batch
  CHECK(plan.rows_kept_after(truncate_record{11, 0}) == 11);
  CHECK(plan.rows_kept_after(truncate_record{0, 0}) == 0);
  CHECK(plan.rows_kept_after(tokens_record{20, 0, {1}}) == all);
  CHECK(plan.rows_kept_after(close_record{2}) == all);
  CHECK(plan.rows_kept_after(drop_record{}) == 0);
}

TEST_CASE("evaluation_plan: by hand") {
  // A prompt of 10, generated to 14, then a prompt to 20.
  const std::vector<turn_header> turns{turn(1, 0, 10), turn(2, 14, 20)};
  const evaluation_plan plan{turns, 4};
  CHECK(plan.batch_at(0, 22) == 4);
  CHECK(plan.batch_at(8, 22) == 2);
  CHECK(plan.batch_at(10, 22) == 1);
  CHECK(plan.batch_at(12, 22) == 1);
  CHECK(plan.batch_at(13, 22) == 4);  // from the last token before the turn
  CHECK(plan.batch_at(17, 22) == 3);
  CHECK(plan.batch_at(17, 18) == 1);
  CHECK(plan.batch_at(20, 22) == 1);
  CHECK(plan.resume_point(9) == 8);
  CHECK(plan.resume_point(13) == 13);
  CHECK(plan.resume_point(15) == 13);
  CHECK(plan.resume_point(21) == 21);
  CHECK(evaluation_plan{{}, 4}.batch_at(0, 3) == 1);
  CHECK(evaluation_plan{{}, 4}.resume_point(3) == 3);
  CHECK(evaluation_plan{{}, 4}.rows_kept_at_cut(0) == 0);
}

}  // namespace baton::test
