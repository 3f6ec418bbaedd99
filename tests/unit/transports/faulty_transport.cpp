#include "transports/faulty_transport.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/transports/recording_sink.hpp"
#include "transports/inproc_transport.hpp"

using namespace baton;
using namespace baton::transports;
using namespace baton::transports::test;
using kind = recording_sink::kind;

namespace {

/// A plain client connected to a server with faults.
struct bench {
  explicit bench(faults of_server, faults of_client = {})
      : server(server_sink, std::move(of_server), maker()),
        client(client_sink, std::move(of_client), maker()) {
    at = *server.listen("inproc:0");
    to_server = *client.connect(at);
    REQUIRE(server_sink.wait_for(kind::accepted, 1));
    to_client = server_sink.all(kind::accepted).front().from;
  }
  faulty_transport::maker maker() {
    return [this](frame_sink& sink) { return std::make_unique<inproc_transport>(network, sink); };
  }

  std::shared_ptr<inproc_network> network = std::make_shared<inproc_network>();
  recording_sink server_sink{recording_sink::threads::several}, client_sink{recording_sink::threads::several};
  completions done;
  faulty_transport server, client;
  std::string at;
  connection_id to_server{}, to_client{};
};

void clean(const recording_sink& sink) {
  for (const auto& each : sink.complaints())
    FAIL_CHECK(each);
}

}  // namespace

TEST_CASE("the chosen rows are dropped, no others") {
  faults how;
  how.drop_rows = {2, 5};
  bench two(how);
  std::deque<bytes> rows;
  for (std::size_t i = 0; i < 6; ++i) {
    rows.push_back(pattern(1000, i));
    REQUIRE(two.client.send_rows(two.to_server, pattern(8, i), region_of(rows.back()), two.done.next()));
  }
  REQUIRE(two.done.wait_all());
  REQUIRE(two.server_sink.wait_for(kind::landed, 4));
  const auto landed = two.server_sink.all(kind::landed);
  const std::size_t expected[] = {0, 2, 3, 5};
  REQUIRE(landed.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK((landed[i].content == rows[expected[i]]));
  CHECK(two.done.succeeded() == 6);
  CHECK(two.server.so_far().dropped_rows == 2);
  clean(two.server_sink);
}

TEST_CASE("one bit of the chosen rows is flipped, the same for the same seed") {
  const auto flipped = [](std::uint64_t seed) {
    faults how;
    how.flip_rows = {3};
    how.seed = seed;
    bench two(how);
    auto rows = pattern(5000, 1);
    for (int i = 0; i < 4; ++i)
      REQUIRE(two.client.send_rows(two.to_server, {}, region_of(rows), two.done.next()));
    REQUIRE(two.server_sink.wait_for(kind::landed, 4));
    REQUIRE(two.done.wait_all());
    const auto landed = two.server_sink.all(kind::landed);
    int bits = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      bits += __builtin_popcount(std::to_integer<unsigned>(landed[2].content[i] ^ rows[i]));
    CHECK(bits == 1);
    for (const std::size_t good : {0, 1, 3})
      CHECK((landed[good].content == rows));
    CHECK(two.server.so_far().flipped_rows == 1);
    clean(two.server_sink);
    return landed[2].content;
  };
  CHECK((flipped(1) == flipped(1)));
  CHECK((flipped(1) != flipped(2)));
}

TEST_CASE("messages are doubled by chance, the same for the same seed") {
  const auto received = [](std::uint64_t seed) {
    faults how;
    how.duplicate_messages = 0.3;
    how.seed = seed;
    bench two(how);
    for (std::size_t i = 0; i < 200; ++i)
      REQUIRE(two.client.send_message(two.to_server, pattern(8, i)));
    REQUIRE(two.client.send_message(two.to_server, pattern(1, 0)));
    REQUIRE(two.server_sink.wait_for_message(pattern(1, 0)));
    const auto doubled = two.server.so_far().duplicated_messages;
    CHECK(doubled > 20);
    CHECK(doubled < 120);
    clean(two.server_sink);
    return doubled;
  };
  CHECK(received(7) == received(7));
}

TEST_CASE("delayed frames keep their order") {
  faults slow;
  slow.delay = std::chrono::milliseconds(20);
  slow.jitter = std::chrono::milliseconds(20);
  bench two({}, slow);
  std::deque<bytes> rows;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < 20; ++i) {
    if (i % 2 == 0) {
      REQUIRE(two.client.send_message(two.to_server, pattern(8, i)));
    } else {
      rows.push_back(pattern(100, i));
      REQUIRE(two.client.send_rows(two.to_server, pattern(8, i), region_of(rows.back()), two.done.next()));
    }
  }
  REQUIRE(two.server_sink.wait_for(kind::landed, 10));
  CHECK(std::chrono::steady_clock::now() - begin >= slow.delay);
  REQUIRE(two.done.wait_all());
  std::size_t i = 0;
  for (const auto& each : two.server_sink.all())
    if (each.what == kind::message || each.what == kind::rows) CHECK((each.content == pattern(8, i++)));
  CHECK(i == 20);
}

TEST_CASE("closing cancels what is delayed") {
  faults slow;
  slow.delay = std::chrono::minutes(10);
  bench two({}, slow);
  auto rows = pattern(100, 1);
  for (int i = 0; i < 5; ++i)
    REQUIRE(two.client.send_rows(two.to_server, {}, region_of(rows), two.done.next()));
  two.client.close(two.to_server);
  REQUIRE(two.client_sink.wait_lost(two.to_server));
  CHECK(two.done.each_once());
  CHECK(two.done.failed(errc::cancelled) == 5);
}

TEST_CASE("a partition swallows silently both ways, and heals with what was sent lost") {
  bench two({});
  auto rows = pattern(100, 1);
  two.server.cut();
  REQUIRE(two.client.send_message(two.to_server, pattern(8, 1)));
  REQUIRE(two.server.send_message(two.to_client, pattern(8, 2)));
  REQUIRE(two.server.send_rows(two.to_client, {}, region_of(rows), two.done.next()));
  completions refused;
  REQUIRE(two.client.send_rows(two.to_server, {}, region_of(rows), refused.next()));
  REQUIRE(refused.wait_all());  // behind the message: both have been swallowed
  CHECK(two.server_sink.count(kind::message) == 0);
  CHECK(two.server_sink.count(kind::rows) == 0);
  CHECK(two.done.pending() == 1);
  two.server.heal();
  REQUIRE(two.client.send_message(two.to_server, pattern(8, 3)));
  REQUIRE(two.server.send_message(two.to_client, pattern(8, 4)));
  REQUIRE(two.server_sink.wait_for(kind::message, 1));
  REQUIRE(two.client_sink.wait_for(kind::message, 1));
  CHECK((two.server_sink.all(kind::message).front().content == pattern(8, 3)));
  CHECK((two.client_sink.all(kind::message).front().content == pattern(8, 4)));
  CHECK(two.server.so_far().swallowed_frames == 4);
  two.server.close(two.to_client);
  REQUIRE(two.server_sink.wait_lost(two.to_client));
  CHECK(two.done.each_once());
  CHECK(two.done.failed(errc::cancelled) == 1);
}

TEST_CASE("a peer's close is not seen through a partition") {
  bench two({});
  auto rows = pattern(100, 1);
  two.server.cut();
  two.client.close(two.to_server);
  REQUIRE(two.client_sink.wait_lost(two.to_server));
  REQUIRE(two.server.send_rows(two.to_client, {}, region_of(rows), two.done.next()));
  CHECK(two.done.pending() == 1);
  CHECK_FALSE(two.server_sink.lost(two.to_client));

  const bool heals = GENERATE(true, false);
  if (heals)
    two.server.heal();
  else
    two.server.close(two.to_client);
  REQUIRE(two.server_sink.wait_lost(two.to_client));
  CHECK(two.server_sink.lost(two.to_client)->code == (heals ? errc::connection_lost : errc::cancelled));
  CHECK(two.done.each_once());
  clean(two.server_sink);
}

TEST_CASE("no connection comes about through a partition") {
  bench two({});
  two.client.cut();
  const auto hopeless = two.client.connect(two.at), closed = two.client.connect(two.at);
  REQUIRE(hopeless);
  REQUIRE(closed);
  auto rows = pattern(100, 1);
  REQUIRE(two.client.send_rows(*hopeless, {}, region_of(rows), two.done.next()));
  two.client.close(*closed);
  REQUIRE(two.client_sink.wait_lost(*closed));
  CHECK(two.client_sink.lost(*closed)->code == errc::cancelled);
  CHECK_FALSE(two.client_sink.lost(*hopeless));
  two.client.heal();
  REQUIRE(two.client_sink.wait_lost(*hopeless));
  CHECK(two.done.failed(errc::connection_lost) == 1);
  CHECK(two.server_sink.count(kind::accepted) == 1);

  two.server.cut();
  const auto late = two.client.connect(two.at);
  REQUIRE(late);
  REQUIRE(two.client_sink.wait_lost(*late));
  CHECK(two.server_sink.count(kind::accepted) == 1);
}
