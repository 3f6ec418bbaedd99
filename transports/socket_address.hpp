#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "schemas/errors.hpp"
#include "transports/unique_fd.hpp"

/// Addresses and sockets, as the bodies over sockets share them, and the dialer of the control plane.
namespace baton::transports::detail {

/// Where a socket listens or connects to: "HOST:PORT", "[HOST]:PORT", or "shm:NAME" within one machine.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t size_bytes = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// `shared_memory` chooses the form. A host name waits on the resolver, a numeric address never does; "shm:0"
/// names a free address. `invalid_argument` for anything else.
result<socket_address> parse_address(std::string_view text, bool shared_memory);

/// A listening socket that never blocks, and the address it got. `io_failed` when the address is in use.
struct listening_socket {
  unique_fd descriptor;
  std::string address;
};
result<listening_socket> listen_at(const socket_address& at);

/// A socket that begins to connect; it stands, or has failed, once it is writable (`connection_outcome`).
result<unique_fd> begin_connect(const socket_address& to);
/// Whether a socket that began to connect stands; false: not yet.
result<bool> connection_outcome(int descriptor);

/// Accepts the next peer that waits, if any.
unique_fd accept_next(int listener);

/// Small frames leave at once, and the kernel tells of a machine that is gone within about five seconds.
void tune(int descriptor);

/// `errno` as an error.
error system_error(errc code, std::string_view doing);

}  // namespace baton::transports::detail
