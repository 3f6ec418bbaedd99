#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/memory.hpp"

/// The data plane between two nodes: ordered messages, and KV rows whose bytes are never copied on the way
/// where the fabric allows it. One contract, several bodies (`inproc`, `tcp`, `ucx`); one contract test
/// runs against each.
///
/// What a transport promises:
/// - Frames of one connection arrive in the order sent, whole, at most once. A frame is either delivered or
///   lost with its connection; a lost connection is always reported, once, by `on_lost`.
/// - What arrives may still be stale or damaged: epochs, chains and checksums are the protocol's work.
/// - The fate of sent memory is always reported: the completion of `send_rows` runs exactly once, and only
///   after it has run may the memory be written again (design rule 11). "Sent" is not "arrived": only the
///   receiver's own acknowledgement says that.
/// - Memory handed out by `on_rows` is written only until `on_landed` runs for it, which happens exactly
///   once. After a failed landing the memory may still be written by a fabric with `late_writes`: quarantine
///   it.
/// - It authenticates nobody and encrypts nothing: bind it to a network that only the cluster can reach.
namespace baton::transports {

/// Names a connection within one transport; never reused within the life of the transport.
enum class connection_id : std::uint64_t {};

/// What a transport can do; asked before anything else.
struct capabilities {
  std::string_view name;       ///< "inproc", "tcp", "ucx"
  bool crosses_hosts = false;  ///< reaches other machines
  bool detects_frozen_peers =
      false;                   ///< reports a stopped or cut-off peer by itself; otherwise deadlines must
  bool late_writes = false;    ///< memory of a failed landing may still be written to
  bool device_memory = false;  ///< sends from and lands in GPU memory
  std::size_t max_descriptor_bytes = 0;
};

/// Receives what arrives. All calls of one transport come from one thread of its own, never concurrently;
/// they must not block, and may call back into the transport.
class frame_sink {
 public:
  virtual ~frame_sink() = default;

  /// A peer has connected to our listening address.
  virtual void on_accepted(connection_id from) = 0;
  /// A message has arrived; `message` is valid during the call and aligned to 8 bytes.
  virtual void on_message(connection_id from, std::span<const std::byte> message) = 0;
  /// Rows of `size_bytes` announce themselves by their descriptor (aligned to 8 bytes, valid during the
  /// call). Returns memory of at least that size to land in, or an empty region to refuse: the rows are then
  /// dropped. Memory too small, or out of the transport's reach, refuses too and is given back by a failed
  /// `on_landed`.
  virtual memory_region on_rows(connection_id from, std::span<const std::byte> descriptor,
                                std::size_t size_bytes) = 0;
  /// The rows announced by the `on_rows` that returned `landing` have landed whole, or failed to. In order
  /// per connection for those that succeed; messages sent after the rows may arrive before.
  virtual void on_landed(connection_id from, memory_region landing, result<void> outcome) = 0;
  /// The connection is gone; no further call comes for it, and each pending landing of it has been failed
  /// before.
  virtual void on_lost(connection_id from, const error& reason) = 0;
};

/// See the promises above. Every member may be called from any thread, also from within a `frame_sink` call.
class transport {
 public:
  /// Runs once on the transport's thread when the memory of a send is free again.
  using completion = std::function<void(result<void>)>;

  virtual ~transport() = default;

  [[nodiscard]] virtual capabilities abilities() const = 0;

  /// Starts to accept connections; call at most once. Returns the address that others connect to
  /// ("127.0.0.1:41234"), with a port chosen by the system where 0 was asked for.
  virtual result<std::string> listen(std::string_view address) = 0;

  /// Begins to connect; does not wait. A connection that does not come about is reported by `on_lost`. Frames
  /// sent before it stands are kept in order.
  virtual result<connection_id> connect(std::string_view address) = 0;

  /// Sends a message of at most `limits::message_bytes`. Fails with `no_room` when the connection's queue is
  /// full, `connection_lost` when it is gone.
  virtual result<void> send_message(connection_id to, std::vector<std::byte> message) = 0;

  /// Sends `rows` under a descriptor of at most `abilities().max_descriptor_bytes`. On success the memory is
  /// borrowed until `done` runs; on failure `done` is never called. `done` may be empty.
  virtual result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                                 completion done) = 0;

  /// Closes at once: pending sends complete with `cancelled`, pending landings fail, then `on_lost` comes
  /// with `cancelled`. Unknown connections are ignored.
  virtual void close(connection_id which) = 0;

  /// What really carries the bytes of a connection, e.g. "ucx tcp/lo" or "inproc"; for reports.
  [[nodiscard]] virtual std::string carrier(connection_id which) const = 0;
};

}  // namespace baton::transports
