#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/transport.hpp"

namespace baton::transports {

/// The wire of `inproc_transport`: a table of who listens under which name. Tests and embedders make one and
/// hand it to each transport that should reach the others; two networks never meet. Thread-safe.
class inproc_network {
 public:
  inproc_network();
  ~inproc_network();
  inproc_network(const inproc_network&) = delete;
  inproc_network& operator=(const inproc_network&) = delete;

 private:
  friend class inproc_transport;
  struct state;
  std::shared_ptr<state> state_;
};

/// A transport within one process. Rows are copied once, from the sender's memory into the landing, by the
/// receiver's thread. Addresses are "inproc:NAME"; "inproc:0" asks for a free name. A connection to nobody is
/// reported by `on_lost`.
class inproc_transport final : public transport {
 public:
  /// Starts the thread that calls `sink`; `sink` must outlive the transport.
  inproc_transport(const std::shared_ptr<inproc_network>& network, frame_sink& sink);

  /// Closes every connection (completions and `on_lost` still run) and joins the thread. Not from within a
  /// sink call.
  ~inproc_transport() override;

  [[nodiscard]] capabilities abilities() const override;
  result<std::string> listen(std::string_view address) override;
  result<connection_id> connect(std::string_view address) override;
  result<void> send_message(connection_id to, std::vector<std::byte> message) override;
  result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         completion done) override;
  void close(connection_id which) override;
  [[nodiscard]] std::string carrier(connection_id which) const override;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace baton::transports
