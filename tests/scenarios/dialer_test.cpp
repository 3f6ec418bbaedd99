#include "actors/dialer.hpp"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <future>
#include <vector>

#include "actors/system.hpp"
#include "transports/socket_address.hpp"

using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

using echo = caf::typed_actor<caf::replies_to<int>::with<int>>;

echo::behavior_type answering() {
  return {[](int number) { return number; }};
}

/// An address where connections neither come about nor are refused, as of a machine that has vanished: a
/// listener that accepts nobody and whose queue is full.
class vanished_host {
 public:
  vanished_host() {
    const auto any = transports::detail::parse_address("127.0.0.1:0", false);
    auto made = transports::detail::listen_at(*any);
    listener_ = std::move(made->descriptor);
    address = made->address;
    REQUIRE(::listen(listener_.get(), 0) == 0);
    const auto here = transports::detail::parse_address(address, false);
    for (int i = 0; i < 4; ++i)
      waiting_.push_back(std::move(*transports::detail::begin_connect(*here)));
  }
  std::string address;

 private:
  transports::detail::unique_fd listener_;
  std::vector<transports::detail::unique_fd> waiting_;
};

/// Dials from an actor of its own; what came of it.
std::future<std::string> dial_in(caf::actor_system& system, const std::string& address) {
  auto outcome = std::make_shared<std::promise<std::string>>();
  system.spawn([outcome, address](caf::event_based_actor* self) {
    dial<echo>(
        self, nullptr, address, [outcome](const echo&) { outcome->set_value("found"); },
        [outcome](const error& why) { outcome->set_value(why.what); });
  });
  return outcome->get_future();
}

}  // namespace

TEST_CASE("dialer: who is there is found, another kind of process and nobody are told apart") {
  held_system there{2}, here{2};
  auto published = there.get().spawn(answering);
  const auto at = publish(there.get(), nullptr, published, "127.0.0.1:0");
  auto stranger = there.get().spawn([] { return caf::behavior{[](double) {}}; });
  const auto elsewhere = publish(there.get(), nullptr, stranger, "127.0.0.1:0");
  REQUIRE(at);
  REQUIRE(elsewhere);
  CHECK(dial_in(here.get(), *at).get() == "found");
  CHECK(dial_in(here.get(), *at).get() == "found");  // over the connection that stands
  CHECK_THAT(dial_in(here.get(), *elsewhere).get(), Catch::Contains("another kind of process"));
  CHECK_THAT(dial_in(here.get(), "127.0.0.1:1").get(), Catch::Contains("127.0.0.1:1"));
  CHECK_THAT(dial_in(here.get(), "no port").get(), Catch::Contains("HOST:PORT"));
  caf::anon_send_exit(published, caf::exit_reason::kill);
  caf::anon_send_exit(stranger, caf::exit_reason::kill);
}

TEST_CASE("dialer: a machine that has vanished holds nobody up, and is given up in time") {
  held_system there{2}, here{2};
  auto published = there.get().spawn(answering);
  const auto at = publish(there.get(), nullptr, published, "127.0.0.1:0");
  REQUIRE(at);
  const vanished_host gone;
  const auto begin = std::chrono::steady_clock::now();
  auto never = dial_in(here.get(), gone.address);
  auto other = dial_in(here.get(), *at);
  REQUIRE(other.wait_for(10s) == std::future_status::ready);
  CHECK(other.get() == "found");
  CHECK(never.wait_for(0s) == std::future_status::timeout);
  REQUIRE(never.wait_for(10s) == std::future_status::ready);
  CHECK_THAT(never.get(), Catch::Contains(gone.address));
  CHECK(std::chrono::steady_clock::now() - begin >= limits::connect_deadline);
  caf::anon_send_exit(published, caf::exit_reason::kill);
}
