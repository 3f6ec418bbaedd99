#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/sim/network.hpp"
#include "schemas/limits.hpp"
#include "transports/transport.hpp"

namespace baton::apps::sim {

class sim_transport;

/// What the simulated data plane does wrong, and who listens on it.
struct fabric {
  network& paths;
  double flip_rows = 0;  ///< chance that a byte of rows is flipped on the way
  std::uint64_t flipped = 0;
  bool late_writes = false;         ///< memory of a failed landing is written to for some time more
  bool admits_late_writes = false;  ///< and its abilities say so
  std::uint64_t overwrites = 0;     ///< such writes into memory that others had changed meanwhile
  std::map<std::string, std::weak_ptr<sim_transport>> listening;
};

/// The `transport` of a simulated node. Keeps every promise of transport.hpp under simulated time: all calls
/// into the sink are events of their own, and what a loss catches is reported as transport.hpp says.
class sim_transport final : public transports::transport, public std::enable_shared_from_this<sim_transport> {
 public:
  sim_transport(fabric& in, std::shared_ptr<host> of, transports::frame_sink& sink)
      : fabric_(in), host_(std::move(of)), sink_(sink) {}

  [[nodiscard]] transports::capabilities abilities() const override {
    return {.name = "sim",
            .crosses_hosts = true,
            .late_writes = fabric_.admits_late_writes,
            .max_descriptor_bytes = limits::descriptor_bytes};
  }
  result<std::string> listen(std::string_view address) override;
  result<transports::connection_id> connect(std::string_view address) override;
  result<void> send_message(transports::connection_id to, std::vector<std::byte> message) override;
  result<void> send_rows(transports::connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         completion done) override;
  void close(transports::connection_id which) override;
  [[nodiscard]] std::string carrier(transports::connection_id) const override { return "sim"; }

 private:
  using connection_id = transports::connection_id;
  using bytes = std::shared_ptr<const std::vector<std::byte>>;

  /// Our end of a connection.
  struct line {
    std::shared_ptr<connection> wire;  // nothing while it comes about
    int side = 0;
    bool closing = false;
    std::weak_ptr<sim_transport> peer;
    std::vector<std::function<void()>> waiting;  // sends before it stands
    std::map<std::uint64_t, completion> sending;
    std::map<std::byte*, memory_region> landing;
    nanoseconds last_landing{};
  };

  /// Runs at that time on our host, if we still exist.
  void at(nanoseconds when, std::function<void(sim_transport&)> what);
  line* find(connection_id which);
  /// Our connection over this wire; nothing if it is gone.
  std::optional<connection_id> over(const connection* wire) const;
  void up(connection_id which, const std::shared_ptr<connection>& wire, const std::string& address);
  void accept(const std::shared_ptr<connection>& wire, const std::weak_ptr<sim_transport>& from);
  /// Runs `arrives` at the peer, when the wire brings it there. `seen`: what a tap sees of it.
  void put(line& on, std::size_t size, contents seen,
           std::function<void(sim_transport&, connection_id)> arrives);
  void land(connection_id id, const bytes& descriptor, const bytes& rows);
  void sent(const connection* wire, std::uint64_t number);
  void lose(connection_id which, const error& why);
  /// What a fabric with `late_writes` does to memory of a landing that has failed.
  void write_late(const memory_region& to);

  fabric& fabric_;
  std::shared_ptr<host> host_;
  transports::frame_sink& sink_;
  std::uint64_t next_ = 1;
  std::map<connection_id, line> lines_;
};

}  // namespace baton::apps::sim
