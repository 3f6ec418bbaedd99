#include "transports/ucx_socket.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ucp/api/ucp.h>

namespace baton::transports::detail {
namespace {

std::uint32_t running_ucx() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major << 16 | minor << 8 | release;
}

/// Precedes the worker's address. Machines of one cluster share their byte order.
struct preamble {
  char magic[8] = {'b', 'a', 't', 'o', 'n', 'u', 'c', 'x'};
  std::uint32_t version = 1;                  // of this exchange and of the frames that follow
  std::uint32_t ucx_version = running_ucx();  // releases of UCX do not understand each other
  memory_probe probe;
  std::uint64_t address_bytes = 0;
};
/// A worker's address takes tens of bytes per device.
constexpr std::uint64_t longest_address = 64U << 10;

}  // namespace

memory_probe::memory_probe() {
  static const std::uint64_t readable = 0x6261746f6e2d7078;
  address = reinterpret_cast<std::uint64_t>(&readable);
  word = readable;
}

result<ucx_socket> ucx_socket::connect_to(const socket_address& to) {
  auto descriptor = begin_connect(to);
  if (!descriptor) return descriptor.failure();
  ucx_socket made(std::move(*descriptor));
  made.connecting_ = true;
  return made;
}

void ucx_socket::say(const std::vector<std::byte>& worker_address) {
  tune(descriptor());
  preamble head;
  head.address_bytes = worker_address.size();
  const auto* raw = reinterpret_cast<const std::byte*>(&head);
  out_.insert(out_.end(), raw, raw + sizeof head);
  out_.insert(out_.end(), worker_address.begin(), worker_address.end());
}

result<bool> ucx_socket::advance() {
  if (connecting_) {
    auto stands = connection_outcome(descriptor());
    if (!stands || !*stands) return stands;
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
    return {errc::connection_lost,
            got == 0 ? std::string("the peer closed") : std::string(std::strerror(failed))};
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
  if (::getsockname(descriptor(), reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
      own.ss_family != AF_UNIX)
    return true;
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &who, &size_bytes) != 0) return false;
  process = who.pid;
  return who.uid == ::geteuid() || who.uid == 0;
}

}  // namespace baton::transports::detail
