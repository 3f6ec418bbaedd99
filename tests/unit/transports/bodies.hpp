#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "transports/tcp_transport.hpp"
#include "transports/ucx_transport.hpp"

namespace baton::transports::test {

/// The bodies that reach another process, by name: "tcp", "ucx tcp" over the loopback device, "ucx shm".
inline std::unique_ptr<transport> make_body(const std::string& name, frame_sink& sink) {
  if (name == "tcp") return std::make_unique<tcp_transport>(sink);
  if (name != "ucx tcp" && name != "ucx shm") throw std::runtime_error("no such body: " + name);
  ucx_options how;
  how.devices = "lo";
  how.shared_memory = name == "ucx shm";
  return std::make_unique<ucx_transport>(how, sink);
}

/// An address to listen at of which the system chooses the rest.
inline std::string any_address_of(const std::string& name) {
  return name == "ucx shm" ? "shm:0" : "127.0.0.1:0";
}

inline std::string expected_carrier_of(const std::string& name) {
  if (name == "ucx shm") return "ucx posix/memory, rows read across processes";
  return name == "ucx tcp" ? "ucx tcp/lo" : name;
}

}  // namespace baton::transports::test
