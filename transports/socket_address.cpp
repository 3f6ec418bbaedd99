#include "transports/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace baton::transports::detail {
namespace {

constexpr std::string_view local_scheme = "shm:";

void set(int descriptor, int level, int option, int value) {
  (void)::setsockopt(descriptor, level, option, &value, sizeof value);
}

/// The abstract namespace: no file to leave behind.
result<socket_address> parse_local(std::string_view text) {
  sockaddr_un at{};
  const auto name = text.substr(std::min(text.size(), local_scheme.size()));
  if (!text.starts_with(local_scheme) || name.empty() || name.size() + 7 > sizeof at.sun_path)
    return {errc::invalid_argument, "not an address of the form shm:NAME: " + std::string(text)};
  std::string full(name);
  if (name == "0") {
    static std::atomic<unsigned> next{1};
    full = std::to_string(::getpid()) + "." + std::to_string(next++);
  }
  full = "baton." + full;
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, full.data(), full.size());
  socket_address made;
  made.size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  std::memcpy(&made.storage, &at, sizeof at);
  return made;
}

std::string to_text(const sockaddr_storage& address, socklen_t size_bytes) {
  if (address.ss_family == AF_UNIX) {
    const auto& at = reinterpret_cast<const sockaddr_un&>(address);
    const auto prefix = std::string_view("baton.").size() + 1;
    return std::string(local_scheme) +
           std::string(at.sun_path + prefix, size_bytes - offsetof(sockaddr_un, sun_path) - prefix);
  }
  char host[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    const auto& at = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &at.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(at.sin6_port));
  }
  const auto& at = reinterpret_cast<const sockaddr_in&>(address);
  ::inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(ntohs(at.sin_port));
}

}  // namespace

error system_error(errc code, std::string_view doing) {
  return {code, std::string(doing) + ": " + std::strerror(errno)};
}

result<socket_address> parse_address(std::string_view text, bool shared_memory) {
  if (shared_memory) return parse_local(text);
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size())
    return {errc::invalid_argument, "not an address of the form HOST:PORT: " + std::string(text)};
  std::string host(text.substr(0, colon));
  const std::string port(text.substr(colon + 1));
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0)
    return {errc::invalid_argument, "cannot resolve " + std::string(text) + ": " + ::gai_strerror(failed)};
  socket_address made;
  std::memcpy(&made.storage, found->ai_addr, found->ai_addrlen);
  made.size_bytes = found->ai_addrlen;
  ::freeaddrinfo(found);
  return made;
}

result<listening_socket> listen_at(const socket_address& at) {
  listening_socket made;
  made.descriptor = unique_fd(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.descriptor) return system_error(errc::io_failed, "making a socket");
  const int descriptor = made.descriptor.get();
  set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);  // a node that restarts gets its port back
  if (::bind(descriptor, at.get(), at.size_bytes) != 0 || ::listen(descriptor, 64) != 0)
    return system_error(errc::io_failed, "listening at " + to_text(at.storage, at.size_bytes));
  sockaddr_storage got{};
  socklen_t size_bytes = sizeof got;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&got), &size_bytes) != 0)
    return system_error(errc::io_failed, "asking for the address of a socket");
  made.address = to_text(got, size_bytes);
  return made;
}

result<unique_fd> begin_connect(const socket_address& to) {
  unique_fd made(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return system_error(errc::io_failed, "making a socket");
  // A local listener whose backlog is full says EAGAIN and is not connected to: as good as nobody there.
  if (::connect(made.get(), to.get(), to.size_bytes) != 0 && errno != EINPROGRESS)
    return system_error(errc::connection_lost, "connecting to " + to_text(to.storage, to.size_bytes));
  return made;
}

result<bool> connection_outcome(int descriptor) {
  int failed = 0;
  socklen_t size_bytes = sizeof failed;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failed, &size_bytes) == 0 && failed != 0) {
    errno = failed;
    return system_error(errc::connection_lost, "connecting");
  }
  sockaddr_storage peer{}, own{};
  socklen_t peer_bytes = sizeof peer, own_bytes = sizeof own;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return false;
  // On one host a socket may get the very port it connects to, where nobody listens, and meet itself.
  if (peer.ss_family != AF_UNIX &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
      own_bytes == peer_bytes && std::memcmp(&own, &peer, own_bytes) == 0)
    return {errc::connection_lost, "connecting: nobody listens there"};
  return true;
}

unique_fd accept_next(int listener) {
  return unique_fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void tune(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT,
      5000);  // milliseconds: keep-alive is silent while data is on its way
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace baton::transports::detail
