#include <utility>  // caf/meta/load_callback.hpp forgets it

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <catch2/catch.hpp>

#include <cstring>

#include "actors/interfaces.hpp"
#include "actors/runtime.hpp"
#include "actors/system.hpp"

/// What a peer may send on the control plane: case 63 of the field.
using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

/// A message of any bytes, as a peer could send it: a heartbeat by its type only.
wire<heartbeat> of_words(caf::actor_system& system, const std::vector<std::uint64_t>& words) {
  std::vector<char> bytes(words.size() * 8);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  std::vector<char> written;
  caf::binary_serializer sink{system, written};
  REQUIRE_FALSE(sink(bytes));
  wire<heartbeat> message;
  caf::binary_deserializer source{system, written};
  REQUIRE_FALSE(source(message));
  return message;
}

std::vector<std::uint64_t> of_600_segments() {
  std::vector<std::uint64_t> words(301 + 1);
  words[0] = 599 | std::uint64_t{1} << 32;
  return words;
}

std::vector<std::uint64_t> nested_70_deep() {
  std::vector<std::uint64_t> words{std::uint64_t{71} << 32};
  words.resize(1 + 70, std::uint64_t{1} << 48);  // structs of one pointer, each the next word
  words.push_back(0);
  return words;
}

}  // namespace

TEST_CASE("case 63: messages past the limits are refused, and the next one is answered") {
  auto control = runtime::start(2);
  REQUIRE(control);
  orchestrator_options how;
  how.listen = "127.0.0.1:0";
  how.store = "sqlite::memory:";
  const auto address = (*control)->add_orchestrator(how);
  REQUIRE(address);
  held_system peer{2};
  const auto port = static_cast<std::uint16_t>(std::stoul(address->substr(address->rfind(':') + 1)));
  auto orchestrator = peer.get().middleman().remote_actor<orchestrator_actor>("127.0.0.1", port);
  REQUIRE(orchestrator);
  caf::scoped_actor self{peer.get()};
  const auto answer_to = [&](const wire<heartbeat>& message, std::chrono::milliseconds patience) {
    std::optional<heartbeat_ack> answer;
    self->request(*orchestrator, patience, message)
        .receive([&](const wire<heartbeat_ack>& ack) { answer = *ack.read(); }, [](const caf::error&) {});
    return answer;
  };
  heartbeat normal;
  normal.node = {"peer", incarnation{1}};
  normal.sequence = 1;
  heartbeat huge = normal;
  huge.figures.assign(65U << 20, ' ');

  for (int round = 0; round < 2; ++round) {
    CHECK_FALSE(answer_to(huge, 2s));
    for (const auto& words : {of_600_segments(), nested_70_deep()}) {
      const auto refusal = answer_to(of_words(peer.get(), words), 20s);
      REQUIRE(refusal);
      CHECK(refusal->sequence == 0);
      CHECK_FALSE(refusal->known);
    }
    normal.sequence += 1;
    const auto answer = answer_to(normal, 20s);
    REQUIRE(answer);
    CHECK(answer->sequence == normal.sequence);
  }
  (*control)->stop();
}
