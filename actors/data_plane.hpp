#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "actors/engines/fingerprint.hpp"
#include "actors/protocol/replica_set.hpp"
#include "gpu/device.hpp"
#include "schemas/link.hpp"
#include "transports/transport.hpp"

namespace baton::actors {

/// A node's end of the data plane: takes frames from the transport's thread. What comes from primaries goes
/// to the replica set at once, and its acknowledgements leave on that same thread, without a hop through an
/// actor; what needs the engine or the gpu actor is handed on. What comes back on our own links goes to their
/// replicators. Free of CAF.
class data_plane final : public transports::frame_sink {
 public:
  struct options {
    process_id self;
    engines::fingerprint fingerprint;
    protocol::replica_set::options replicas;
    bool rows = true;  ///< this engine imports rows; otherwise standbys hold tokens only
  };

  /// Effects that need other actors, with the staging slot of the import among them. Called on the
  /// transport's thread, or on the caller's of `with_replicas`; must not block.
  using order_handler = std::function<void(protocol::replica_effects, gpu::staging_slot)>;
  /// A frame of a link of ours, or the loss of its connection.
  using frame_handler = std::function<void(transports::connection_id, std::shared_ptr<const link_frame>)>;
  using loss_handler = std::function<void(transports::connection_id, const error&)>;

  data_plane(options how, gpu::device& device, order_handler orders);

  /// The transport that this sink serves; set once, before any frame arrives.
  void attach(transports::transport& transport) { transport_ = &transport; }

  /// Connects to a standby and says hello. Its frames and its loss go to the handlers, on the transport's
  /// thread.
  result<transports::connection_id> connect(const process_id& standby, const std::string& address,
                                            frame_handler frames, loss_handler lost);

  /// Runs `change` on the replica set, sends the acknowledgements among its effects and returns the others.
  protocol::replica_effects with_replicas(
      const std::function<protocol::replica_effects(protocol::replica_set&)>& change);

  [[nodiscard]] std::vector<protocol::replica_set::group_summary> summaries() const;
  [[nodiscard]] protocol::replica_set::counters counted() const;
  [[nodiscard]] transports::transport& transport() const { return *transport_; }
  [[nodiscard]] const options& how() const noexcept { return how_; }

  // frame_sink
  void on_accepted(transports::connection_id from) override;
  void on_message(transports::connection_id from, std::span<const std::byte> message) override;
  memory_region on_rows(transports::connection_id from, std::span<const std::byte> descriptor,
                        std::size_t size_bytes) override;
  void on_landed(transports::connection_id from, memory_region landing, result<void> outcome) override;
  void on_lost(transports::connection_id from, const error& reason) override;

 private:
  struct inbound {
    bool welcomed = false;
    process_id peer;
  };
  struct outbound {
    frame_handler frames;
    loss_handler lost;
  };
  struct landing {
    transports::connection_id from{};
    delta_descriptor rows;
    gpu::staging_slot slot;
  };

  void greet(transports::connection_id from, const link_hello& hello);
  void from_primary(transports::connection_id from, const link_frame& frame);
  /// Sends the acknowledgements of `effects` and removes them.
  void acknowledge(protocol::replica_effects& effects);
  void send(transports::connection_id to, const link_frame& frame);
  void hand_on(protocol::replica_effects effects, gpu::staging_slot slot);

  options how_;
  gpu::device& device_;
  order_handler orders_;
  transports::transport* transport_ = nullptr;
  std::uint64_t fingerprint_hash_;

  mutable std::mutex guard_;  // over all below; never held while a handler runs
  protocol::replica_set replicas_;
  std::map<transports::connection_id, inbound> inbound_;
  std::map<transports::connection_id, outbound> outbound_;
  std::unordered_map<std::byte*, landing> landings_;
};

}  // namespace baton::actors
