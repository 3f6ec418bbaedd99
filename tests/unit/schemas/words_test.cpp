#include <catch2/catch.hpp>

#include <set>
#include <string_view>
#include <vector>

#include "tests/unit/schemas/samples.hpp"

using namespace baton;
using namespace baton::test;

namespace {

/// The input of the test vectors of xxHash (its tests/sanity_test_vectors.h).
std::vector<std::byte> vector_input(std::size_t size) {
  std::vector<std::byte> out;
  std::uint64_t state = 2654435761U;
  for (std::size_t i = 0; i < size; ++i) {
    out.push_back(static_cast<std::byte>(state >> 56));
    state *= 0x9E3779B185EBCA8DULL;
  }
  return out;
}

}  // namespace

TEST_CASE("the hash is XXH3-64") {
  constexpr std::uint64_t seed = 0x9E3779B185EBCA8DULL;
  CHECK(hash_bytes({}) == 0x2D06800538D394C2ULL);
  CHECK(hash_bytes({}, seed) == 0xA8A6B918B2F0364AULL);
  CHECK(hash_bytes(vector_input(1)) == 0xC44BDFF4074EECDBULL);
  CHECK(hash_bytes(vector_input(1), seed) == 0x032BE332DD766EF8ULL);
  CHECK(hash_bytes(vector_input(6)) == 0x27B56A84CD2D7325ULL);
  CHECK(hash_bytes(vector_input(80)) == 0xBCDEFBBB2C47C90AULL);
  CHECK(hash_bytes(vector_input(195)) == 0xCD94217EE362EC3AULL);
  const std::string_view text = "baton";
  CHECK(hash_text(text, 5) == hash_bytes(std::as_bytes(std::span{text}), 5));
}

TEST_CASE("a hash step depends on both words, in order, and is the hash of their bytes") {
  const std::uint64_t words[] = {1, 2};
  CHECK(hash_step(1, 2) == hash_bytes(std::as_bytes(std::span{words})));
  CHECK(hash_step(1, 2) != hash_step(2, 1));
  CHECK(hash_step(0, 0) != 0);
}

TEST_CASE("the finaliser is SplitMix64's") {
  // The first outputs of SplitMix64 seeded with 0.
  static_assert(mix64(0) == 0xe220a8397b1dcdafULL);
  static_assert(mix64(0x9e3779b97f4a7c15ULL) == 0x6e789e6aa1b965f4ULL);
}

TEST_CASE("every error code has a name of its own") {
  std::set<std::string_view> names;
  int codes = 0;
  for (int i = 1; name_of(static_cast<errc>(i)) != "unknown"; ++i, ++codes) {
    const std::string_view name = name_of(static_cast<errc>(i));
    INFO(name);
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
    names.insert(name);
  }
  CHECK(codes == static_cast<int>(errc::not_found));
  CHECK(names.size() == static_cast<std::size_t>(codes));
  CHECK(name_of(errc{}) == "unknown");
  CHECK(name_of(static_cast<errc>(-1)) == "unknown");
}

TEST_CASE("the hash of a turn depends on every field of it") {
  std::set<std::uint64_t> seen{hash_of(full_turn())};
  std::size_t count = 1;
  const auto changed = [&](auto change) {
    turn_header turn = full_turn();
    change(turn);
    REQUIRE_FALSE(turn == full_turn());
    seen.insert(hash_of(turn));
    ++count;
    CHECK(seen.size() == count);
  };
  changed([](turn_header& it) { ++it.number; });
  changed([](turn_header& it) { ++it.base; });
  changed([](turn_header& it) { ++it.prompt_end; });
  changed([](turn_header& it) { ++it.parameters.max_tokens; });
  changed([](turn_header& it) { it.parameters.end_tokens.pop_back(); });
  changed([](turn_header& it) { std::swap(it.parameters.end_tokens[0], it.parameters.end_tokens[1]); });
  changed([](turn_header& it) { it.parameters.sampling.temperature += 1; });
  changed([](turn_header& it) { ++it.parameters.sampling.top_k; });
  changed([](turn_header& it) { it.parameters.sampling.top_p += 1; });
  changed([](turn_header& it) { it.parameters.sampling.min_p += 1; });
  changed([](turn_header& it) { it.parameters.sampling.repetition_penalty += 1; });
  changed([](turn_header& it) { it.parameters.sampling.frequency_penalty += 1; });
  changed([](turn_header& it) { it.parameters.sampling.presence_penalty += 1; });
  changed([](turn_header& it) { ++it.parameters.sampling.penalty_window; });
  changed([](turn_header& it) { it.parameters.sampling.logit_bias.pop_back(); });
  changed([](turn_header& it) { it.parameters.sampling.logit_bias[0].first = 8; });
  changed([](turn_header& it) { it.parameters.sampling.logit_bias[0].second = 8; });
  changed([](turn_header& it) { ++it.parameters.sampling.seed; });
  changed([](turn_header& it) { ++it.parameters.sampling.top_logprobs; });
  changed([](turn_header& it) { it.parameters.sampling.logprobs = false; });
}

TEST_CASE("processes differ by name and by incarnation") {
  const std::hash<process_id> hash;
  CHECK(process("a", 1) == process("a", 1));
  CHECK_FALSE(process("a", 1) == process("a", 2));
  CHECK(hash(process("a", 1)) == hash(process("a", 1)));
  CHECK(hash(process("a", 1)) != hash(process("a", 2)));
  CHECK(process("a", 2) < process("b", 1));
}

TEST_CASE("a result is a value or an error") {
  result<std::string> good{std::string{"x"}};
  REQUIRE(good.ok());
  CHECK(good->size() == 1);
  CHECK(*std::move(good) == "x");
  const result<std::string> bad{errc::gap, "why"};
  CHECK_FALSE(bad);
  CHECK(bad.code() == errc::gap);
  CHECK(bad.failure().what == "why");
  CHECK(result<void>{}.ok());
  CHECK(result<void>{errc::fork, "why"}.code() == errc::fork);
  CHECK(result<void>{bad.failure()}.code() == errc::gap);
}
