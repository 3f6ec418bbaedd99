#include "actors/dialer.hpp"

#include <poll.h>

#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/multiplexer.hpp>

#include "transports/socket_address.hpp"

namespace baton::actors {

namespace {

/// Waits until the socket stands or `limits::connect_deadline` has passed.
result<transports::detail::unique_fd> connect_in_time(const endpoint& to) {
  const std::string text = to.host + ":" + std::to_string(to.port);
  const auto at = transports::detail::parse_address(text, false);
  if (!at) return at.failure();
  auto made = transports::detail::begin_connect(*at);
  if (!made) return made;
  pollfd writable{made->get(), POLLOUT, 0};
  if (::poll(&writable, 1, static_cast<int>(limits::connect_deadline.count())) != 1)
    return {errc::timed_out, "nobody answers at " + text};
  if (const auto stands = transports::detail::connection_outcome(made->get()); !stands)
    return stands.failure();
  return made;
}

class single_dial : public caf::io::middleman_actor_impl {
 public:
  using middleman_actor_impl::middleman_actor_impl;

 protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    auto made = connect_in_time({host, port});
    if (!made) return caf::make_error(caf::sec::cannot_connect_to_node, made.failure().what);
    return system().middleman().backend().new_scribe(made->release());
  }
};

}  // namespace

caf::io::middleman_actor begin_dial(caf::actor_system& system) {
  return system.spawn<single_dial, caf::detached + caf::hidden>(
      system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")));
}

}  // namespace baton::actors
