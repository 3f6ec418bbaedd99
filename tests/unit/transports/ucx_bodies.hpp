#pragma once

#include <memory>
#include <string>

#include "transports/ucx_transport.hpp"

namespace baton::transports::test {

/// The UCX bodies by name: "ucx tcp" over the loopback device, "ucx shm" over shared memory.
inline std::unique_ptr<transport> make_ucx(const std::string& name, frame_sink& sink) {
  ucx_options how;
  how.devices = "lo";
  how.shared_memory = name == "ucx shm";
  return std::make_unique<ucx_transport>(how, sink);
}

/// An address to listen at of which the system chooses the rest.
inline std::string any_ucx_address(const std::string& name) { return name == "ucx shm" ? "shm:0" : "127.0.0.1:0"; }

inline std::string expected_ucx_carrier(const std::string& name) {
  return name == "ucx shm" ? "ucx posix/memory, rows read across processes" : "ucx tcp/lo";
}

}  // namespace baton::transports::test
