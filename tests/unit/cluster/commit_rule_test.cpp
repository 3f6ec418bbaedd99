#include "actors/protocol/commit_rule.hpp"

#include <catch2/catch.hpp>

#include <limits>
#include <string>
#include <vector>

using namespace baton;
using baton::actors::protocol::commit_rule;
using baton::actors::protocol::parse_commit_rule;
using mode = commit_rule::mode;
using standbys = std::vector<commit_rule::standby_position>;

namespace {
position committed(mode how, position length, const standbys& held, std::uint32_t quorum = 0) {
  return commit_rule{how, quorum}.committed(length, held);
}
}  // namespace

TEST_CASE("with nobody to wait for everything is committed") {
  for (const mode how : {mode::async, mode::semi_sync, mode::quorum, mode::strict})
    CHECK(committed(how, 10, {}, 2) == 10);
}

TEST_CASE("async waits for nobody") {
  CHECK(committed(mode::async, 10, {{0, 0}, {3, 1}}) == 10);
}

TEST_CASE("semi-sync waits for the log of every standby") {
  CHECK(committed(mode::semi_sync, 10, {{7, 0}}) == 7);
  CHECK(committed(mode::semi_sync, 10, {{7, 0}, {9, 9}, {4, 2}}) == 4);
  CHECK(committed(mode::semi_sync, 10, {{0, 0}, {9, 9}}) == 0);
  CHECK(committed(mode::semi_sync, 10, {{12, 12}}) == 10);  // a standby never makes the log longer
}

TEST_CASE("quorum waits for the log of k standbys") {
  const standbys held{{4, 0}, {9, 0}, {7, 0}};
  CHECK(committed(mode::quorum, 10, held, 1) == 9);
  CHECK(committed(mode::quorum, 10, held, 2) == 7);
  CHECK(committed(mode::quorum, 10, held, 3) == 4);
  CHECK(committed(mode::quorum, 10, held, 9) == 4);  // more than there are: all of them
  CHECK(committed(mode::quorum, 10, held, 0) == 9);  // never nobody
  CHECK(committed(mode::quorum, 10, {{12, 0}, {11, 0}}, 2) == 10);
}

TEST_CASE("strict waits for the rows before a token, too") {
  CHECK(committed(mode::strict, 10, {{10, 9}}) == 10);  // the row of the last one comes with the next step
  CHECK(committed(mode::strict, 10, {{10, 10}}) == 10);
  CHECK(committed(mode::strict, 10, {{10, 5}}) == 6);
  CHECK(committed(mode::strict, 10, {{6, 5}}) == 6);
  CHECK(committed(mode::strict, 10, {{6, 6}}) == 6);
  CHECK(committed(mode::strict, 10, {{0, 0}}) == 0);
  CHECK(committed(mode::strict, 10, {{10, 0}, {10, 10}}) == 1);
  constexpr position most = std::numeric_limits<position>::max();
  CHECK(committed(mode::strict, most, {{most, most}}) == most);
  CHECK(committed(mode::strict, most, {{most, most - 1}}) == most);
}

TEST_CASE("more held never commits less") {
  for (const mode how : {mode::async, mode::semi_sync, mode::quorum, mode::strict})
    for (position logged = 0; logged < 8; ++logged)
      for (position synced = 0; synced <= logged; ++synced) {
        const position now = committed(how, 6, {{logged, synced}, {4, 2}}, 2);
        CHECK(committed(how, 6, {{logged + 1, synced}, {4, 2}}, 2) >= now);
        CHECK(committed(how, 6, {{logged + 1, synced + 1}, {4, 2}}, 2) >= now);
        CHECK(committed(how, 7, {{logged, synced}, {4, 2}}, 2) >= now);
        CHECK(now <= 6);
      }
}

TEST_CASE("commit modes have names") {
  const auto parsed = [](std::string_view text) {
    const auto rule = parse_commit_rule(text);
    INFO(text);
    REQUIRE(rule.ok());
    return *rule;
  };
  CHECK(parsed("async").how == mode::async);
  CHECK(parsed("semi-sync").how == mode::semi_sync);
  CHECK(parsed("strict").how == mode::strict);
  CHECK(parsed("quorum:1").how == mode::quorum);
  CHECK(parsed("quorum:1").quorum == 1);
  CHECK(parsed("quorum:4294967295").quorum == 4294967295U);
  for (const std::string_view bad :
       {"", "Async", "async ", " async", "semi_sync", "quorum", "quorum:", "quorum:0", "quorum:-1",
        "quorum:+1", "quorum: 1", "quorum:1 ", "quorum:1x", "quorum:0x1", "quorum:4294967296",
        "quorum:99999999999999999999", "strict:1"}) {
    const auto rule = parse_commit_rule(bad);
    INFO(bad);
    REQUIRE_FALSE(rule.ok());
    CHECK(rule.code() == errc::invalid_argument);
    CHECK(rule.failure().what.find('"' + std::string{bad} + '"') != std::string::npos);
  }
}
