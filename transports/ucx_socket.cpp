#include "transports/ucx_socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ucp/api/ucp.h>

namespace baton::transports::detail {
namespace {

constexpr std::string_view local_scheme = "shm:";

std::uint32_t running_ucx() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major << 16 | minor << 8 | release;
}

/// Precedes the worker's address. Machines of one cluster share their byte order.
struct preamble {
  char magic[8] = {'b', 'a', 't', 'o', 'n', 'u', 'c', 'x'};
  std::uint32_t version = 1;  // of this exchange and of the frames that follow
  std::uint32_t ucx_version = running_ucx();  // releases of UCX do not understand each other
  memory_probe probe;
  std::uint64_t address_bytes = 0;
};
/// A worker's address takes tens of bytes per device.
constexpr std::uint64_t longest_address = 64U << 10;

error system_error(errc code, std::string_view doing) {
  return {code, std::string(doing) + ": " + std::strerror(errno)};
}

void set(int descriptor, int level, int option, int value) {
  (void)::setsockopt(descriptor, level, option, &value, sizeof value);
}

/// The kernel tells of a machine that is gone within about four seconds.
void keep_alive(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
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

memory_probe::memory_probe() {
  static const std::uint64_t readable = 0x6261746f6e2d7078;
  address = reinterpret_cast<std::uint64_t>(&readable);
  word = readable;
}

unique_fd& unique_fd::operator=(unique_fd&& from) noexcept {
  if (this != &from) {
    reset();
    descriptor_ = from.release();
  }
  return *this;
}

int unique_fd::release() noexcept { return std::exchange(descriptor_, -1); }

void unique_fd::reset() noexcept {
  if (descriptor_ >= 0) ::close(release());
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

result<ucx_socket> ucx_socket::connect_to(const socket_address& to) {
  unique_fd descriptor(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!descriptor) return system_error(errc::io_failed, "making a socket");
  ucx_socket made(std::move(descriptor));
  if (::connect(made.descriptor(), to.get(), to.size_bytes) != 0) {
    // A local listener whose backlog is full says EAGAIN and is not connected to: as good as nobody there.
    if (errno != EINPROGRESS)
      return system_error(errc::connection_lost, "connecting to " + to_text(to.storage, to.size_bytes));
    made.connecting_ = true;
  }
  return made;
}

void ucx_socket::say(const std::vector<std::byte>& worker_address) {
  if (descriptor_) keep_alive(descriptor());
  preamble head;
  head.address_bytes = worker_address.size();
  const auto* raw = reinterpret_cast<const std::byte*>(&head);
  out_.insert(out_.end(), raw, raw + sizeof head);
  out_.insert(out_.end(), worker_address.begin(), worker_address.end());
}

result<bool> ucx_socket::advance() {
  if (connecting_) {
    int failed = 0;
    socklen_t size_bytes = sizeof failed;
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer;
    if (::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &failed, &size_bytes) == 0 && failed != 0) {
      errno = failed;
      return system_error(errc::connection_lost, "connecting");
    }
    if (::getpeername(descriptor(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return false;  // not yet
    connecting_ = false;
  }
  while (!out_.empty()) {
    const auto written = ::send(descriptor(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (written <= 0) return system_error(errc::connection_lost, "greeting the peer");
    out_.erase(out_.begin(), out_.begin() + written);
  }
  return read_some();
}

/// Reads no byte beyond the address, so that whatever comes later shows as a fault.
result<bool> ucx_socket::read_some() {
  for (;;) {
    std::size_t wanted = sizeof(preamble);
    if (in_.size() >= sizeof(preamble)) {
      preamble head, ours;
      std::memcpy(&head, in_.data(), sizeof head);
      if (std::memcmp(head.magic, ours.magic, sizeof ours.magic) != 0 || head.version != ours.version)
        return {errc::malformed, "the peer does not speak this protocol"};
      if (head.ucx_version != ours.ucx_version)
        return {errc::malformed, "the peer runs another release of UCX"};
      if (head.address_bytes == 0 || head.address_bytes > longest_address)
        return {errc::malformed, "an address of " + std::to_string(head.address_bytes) + " bytes"};
      wanted += head.address_bytes;
    }
    if (in_.size() == wanted) {
      preamble head;
      std::memcpy(&head, in_.data(), sizeof head);
      peer_probe_ = head.probe;
      peer_address_.assign(in_.begin() + sizeof(preamble), in_.end());
      in_.clear();
      return true;
    }
    const auto held = in_.size();
    in_.resize(wanted);
    const auto got = ::recv(descriptor(), in_.data() + held, wanted - held, 0);
    const int failed = errno;
    in_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) continue;
    if (got < 0 && (failed == EAGAIN || failed == EINTR)) return false;
    return {errc::connection_lost, got == 0 ? std::string("the peer closed") : std::string(std::strerror(failed))};
  }
}

bool ucx_socket::peer_holds() const {
  std::byte ignored{};
  const auto got = ::recv(descriptor(), &ignored, 1, MSG_PEEK);
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

bool ucx_socket::peer_process(pid_t& process) const {
  process = 0;
  ucred who{};
  socklen_t size_bytes = sizeof who;
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  if (::getsockname(descriptor(), reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 || own.ss_family != AF_UNIX)
    return true;
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &who, &size_bytes) != 0) return false;
  process = who.pid;
  return who.uid == ::geteuid() || who.uid == 0;
}

}  // namespace baton::transports::detail
