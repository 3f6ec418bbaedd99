#include "actors/protocol/lease.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using baton::actors::protocol::lease;

namespace {
constexpr lease::time_point start{1h};
}

TEST_CASE("without an acknowledgement there is no lease") {
  lease it{1000ms};
  CHECK_FALSE(it.valid(start));
  CHECK_FALSE(it.valid(lease::time_point{}));
  it.on_sent(1, start);
  CHECK_FALSE(it.valid(start));
  it.on_acknowledged(2);  // of nothing we sent
  CHECK_FALSE(it.valid(start));
}

TEST_CASE("a lease counts from the sending, less the margin") {
  lease it{1000ms};
  CHECK(it.margin() == 22ms);
  it.on_sent(1, start);
  it.on_acknowledged(1);  // whenever it came
  CHECK(it.valid(start));
  CHECK(it.valid(start + 977ms));
  CHECK_FALSE(it.valid(start + 978ms));
  CHECK_FALSE(it.valid(start + 1h));
}

TEST_CASE("late and repeated acknowledgements never renew it") {
  lease it{1000ms};
  it.on_sent(1, start);
  it.on_sent(2, start + 100ms);
  it.on_sent(3, start + 200ms);
  it.on_acknowledged(2);
  CHECK(it.valid(start + 1077ms));
  CHECK_FALSE(it.valid(start + 1078ms));
  it.on_acknowledged(1);  // overtaken
  it.on_acknowledged(2);  // again
  CHECK_FALSE(it.valid(start + 1078ms));
  it.on_acknowledged(3);
  CHECK(it.valid(start + 1177ms));
  CHECK_FALSE(it.valid(start + 1178ms));
}

TEST_CASE("a heartbeat that is sent twice counts from the first time") {
  lease it{1000ms};
  it.on_sent(1, start);
  it.on_sent(1, start + 500ms);  // the answer may be to the first
  it.on_acknowledged(1);
  CHECK_FALSE(it.valid(start + 978ms));
}

TEST_CASE("heartbeats without answers are forgotten, the latest stay") {
  lease it{1000ms};
  for (std::uint64_t i = 0; i < 1000; ++i)
    it.on_sent(i, start + i * 1ms);
  it.on_acknowledged(0);
  CHECK_FALSE(it.valid(start));
  it.on_acknowledged(999);
  CHECK(it.valid(start + 999ms));
}

TEST_CASE("a lease shorter than its margin never runs") {
  lease it{20ms};
  it.on_sent(1, start);
  it.on_acknowledged(1);
  CHECK_FALSE(it.valid(start));
}
