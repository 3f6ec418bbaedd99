#pragma once

#include <catch2/catch.hpp>

#include "tests/unit/engines/fixtures.hpp"

/// What every engine promises, whatever it runs. Each function takes an engine without sessions, with room
/// for two or more and a context of 48 to 256 tokens, and leaves it without sessions.
namespace baton::actors::engines::testing {

inline constexpr session_id session_a{1};
inline constexpr session_id session_b{2};
inline constexpr session_id session_none{99};

inline void check_constants(engine& of) {
  CHECK(of.vocabulary_size() > 0);
  CHECK(of.context_tokens() > 0);
  CHECK(of.prefill_chunk() > 0);
  CHECK(of.max_batch() > 0);
  CHECK_FALSE(of.identity().fields.empty());
  CHECK(of.identity().difference(of.identity()) == std::nullopt);
  CHECK((of.layout().bytes_per_token() > 0) == of.can_export_rows());
}

inline void check_sessions(engine& of, std::uint32_t room) {
  for (std::uint32_t i = 0; i < room; ++i)
    REQUIRE(of.open(session_id{10 + i}).ok());
  CHECK(of.open(session_none).code() == errc::no_room);
  CHECK_FALSE(of.holds(session_none));
  of.close(session_none);
  of.close(session_id{10});
  CHECK_FALSE(of.holds(session_id{10}));
  CHECK(of.length(session_id{10}) == 0);
  REQUIRE(of.open(session_none).ok());
  CHECK(of.holds(session_none));
  CHECK(of.open(session_none).code() == errc::invalid_argument);
  of.close(session_none);
  for (std::uint32_t i = 1; i < room; ++i)
    of.close(session_id{10 + i});
}

/// Refused evaluations leave no trace: the logits that follow are those of a session that saw none of them.
inline void check_refusals(engine& of) {
  numbers random(1);
  const auto tokens = random_tokens(random, 12, of.vocabulary_size());
  const auto refuse = [&](session_id session, position first, std::span<const token_id> some, errc why) {
    const evaluation entry{.session = session, .first = first, .tokens = some};
    const auto done = of.evaluate({&entry, 1});
    REQUIRE_FALSE(done.ok());
    CHECK(done.code() == why);
  };
  const std::vector<token_id> too_many(of.prefill_chunk() + 1, 1);
  const token_id below = -1;
  const auto above = static_cast<token_id>(of.vocabulary_size());
  const auto disturb = [&](session_id session) {
    const position length = of.length(session);
    refuse(session, length + 1, std::span(tokens).first(1), errc::gap);
    refuse(session, length, {}, errc::invalid_argument);
    refuse(session, length, too_many, errc::invalid_argument);
    refuse(session, length, {&below, 1}, errc::invalid_argument);
    refuse(session, length, {&above, 1}, errc::invalid_argument);
    refuse(session_none, 0, std::span(tokens).first(1), errc::unknown_session);
    CHECK(of.evaluate({}).code() == errc::invalid_argument);
    const evaluation entry{.session = session, .first = length, .tokens = std::span(tokens).first(1)};
    const std::vector<evaluation> crowd(of.max_batch() + 1, entry);
    CHECK(of.evaluate(crowd).code() == errc::invalid_argument);
    if (of.max_batch() > 1) CHECK(of.evaluate(std::span(crowd).first(2)).code() == errc::invalid_argument);
    CHECK(of.length(session) == length);
  };
  REQUIRE(of.open(session_a).ok());
  disturb(session_a);
  REQUIRE(feed(of, session_a, std::span(tokens).first(8)).ok());
  disturb(session_a);
  if (of.length(session_a) > 0) refuse(session_a, 7, std::span(tokens).first(1), errc::gap);
  REQUIRE(feed(of, session_a, std::span(tokens).last(4), 1).ok());
  const auto disturbed = copy_of_logits(of);
  of.close(session_a);

  REQUIRE(of.open(session_b).ok());
  REQUIRE(feed(of, session_b, std::span(tokens).first(8)).ok());
  REQUIRE(feed(of, session_b, std::span(tokens).last(4), 1).ok());
  CHECK(copy_of_logits(of) == disturbed);
  of.close(session_b);
}

inline void check_context_end(engine& of) {
  numbers random(2);
  const auto tokens = random_tokens(random, of.context_tokens() + 1, of.vocabulary_size());
  REQUIRE(of.open(session_a).ok());
  REQUIRE(feed(of, session_a, std::span(tokens).first(of.context_tokens() - 1)).ok());
  const evaluation two{
      .session = session_a, .first = of.length(session_a), .tokens = std::span(tokens).last(2)};
  CHECK(of.evaluate({&two, 1}).code() == errc::context_full);
  CHECK(of.length(session_a) == of.context_tokens() - 1);
  CHECK(feed(of, session_a, std::span(tokens).last(1)).ok());
  CHECK(of.length(session_a) == of.context_tokens());
  CHECK(feed(of, session_a, std::span(tokens).last(1)).code() == errc::context_full);
  of.close(session_a);
}

inline void check_logits(engine& of) {
  numbers random(3);
  const auto tokens = random_tokens(random, 4, of.vocabulary_size());
  REQUIRE(of.open(session_a).ok());
  const evaluation silent{
      .session = session_a, .first = 0, .tokens = std::span(tokens).first(3), .want_logits = false};
  REQUIRE(of.evaluate({&silent, 1}).ok());
  CHECK(of.logits(0).empty());
  REQUIRE(feed(of, session_a, std::span(tokens).last(1)).ok());
  CHECK(of.logits(0).size() == of.vocabulary_size());
  CHECK(of.logits(1).empty());
  const auto first = copy_of_logits(of);
  of.close(session_a);
  // The chunk without logits has left the same rows as one with.
  REQUIRE(of.open(session_b).ok());
  REQUIRE(feed(of, session_b, std::span(tokens).first(3)).ok());
  REQUIRE(feed(of, session_b, std::span(tokens).last(1)).ok());
  CHECK(copy_of_logits(of) == first);
  of.close(session_b);
}

inline void check_truncate(engine& of) {
  numbers random(4);
  const auto tokens = random_tokens(random, 20, of.vocabulary_size());
  REQUIRE(of.open(session_a).ok());
  REQUIRE(feed(of, session_a, tokens, 1).ok());
  const auto whole = copy_of_logits(of);
  CHECK(of.truncate(session_none, 0).code() == errc::unknown_session);
  CHECK(of.truncate(session_a, 20).ok());
  CHECK(of.truncate(session_a, 21).ok());
  CHECK(of.length(session_a) == 20);
  for (const position cut : {19U, 7U, 1U}) {
    REQUIRE(of.truncate(session_a, cut).ok());
    CHECK(of.length(session_a) == cut);
    REQUIRE(feed(of, session_a, std::span(tokens).subspan(cut), 1).ok());
    CHECK(copy_of_logits(of) == whole);
  }
  REQUIRE(of.truncate(session_a, 10).ok());
  const auto others = random_tokens(random, 10, of.vocabulary_size());
  REQUIRE(feed(of, session_a, others, 1).ok());
  CHECK(copy_of_logits(of) != whole);
  REQUIRE(of.truncate(session_a, 0).ok());
  CHECK(of.holds(session_a));
  REQUIRE(feed(of, session_a, tokens, 1).ok());
  CHECK(copy_of_logits(of) == whole);
  of.close(session_a);
}

/// Rows of any cut of the history, moved into another session, leave it as if it had evaluated them itself.
inline void check_rows(engine& of, std::size_t rounds) {
  numbers random(5);
  for (std::size_t round = 0; round < rounds; ++round) {
    const position length = 10 + random.below(30);
    INFO("round " << round << ", " << length << " tokens");
    const auto tokens = random_tokens(random, length + 2, of.vocabulary_size());
    REQUIRE(of.open(session_a).ok());
    REQUIRE(of.open(session_b).ok());
    REQUIRE(feed(of, session_a, std::span(tokens).first(length)).ok());
    for (position at = 0; at < length;) {
      const position end = at + 1 + random.below(length - at);
      REQUIRE(transfer(of, session_a, of, session_b, at, end).ok());
      at = end;
      CHECK(of.length(session_b) == at);
    }
    gpu::kv_image left;
    gpu::kv_image right;
    REQUIRE(of.export_rows(session_a, 0, length, left).ok());
    REQUIRE(of.export_rows(session_b, 0, length, right).ok());
    CHECK(rows_of(of.layout(), left) == rows_of(of.layout(), right));
    REQUIRE(feed(of, session_a, std::span(tokens).subspan(length, 1)).ok());
    const auto expected = copy_of_logits(of);
    REQUIRE(feed(of, session_b, std::span(tokens).subspan(length, 1)).ok());
    CHECK(copy_of_logits(of) == expected);

    const position cut = 1 + random.below(length - 1);
    REQUIRE(of.truncate(session_b, cut).ok());
    REQUIRE(transfer(of, session_a, of, session_b, cut, length + 1).ok());
    REQUIRE(feed(of, session_a, std::span(tokens).last(1)).ok());
    const auto after_cut = copy_of_logits(of);
    REQUIRE(feed(of, session_b, std::span(tokens).last(1)).ok());
    CHECK(copy_of_logits(of) == after_cut);
    of.close(session_a);
    of.close(session_b);
  }
}

inline void check_row_refusals(engine& of) {
  numbers random(6);
  const auto tokens = random_tokens(random, 12, of.vocabulary_size());
  REQUIRE(of.open(session_a).ok());
  REQUIRE(of.open(session_b).ok());
  REQUIRE(feed(of, session_a, std::span(tokens).first(10)).ok());
  gpu::kv_image image;
  CHECK(of.export_rows(session_none, 0, 1, image).code() == errc::unknown_session);
  CHECK(of.export_rows(session_a, 0, 0, image).code() == errc::invalid_argument);
  CHECK(of.export_rows(session_a, 0, 11, image).code() == errc::invalid_argument);
  CHECK(of.export_rows(session_a, 11, 1, image).code() == errc::invalid_argument);
  CHECK(of.export_rows(session_a, ~position{0}, 2, image).code() == errc::invalid_argument);
  CHECK(of.prepare_image(0, of.context_tokens() + 1, image).code() == errc::invalid_argument);
  CHECK(of.prepare_image(of.context_tokens(), 1, image).code() == errc::invalid_argument);
  REQUIRE(of.export_rows(session_a, 4, 3, image).ok());
  CHECK(image.count == 3);
  CHECK(of.import_rows(session_none, 0, image).code() == errc::unknown_session);
  CHECK(of.import_rows(session_b, 4, image).code() == errc::gap);
  CHECK(of.import_rows(session_b, 0, image).code() == errc::invalid_argument);  // an image of other positions
  gpu::kv_image damaged;
  REQUIRE(of.export_rows(session_a, 0, 3, damaged).ok());
  damaged.bytes.pop_back();
  CHECK(of.import_rows(session_b, 0, damaged).code() == errc::invalid_argument);
  damaged.bytes.assign(damaged.bytes.size() + 1, std::byte{0});
  CHECK(of.import_rows(session_b, 0, damaged).code() == errc::invalid_argument);
  CHECK(of.import_rows(session_b, 0, {}).code() == errc::invalid_argument);
  CHECK(of.length(session_b) == 0);

  // Nothing of it has left a trace, and a buffer that is large enough stays where it is.
  REQUIRE(of.export_rows(session_a, 0, 10, image).ok());
  const auto* before = image.bytes.data();
  REQUIRE(of.import_rows(session_b, 0, image).ok());
  REQUIRE(of.export_rows(session_a, 0, 4, image).ok());
  CHECK(image.bytes.data() == before);
  REQUIRE(feed(of, session_a, std::span(tokens).last(2), 1).ok());
  const auto expected = copy_of_logits(of);
  REQUIRE(feed(of, session_b, std::span(tokens).last(2), 1).ok());
  CHECK(copy_of_logits(of) == expected);
  of.close(session_a);
  of.close(session_b);
}

inline void check_counters(engine& of) {
  numbers random(7);
  const auto tokens = random_tokens(random, 9, of.vocabulary_size());
  const engine_counters before = of.counters();
  REQUIRE(of.open(session_a).ok());
  REQUIRE(feed(of, session_a, tokens, 5).ok());
  CHECK_FALSE(of.evaluate({}).ok());
  CHECK(of.counters().evaluated_tokens == before.evaluated_tokens + 9);
  CHECK(of.counters().evaluations == before.evaluations + 2);
  if (of.can_export_rows()) {
    REQUIRE(of.open(session_b).ok());
    REQUIRE(transfer(of, session_a, of, session_b, 0, 7).ok());
    CHECK(of.counters().exported_rows == before.exported_rows + 7);
    CHECK(of.counters().imported_rows == before.imported_rows + 7);
    CHECK(of.counters().evaluated_tokens == before.evaluated_tokens + 9);
    of.close(session_b);
  }
  of.close(session_a);
}

}  // namespace baton::actors::engines::testing
