#include "gpu/staging_ring.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

using namespace baton;
using namespace baton::gpu;

TEST_CASE("slots are equal, apart, and within the whole") {
  staging_ring ring({1000, 5});
  CHECK(ring.slot_bytes() == 1000);
  const auto whole = ring.whole();
  CHECK(reinterpret_cast<std::uintptr_t>(whole.address) % 4096 == 0);
  std::vector<staging_slot> held;
  std::set<std::byte*> starts;
  for (int i = 0; i < 5; ++i) {
    auto slot = ring.acquire(1000);
    REQUIRE(slot);
    const auto region = slot->region();
    CHECK(region.size_bytes == 1000);
    CHECK(region.kind == memory_kind::host);
    CHECK(region.address >= whole.address);
    CHECK(region.address + region.size_bytes <= whole.address + whole.size_bytes);
    for (const auto* other : starts)
      CHECK(std::abs(other - region.address) >= 1000);
    starts.insert(region.address);
    held.push_back(std::move(*slot));
  }
  CHECK(starts.size() == 5);
}

TEST_CASE("a ring lends what it has and no more") {
  staging_ring ring({64, 2});
  auto first = ring.acquire(64), second = ring.acquire(0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(ring.used().lent == 2);
  const auto third = ring.acquire(1);
  REQUIRE_FALSE(third);
  CHECK(third.code() == errc::no_room);
  *first = {};
  CHECK(ring.used().lent == 1);
  CHECK(ring.acquire(64));
  const auto large = ring.acquire(65);
  REQUIRE_FALSE(large);
  CHECK(large.code() == errc::no_room);
}

TEST_CASE("a slot is held by every copy of its handle") {
  staging_ring ring({64, 1});
  auto slot = ring.acquire(64);
  REQUIRE(slot);
  std::optional<staging_slot> copy(*slot);
  CHECK(copy->region().address == slot->region().address);
  *slot = {};
  CHECK_FALSE(slot->held());
  CHECK(slot->region().empty());
  CHECK(ring.used().lent == 1);
  CHECK_FALSE(ring.acquire(64));
  copy.reset();
  CHECK(ring.used().lent == 0);
  CHECK(ring.acquire(64));
}

TEST_CASE("a quarantined slot never comes back") {
  staging_ring ring({64, 3});
  auto slot = ring.acquire(64);
  REQUIRE(slot);
  auto* const poisoned = slot->region().address;
  auto copy = *slot;
  slot->quarantine();
  copy.quarantine();  // once is enough
  CHECK(ring.used().quarantined == 1);
  CHECK(ring.used().lent == 0);
  *slot = {};
  copy = {};
  CHECK(ring.used().quarantined == 1);
  auto other = ring.acquire(64), another = ring.acquire(64);
  REQUIRE(other);
  REQUIRE(another);
  CHECK(other->region().address != poisoned);
  CHECK(another->region().address != poisoned);
  CHECK_FALSE(ring.acquire(64));
  staging_slot().quarantine();  // of nothing: nothing
}

TEST_CASE("memory outlives the ring while lent, and for good when quarantined") {
  std::byte* late = nullptr;
  staging_slot slot;
  {
    staging_ring ring({4096, 2});
    auto lent = ring.acquire(4096), failed = ring.acquire(4096);
    REQUIRE(lent);
    REQUIRE(failed);
    slot = *lent;
    failed->quarantine();
    late = failed->region().address;
  }
  std::memset(slot.region().address, 1, slot.region().size_bytes);
  slot = {};
  std::memset(late, 2, 4096);  // as a failed endpoint may
}

TEST_CASE("a ring that cannot be is refused at start-up") {
  const auto make = [](std::size_t slot_bytes, std::size_t slots) {
    return staging_ring({slot_bytes, slots}).used().total;
  };
  constexpr auto huge = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(make(0, 1), std::runtime_error);
  CHECK_THROWS_AS(make(1, 0), std::runtime_error);
  CHECK_THROWS_AS(make(huge, 1), std::runtime_error);
  CHECK_THROWS_AS(make(huge / 2, 3), std::runtime_error);
  CHECK_THROWS_AS(make(std::size_t{1} << 50, 2), std::runtime_error);
}

TEST_CASE("threads share a ring without sharing a slot") {
  constexpr std::size_t slots = 8;
  staging_ring ring({256, slots});
  std::atomic<int> clashes{0};
  std::atomic<std::size_t> quarantined{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < 4; ++t)
    workers.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<staging_slot> held;
      for (int i = 0; i < 3000; ++i) {
        if (random() % 2 == 0 && held.size() < 3) {
          auto slot = ring.acquire(256);
          if (!slot) continue;
          std::memset(slot->region().address, static_cast<int>(t + 1), 256);
          held.push_back(std::move(*slot));
        } else if (!held.empty()) {
          for (const auto byte : held.back().region().bytes())
            if (byte != std::byte(t + 1)) ++clashes;
          if (i == 1500 && t < 2) {
            held.back().quarantine();
            ++quarantined;
          }
          held.pop_back();
        }
      }
    });
  for (auto& each : workers)
    each.join();
  CHECK(clashes == 0);
  CHECK(ring.used().lent == 0);
  CHECK(ring.used().quarantined == quarantined);
}
