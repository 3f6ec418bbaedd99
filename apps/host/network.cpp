#include "apps/host/network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "apps/host/child_process.hpp"

namespace baton::apps::host {
namespace {

constexpr std::chrono::milliseconds command_timeout{5000};
constexpr const char* own_namespace = "/proc/thread-self/ns/net";

std::string system_error(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

/// A new namespace, held open; the caller's thread stays where it was.
result<int> new_namespace() {
  const int home = ::open(own_namespace, O_RDONLY | O_CLOEXEC);
  if (home < 0) return {errc::io_failed, system_error(own_namespace)};
  if (::unshare(CLONE_NEWNET) != 0) {
    const auto why = system_error("making a network namespace");
    ::close(home);
    return {errc::io_failed, why};
  }
  const int made = ::open(own_namespace, O_RDONLY | O_CLOEXEC);
  const int opened = errno;
  BATON_ASSERT(::setns(home, CLONE_NEWNET) == 0);
  ::close(home);
  if (made < 0) return {errc::io_failed, std::string(own_namespace) + ": " + std::strerror(opened)};
  return made;
}

std::string find_ip() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"})
    if (::access(path, X_OK) == 0) return path;
  return {};
}

/// Runs `ip` with each line of arguments, within a namespace.
result<void> run_ip(int network_namespace, const std::vector<std::vector<std::string>>& lines) {
  const std::string ip = find_ip();
  for (const auto& line : lines) {
    std::vector<std::string> command{ip};
    command.insert(command.end(), line.begin(), line.end());
    if (const auto ran = run_program(command, command_timeout, network_namespace); !ran) return ran.failure();
  }
  return {};
}

}  // namespace

int socket_in(int network_namespace, int type) {
  if (network_namespace < 0) return ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  const int home = ::open(own_namespace, O_RDONLY | O_CLOEXEC);
  if (home < 0) return -1;
  int made = -1;
  int failure = 0;
  if (::setns(network_namespace, CLONE_NEWNET) == 0) {
    made = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
    failure = errno;
    BATON_ASSERT(::setns(home, CLONE_NEWNET) == 0);
  } else {
    failure = errno;
  }
  ::close(home);
  errno = failure;
  return made;
}

result<std::uint16_t> free_port() {
  constexpr int tries = 100;
  constexpr std::uint16_t first = 20000;
  constexpr std::uint16_t last = 32000;  // below the range of outgoing connections
  std::random_device random;
  for (int i = 0; i < tries; ++i) {
    const auto port = static_cast<std::uint16_t>(first + random() % (last - first));
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return {errc::io_failed, system_error("socket")};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool taken = ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0;
    ::close(probe);
    if (!taken) return port;
  }
  return {errc::io_failed,
          "no free port on 127.0.0.1 from " + std::to_string(first) + " to " + std::to_string(last)};
}

result<virtual_network> virtual_network::make(const std::vector<std::string>& names) {
  if (::geteuid() != 0)
    return {errc::unsupported, "cutting the network needs root, to make network namespaces"};
  if (find_ip().empty())
    return {errc::unsupported, "cutting the network needs the program ip, of the package iproute2"};
  virtual_network net;
  const auto hub = new_namespace();
  if (!hub) return hub.failure();
  net.hub_ = *hub;
  auto set_up = run_ip(net.hub_, {{"link", "set", "lo", "up"},
                                  {"link", "add", "hub0", "type", "bridge"},
                                  {"address", "add", hub_address() + "/24", "dev", "hub0"},
                                  {"link", "set", "hub0", "up"}});
  if (!set_up) return set_up.failure();
  unsigned number = 11;
  for (const auto& name : names)
    if (auto joined = net.join(name, number++); !joined) return joined.failure();
  net.control_ = socket_in(net.hub_, SOCK_DGRAM);
  if (net.control_ < 0) return {errc::io_failed, system_error("a socket in the hub")};
  return net;
}

result<void> virtual_network::join(const std::string& name, unsigned number) {
  const auto made = new_namespace();
  if (!made) return made.failure();
  members_[name] = *made;
  addresses_[name] = "10.77.0." + std::to_string(number);
  ports_[name] = "port" + std::to_string(number);
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(*made);
  auto joined =
      run_ip(hub_, {{"link", "add", ports_[name], "type", "veth", "peer", "name", device(), "netns", path},
                    {"link", "set", ports_[name], "master", "hub0"},
                    {"link", "set", ports_[name], "up"}});
  if (!joined) return joined;
  return run_ip(*made, {{"link", "set", "lo", "up"},
                        {"address", "add", addresses_[name] + "/24", "dev", device()},
                        {"link", "set", device(), "up"}});
}

result<void> virtual_network::set_link(const std::string& name, bool up) {
  ifreq request{};
  std::strncpy(request.ifr_name, ports_.at(name).c_str(), IFNAMSIZ - 1);
  if (::ioctl(control_, SIOCGIFFLAGS, &request) != 0)
    return {errc::io_failed, system_error("reading a link's state")};
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  if (::ioctl(control_, SIOCSIFFLAGS, &request) != 0)
    return {errc::io_failed, system_error("setting a link's state")};
  return {};
}

virtual_network::virtual_network(virtual_network&& other) noexcept
    : hub_(std::exchange(other.hub_, -1)),
      control_(std::exchange(other.control_, -1)),
      members_(std::exchange(other.members_, {})),
      addresses_(std::move(other.addresses_)),
      ports_(std::move(other.ports_)) {}

virtual_network::~virtual_network() {
  if (control_ >= 0) ::close(control_);
  if (hub_ >= 0) ::close(hub_);
  for (const auto& [name, descriptor] : members_)
    ::close(descriptor);
}

}  // namespace baton::apps::host
