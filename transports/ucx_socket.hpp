#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schemas/errors.hpp"
#include "transports/socket_address.hpp"
#include "transports/unique_fd.hpp"

/// The ordinary socket beside each UCX connection: it carries the two workers' addresses once, and then only
/// tells, by ending, that the peer has closed or died. UCX's own connection manager is not used: release 1.13
/// aborts the process when an endpoint is closed while it connects. For this room only.
namespace baton::transports::detail {

/// A word in this process that a peer on the same machine may try to read.
struct memory_probe {
  memory_probe();
  std::uint64_t address = 0;
  std::uint64_t word = 0;
};

/// One side's end of the socket. Never blocks; the owner calls `advance` whenever the descriptor is ready.
class ucx_socket {
 public:
  /// Begins to connect.
  static result<ucx_socket> connect_to(const socket_address& to);
  /// Takes an accepted descriptor.
  static ucx_socket accepted(unique_fd descriptor) { return ucx_socket(std::move(descriptor)); }

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

  /// Queues our worker's address for the peer. Once.
  void say(const std::vector<std::byte>& worker_address);

  /// Connects, writes and reads as far as it goes; whether the peer's address has come. `malformed` if what
  /// came is not ours or another version, `connection_lost` if it ended.
  result<bool> advance();
  /// Bytes wait to be written, or the connection to be made: wait for "writable" too.
  [[nodiscard]] bool wants_to_write() const noexcept { return connecting_ || !out_.empty(); }
  /// What the peer said; after `advance` has said so.
  [[nodiscard]] std::vector<std::byte> take_peer_address() { return std::move(peer_address_); }
  [[nodiscard]] const memory_probe& peer_probe() const noexcept { return peer_probe_; }

  /// After the exchange: whether the peer still holds its end. Nothing more is ever said over it.
  [[nodiscard]] bool peer_holds() const;
  /// The process at the other end, over a local socket; 0 if unknown. False if it belongs to another user.
  [[nodiscard]] bool peer_process(pid_t& process) const;

 private:
  explicit ucx_socket(unique_fd descriptor) : descriptor_(std::move(descriptor)) {}
  result<bool> read_some();

  unique_fd descriptor_;
  bool connecting_ = false;
  std::vector<std::byte> out_, in_, peer_address_;
  memory_probe peer_probe_;
};

}  // namespace baton::transports::detail
