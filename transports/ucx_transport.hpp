#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/transport.hpp"

namespace baton::transports {

namespace detail {
class ucx_engine;
}

/// How a `ucx_transport` reaches its peers.
struct ucx_options {
  /// Network devices as UCX names them, comma-separated, e.g. "lo" or "eth0". Set it: with none, UCX spreads
  /// a connection over every device it finds.
  std::string devices;
  /// UCX transports, comma-separated; such as can tell a peer's death: "tcp", or "rc,tcp" for RDMA.
  std::string tls = "tcp";
  /// Rows of at least this size are fetched straight into the landing; smaller ones ride in the message and
  /// are copied once more. 0 leaves it to UCX.
  std::size_t rendezvous_bytes = 256U << 10;
  /// Instead of a network, shared memory between processes of one user on one machine (`tls` and `devices`
  /// are unused).
  bool shared_memory = false;
};

/// The network interface that has the host of an address "HOST:PORT", for `ucx_options::devices`; empty if
/// none has, as with a wildcard.
std::string device_of(std::string_view address);

/// The data plane over UCX active messages. One thread owns all of UCX and sleeps when there is nothing to
/// do.
///
/// - A connection begins over an ordinary socket, at an address "HOST:PORT" or "[HOST]:PORT", or "shm:NAME"
/// with shared
///   memory, where "shm:0" asks for a free name. UCX then uses ports of its own on the same devices. The
///   socket stays, and ends with its process: so a dead peer is reported at once, and a machine that is gone
///   in some four seconds. A frozen peer is not (`detects_frozen_peers`): set deadlines and call `close`.
/// - Both sides must run the same release of UCX; others are turned away as they connect.
/// - UCX variables that the user has set in the environment (UCX_TLS, UCX_NET_DEVICES, UCX_RNDV_THRESH) win
/// over the
///   options. UCX's own log is quieted, unless UCX_LOG_LEVEL is set.
/// - A host name waits on the resolver in the calling thread; a numeric address never waits. Listening on a
/// wildcard
///   address returns the wildcard, which others cannot connect to.
class ucx_transport final : public transport {
 public:
  /// Starts the thread that calls `sink`; `sink` must outlive the transport. Throws std::runtime_error when
  /// UCX does not start, e.g. for an unknown transport.
  ucx_transport(const ucx_options& how, frame_sink& sink);

  /// Closes every connection (completions and `on_lost` still run) and joins the thread, within a second also
  /// when peers are frozen. Not from within a sink call.
  ~ucx_transport() override;

  [[nodiscard]] capabilities abilities() const override;
  result<std::string> listen(std::string_view address) override;
  result<connection_id> connect(std::string_view address) override;
  result<void> send_message(connection_id to, std::vector<std::byte> message) override;
  result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         completion done) override;
  void close(connection_id which) override;
  /// "ucx" until the first frame has gone over the connection, then with what UCX chose, e.g. "ucx tcp/lo".
  [[nodiscard]] std::string carrier(connection_id which) const override;

 private:
  std::unique_ptr<detail::ucx_engine> engine_;
};

}  // namespace baton::transports
