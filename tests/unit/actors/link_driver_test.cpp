#include "actors/link_driver.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/staging_ring.hpp"
#include "schemas/codec.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using transports::connection_id;

const process_id standby{"s", incarnation{4}};

/// Notes what it is told to do; nothing arrives by itself.
class noting_transport final : public transports::transport {
 public:
  [[nodiscard]] transports::capabilities abilities() const override { return {}; }
  result<std::string> listen(std::string_view) override { return std::string{}; }
  result<connection_id> connect(std::string_view) override { return connection_id{}; }
  result<void> send_message(connection_id, std::vector<std::byte>) override {
    if (broken) return {errc::no_room, "the queue is full"};
    ++messages;
    return {};
  }
  result<void> send_rows(connection_id, std::vector<std::byte>, memory_region, completion done) override {
    if (broken) return {errc::no_room, "the queue is full"};
    in_flight.push_back(std::move(done));
    return {};
  }
  void close(connection_id) override { ++closed; }
  [[nodiscard]] std::string carrier(connection_id) const override { return "noted"; }

  bool broken = false;
  int messages = 0;
  int closed = 0;
  std::vector<completion> in_flight;
};

struct link_bench {
  noting_transport transport;
  std::uint64_t connections = 0;
  bool reachable = true;
  std::string said;  ///< to the primary
  actors::link_driver::time_point now = actors::link_driver::time_point{} + 1h;
  actors::link_driver link{transport, sending(), "s", outlets()};

  static actors::protocol::link_sender::options sending() {
    actors::protocol::link_sender::options out;
    out.fingerprint = fingerprint;
    out.regions = 1;
    out.bytes_per_token = 8;
    return out;
  }

  actors::link_driver::outlets outlets() {
    return {[this](const process_id&, const std::string&) -> result<connection_id> {
              if (!reachable) return {errc::connection_lost, "nobody there"};
              return connection_id{++connections};
            },
            [this](const actors::link_report& report) { said += report.up ? "up " : "down "; },
            [this](const actors::link_news& news) {
              if (std::holds_alternative<actors::protocol::standby_progress>(news.what)) said += "progress ";
            }};
  }

  void frame(link_frame what) {
    link.on_frame({connection_id{connections}, std::make_shared<const link_frame>(std::move(what))}, now);
  }
  void tick(std::chrono::milliseconds after) {
    now += after;
    link.on_tick(now);
  }
  /// Connected and welcomed.
  void come_up() {
    link.on_target({standby, "there"}, now);
    frame(link_welcome{standby, true});
  }
  /// A session of four tokens is replicated; the standby has all of them, and no rows.
  void replicate(position rows) {
    const auto log = log_of(4, 0);
    link.on_begin({group_id{3}, epoch{5}, log, rows, 0, {}}, now);
    replica_ack ack;
    ack.session = log.session();
    ack.epoch = epoch{5};
    ack.logged = 4;
    ack.chain = log.chain();
    ack.sequence = 1;
    frame(acks_frame{{ack}});
  }
};

}  // namespace

TEST_CASE("link_driver: the connection is reported, and made again when it is lost") {
  link_bench it;
  it.link.on_target({standby, "there"}, it.now);
  CHECK(it.connections == 1);
  CHECK(it.said.empty());  // not before the welcome
  it.frame(link_welcome{standby, true});
  CHECK(it.said == "up ");
  CHECK(it.link.figures().up);
  CHECK(it.link.figures().carrier == "noted");
  it.link.on_target({standby, "there"}, it.now);  // nothing new
  CHECK(it.connections == 1);

  it.link.on_lost({connection_id{9}, {}});  // of an older connection
  CHECK(it.said == "up ");
  it.now += 1s;
  it.link.on_lost({connection_id{1}, {}});
  CHECK(it.said == "up down ");
  it.tick(0ms);
  CHECK(it.connections == 2);
  it.link.on_target({standby, ""}, it.now);
  CHECK(it.transport.closed == 1);
  it.tick(10s);
  CHECK(it.connections == 2);
}

TEST_CASE("link_driver: attempts are paced") {
  link_bench it;
  SECTION("nobody there") {
    it.reachable = false;
    it.link.on_target({standby, "there"}, it.now);
    it.reachable = true;
    it.tick(99ms);
    CHECK(it.connections == 0);
    it.tick(1ms);
    CHECK(it.connections == 1);
  }
  SECTION("refused") {
    it.link.on_target({standby, "there"}, it.now);
    it.frame(link_refusal{errc::fingerprint_mismatch, "layers: mine 2, theirs 3"});
    CHECK(it.transport.closed == 1);
    it.tick(999ms);
    CHECK(it.connections == 1);
    it.tick(1ms);
    CHECK(it.connections == 2);
  }
  CHECK(it.said.empty());
}

TEST_CASE("link_driver: a failed send takes the link down") {
  link_bench it;
  it.come_up();
  it.transport.broken = true;
  it.link.on_begin({group_id{3}, epoch{5}, log_of(4, 0), 0, 0, {}}, it.now);
  CHECK(it.transport.closed == 1);
  CHECK(it.said == "up down ");
}

TEST_CASE(
    "link_driver: of a frame whose first acknowledgement takes the link down, the others are not heard") {
  link_bench it;
  it.come_up();
  it.replicate(0);
  replica_ack well;
  well.session = session_id{7};
  well.epoch = epoch{5};
  well.logged = 4;
  well.chain = log_of(4, 0).chain();
  well.sequence = 1;
  replica_ack gap = well;
  gap.has_problem = true;
  gap.problem = errc::gap;
  it.transport.broken = true;  // the probes that answer the gap cannot be sent
  it.frame(acks_frame{{gap, well}});
  CHECK(it.said == "up progress down ");
}

TEST_CASE("link_driver: a standby that owes an acknowledgement past the deadline is connected to anew") {
  link_bench it;
  it.come_up();
  it.replicate(0);
  CHECK(it.said == "up progress ");
  tokens_record more{4, log_of(4, 0).chain(), tokens(4, 1)};
  it.link.on_records({{{group_id{3}, epoch{5}, session_id{7}, {more}, 0}}}, it.now);
  it.tick(limits::acknowledgement_deadline);
  CHECK(it.said == "up progress ");
  it.tick(1ms);
  CHECK(it.transport.closed == 1);
  CHECK(it.said == "up progress down ");
  it.tick(0ms);
  CHECK(it.connections == 2);
}

TEST_CASE("link_driver: rows in flight hold their slot") {
  link_bench it;
  it.come_up();
  gpu::staging_ring ring{{64, 1}};
  it.replicate(4);
  {
    auto slot = ring.acquire(32);
    REQUIRE(slot);
    actors::packed_slot packed;
    packed.rows.session = session_id{7};
    packed.rows.count = 4;
    packed.rows.bytes = 32;
    packed.slot = *slot;
    it.link.on_packed(packed, it.now);
  }
  REQUIRE(it.transport.in_flight.size() == 1);
  CHECK(ring.used().lent == 1);
  it.transport.in_flight.front()({});
  it.transport.in_flight.clear();
  CHECK(ring.used().lent == 0);
}

TEST_CASE("link_driver: a hello that nobody answers is said again on a new connection") {
  link_bench it;
  it.link.on_target({standby, "s:1"}, it.now);
  CHECK(it.connections == 1);
  it.tick(1900ms);
  CHECK(it.connections == 1);
  it.tick(200ms);
  CHECK(it.transport.closed == 1);
  it.tick(100ms);
  CHECK(it.connections == 2);
  it.frame(link_welcome{standby, true});
  CHECK(it.said == "up ");
  it.tick(5000ms);
  CHECK(it.connections == 2);
}

}  // namespace baton::test
