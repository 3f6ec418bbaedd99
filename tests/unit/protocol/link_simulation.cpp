#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include "tests/unit/protocol/link_world.hpp"

/// Senders and standbys over a simulated network: any seed can be run again with BATON_SEED=n, more of them
/// with BATON_SEEDS=n.
namespace baton::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The first seed at which the checkers catch the mutation; nothing if they never do.
std::string caught(const mutations& wrong, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    world_options how;
    how.seed = seed;
    how.wrong = wrong;
    if (const auto fault = link_world{how}.run()) return *fault;
  }
  return {};
}

}  // namespace

TEST_CASE("link simulation: every invariant holds at every step, and all converges after the faults") {
  const std::uint64_t first = number_from("BATON_SEED", 1);
  const std::uint64_t seeds = std::getenv("BATON_SEED") != nullptr ? 1 : number_from("BATON_SEEDS", 2000);
  link_world::figures sum;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    world_options how;
    how.seed = seed;
    link_world world{how};
    const auto fault = world.run();
    INFO("run again with BATON_SEED=" << seed);
    INFO((fault ? *fault : ""));
    REQUIRE_FALSE(fault);
    sum.add(world.counted());
  }
  if (seeds < 100) return;
  // A run in which nothing went wrong proves nothing.
  CHECK(sum.frames > 100 * seeds);
  CHECK(sum.deltas > 10 * seeds);
  CHECK(sum.late_frames > seeds);
  CHECK(sum.disconnects > seeds);
  CHECK(sum.owner_changes > seeds / 2);
  CHECK(sum.corrupt_rows > seeds / 4);
  CHECK(sum.no_staging > seeds / 4);
  CHECK(sum.cuts > seeds);
  CHECK(sum.stalls > 10);
  CHECK(sum.fenced > 10);
  CHECK(sum.superseded > 10);
  CHECK(sum.dropped_sessions > seeds / 4);
  CHECK(sum.stale_exports > seeds / 2);
  WARN("frames " << sum.frames << ", deltas " << sum.deltas << ", late " << sum.late_frames
                 << ", disconnects " << sum.disconnects << ", owner changes " << sum.owner_changes
                 << ", stalls " << sum.stalls << ", fenced " << sum.fenced << ", superseded "
                 << sum.superseded << ", longest healing " << sum.healing_steps);
}

TEST_CASE("link simulation: the checkers catch each rule that is left out") {
  constexpr std::uint64_t seeds = 400;
  mutations wrong;
  SECTION("acknowledgements by index only") {
    wrong.trust_progress_by_index = true;
  }
  SECTION("positions instead of chains") {
    wrong.skip_chain_check = true;
  }
  SECTION("epochs that are not compared") {
    wrong.skip_epoch_check = true;
  }
  SECTION("late frames of replaced connections") {
    wrong.keep_old_connections = true;
  }
  SECTION("rows exported before a cut") {
    wrong.send_stale_exports = true;
  }
  SECTION("rows without a checksum") {
    wrong.skip_checksum = true;
  }
  SECTION("batch shapes forgotten") {
    wrong.forget_batch_shapes = true;
  }
  SECTION("no clock") {
    wrong.lose_ticks = true;
  }
  const std::string fault = caught(wrong, seeds);
  INFO(fault);
  CHECK_FALSE(fault.empty());
}

}  // namespace baton::test
