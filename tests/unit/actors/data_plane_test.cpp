#include "actors/data_plane.hpp"

#include <catch2/catch.hpp>

#include <cstring>

#include "gpu/host_device.hpp"
#include "schemas/codec.hpp"
#include "tests/unit/transports/recording_sink.hpp"
#include "transports/tcp_transport.hpp"

using namespace baton;
using namespace baton::actors;
using transports::test::bytes;
using transports::test::recording_sink;

namespace {

data_plane::options plane_options() {
  data_plane::options how;
  how.self = {"standby", incarnation{7}};
  how.replicas.places = std::make_shared<protocol::engine_places>(4, 2);
  return how;
}

/// A frame of Cap'n Proto: segment table and words.
bytes of_words(const std::vector<std::uint64_t>& words) {
  bytes out(words.size() * 8);
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

bytes of_600_segments() {
  std::vector<std::uint64_t> words(301 + 1);
  words[0] = 599 | std::uint64_t{1} << 32;
  return of_words(words);
}

bytes nested_70_deep() {
  std::vector<std::uint64_t> words{std::uint64_t{71} << 32};
  words.resize(1 + 70, std::uint64_t{1} << 48);  // structs of one pointer, each the next word
  words.push_back(0);
  return of_words(words);
}

}  // namespace

TEST_CASE("case 63: frames past the limits are refused, and the next one is answered") {
  const auto device = gpu::make_host_device({64, 4});
  data_plane plane{plane_options(), *device, [](protocol::replica_effects, gpu::staging_slot) {}};
  recording_sink answers;
  transports::tcp_transport standby{plane};
  plane.attach(standby);
  const auto address = standby.listen("127.0.0.1:0");
  REQUIRE(address);
  transports::tcp_transport primary{answers};
  const auto connection = primary.connect(*address);
  REQUIRE(connection);

  CHECK(primary.send_message(*connection, bytes(65U << 20)).code() == errc::invalid_argument);
  for (const bytes& bad : {of_600_segments(), nested_70_deep()})
    REQUIRE(primary.send_message(*connection, bad));
  const link_hello to_another_life{{"primary", incarnation{3}}, {"standby", incarnation{6}}, {}, {}};
  REQUIRE(primary.send_message(*connection, encode(link_frame{to_another_life})));
  const link_refusal answer{errc::unavailable, "this is standby in another incarnation"};
  REQUIRE(answers.wait_for_message(encode(link_frame{answer})));
  CHECK(answers.count(recording_sink::kind::message) == 1);
  CHECK(answers.count(recording_sink::kind::lost) == 0);
}
