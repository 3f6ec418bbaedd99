#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schemas/errors.hpp"

namespace baton::apps::host {

/// A port of 127.0.0.1 that nobody listens on now, outside of the range that outgoing connections are given.
result<std::uint16_t> free_port();

/// Machines in small: a network namespace for each name, joined by a bridge that stands in one more, the hub.
/// They have no names, and are held by this object and by the processes in them only: the kernel removes each
/// with the last of those, however they end. Needs root and iproute2.
class virtual_network {
 public:
  static result<virtual_network> make(const std::vector<std::string>& names);
  ~virtual_network();
  virtual_network(virtual_network&& other) noexcept;
  virtual_network& operator=(virtual_network&&) = delete;
  virtual_network(const virtual_network&) = delete;
  virtual_network& operator=(const virtual_network&) = delete;

  /// Namespaces, to start processes in and to connect from.
  [[nodiscard]] int hub() const noexcept { return hub_; }
  [[nodiscard]] int of(const std::string& name) const { return members_.at(name); }

  [[nodiscard]] static std::string hub_address() { return "10.77.0.1"; }
  [[nodiscard]] std::string address_of(const std::string& name) const { return addresses_.at(name); }
  /// The interface of a member, within its namespace.
  [[nodiscard]] static std::string device() { return "link0"; }

  /// Takes the link between a member and the bridge down (the cut of a cable: nobody is told), or up again.
  result<void> set_link(const std::string& name, bool up);

 private:
  virtual_network() = default;
  result<void> join(const std::string& name, unsigned number);

  int hub_ = -1;
  int control_ = -1;  // a socket in the hub, for `set_link`
  std::map<std::string, int> members_;
  std::map<std::string, std::string> addresses_;
  std::map<std::string, std::string> ports_;  // name → its end at the bridge
};

/// A TCP socket in another network namespace; -1: in ours. -1 with errno on failure.
int socket_in(int network_namespace, int type);

}  // namespace baton::apps::host
