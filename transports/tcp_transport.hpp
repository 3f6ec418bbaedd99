#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/transport.hpp"

namespace baton::transports {

/// The data plane over ordinary TCP sockets: rows leave from the sender's memory and are received straight
/// into the landing; the kernel's copies are the only ones. One thread per transport, which sleeps when there
/// is nothing to do.
///
/// - A dead peer is reported at once, a machine that is gone within about five seconds. A frozen peer is not
///   (`detects_frozen_peers`): set deadlines and call `close`.
/// - Addresses are "HOST:PORT" or "[HOST]:PORT". A host name waits on the resolver in the calling thread; a
/// numeric
///   address never waits. Listening on a wildcard address returns the wildcard, which others cannot connect
///   to.
class tcp_transport final : public transport {
 public:
  /// Starts the thread that calls `sink`; `sink` must outlive the transport. Throws std::runtime_error when
  /// the process has no file descriptors left.
  explicit tcp_transport(frame_sink& sink);

  /// Closes every connection (completions and `on_lost` still run) and joins the thread; waits for no peer.
  /// Not from within a sink call.
  ~tcp_transport() override;

  [[nodiscard]] capabilities abilities() const override;
  result<std::string> listen(std::string_view address) override;
  result<connection_id> connect(std::string_view address) override;
  result<void> send_message(connection_id to, std::vector<std::byte> message) override;
  result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         completion done) override;
  void close(connection_id which) override;
  [[nodiscard]] std::string carrier(connection_id which) const override;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace baton::transports
