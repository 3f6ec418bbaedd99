#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include "apps/sim/simulation.hpp"
#include "schemas/log.hpp"

/// Whole clusters under seeded faults. A violation prints its seed: `baton sim --seed N` runs it again;
/// BATON_SEEDS=n runs more of them.
using namespace baton::apps::sim;

namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("no fault makes a wrong word, and all goes on afterwards") {
  baton::configure_log("off", "simulation");
  const std::uint64_t seeds = number_from("BATON_SEEDS", 500);
  outcome sum;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const outcome one = simulation(seed).run();
    INFO("again: baton sim --seed " << seed);
    INFO(one.violation);
    REQUIRE(one.violation.empty());
    sum.add(one);
  }
  // A run in which nothing went wrong proves nothing.
  CHECK(sum.failovers > seeds);
  CHECK(sum.survived > seeds / 5);
  CHECK(sum.finished > sum.turns / 2);
  CHECK(sum.stale > seeds / 10);
  CHECK(sum.corrupt > seeds / 10);
  for (std::size_t kind = 0; kind < fault_kinds; ++kind) {
    INFO(name_of(static_cast<fault_kind>(kind)));
    CHECK(sum.faults[kind] > seeds / 10);
  }
}

TEST_CASE("a seed is a seed: the same run, event for event") {
  baton::configure_log("off", "simulation");
  const outcome once = simulation(7).run();
  const outcome again = simulation(7).run();
  CHECK(once.events == again.events);
  CHECK(once.tokens == again.tokens);
  CHECK(once.failovers == again.failovers);
}

// The rarest of these is noticed in one of some hundred runs.
constexpr std::uint64_t most_seeds = 6000;

// Chance alone finds that these are missing; for others see the scripts `missed_*`, the link simulation and
// the model (docs/protocol.md, "What each rule prevents").
TEST_CASE("the checkers notice a rule that is left out") {
  baton::configure_log("off", "simulation");
  // From which seed on: where the search is short, as long as the same seed is the same run.
  const auto [rule, first] = GENERATE(table<std::string, std::uint64_t>({{"gateway_epochs", 1},
                                                                         {"commit_wait", 1},
                                                                         {"checksums", 1},
                                                                         {"generations", 2100},
                                                                         {"quarantine", 1}}));
  const auto without = left_out_named(rule);
  REQUIRE(without);
  std::string noticed;
  for (std::uint64_t seed = first; seed < first + most_seeds && noticed.empty(); ++seed)
    noticed = simulation(seed, *without).run().violation;
  INFO(rule);
  CHECK_FALSE(noticed.empty());
}
