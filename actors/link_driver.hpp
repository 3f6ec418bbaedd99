#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "actors/messages.hpp"
#include "actors/protocol/link_sender.hpp"
#include "transports/transport.hpp"

namespace baton::actors {

/// One link to one standby, without its actor: the connection and its hello, and what the `link_sender`
/// decides, carried out on the transport. Closes and reconnects when the standby owes an acknowledgement past
/// the deadline. Free of CAF and of clocks; not thread-safe.
class link_driver {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Where it turns to. Called from within the calls below; must not call back.
  struct outlets {
    /// `data_plane::connect`, with handlers that bring frames and losses here, later.
    std::function<result<transports::connection_id>(const process_id& standby, const std::string& address)>
        connect;
    std::function<void(link_report)> report;  ///< up and down
    std::function<void(link_news)> news;      ///< everything of the sender's that is not I/O
  };

  link_driver(transports::transport& transport, protocol::link_sender::options how, std::string standby,
              outlets out);

  // The connection.
  /// Where the standby is now; an empty address closes.
  void on_target(const link_target& next, time_point now);
  void on_frame(const inbound_frame& inbound, time_point now);
  void on_lost(const connection_lost& lost);

  // What the primary does to its sessions, and rows that its engine has.
  void on_begin(const protocol::begin_replication& order, time_point now);
  void on_records(const protocol::replicate_records& order, time_point now);
  void on_end(const protocol::end_replication& order);
  void on_appoint(const protocol::appoint& order);
  void on_rows_held(const rows_held& held);
  void on_packed(const packed_slot& packed, time_point now);

  /// Deadlines, reconnects.
  void on_tick(time_point now);

  [[nodiscard]] link_figures figures() const;
  [[nodiscard]] const protocol::link_sender& sender() const noexcept { return sender_; }

 private:
  void connect(time_point now);
  void disconnect();
  void on_down();
  void on_welcome(const link_welcome& welcome, time_point now);
  void on_refusal(const link_refusal& refusal, time_point now);
  void carry_out(protocol::link_effects effects, const gpu::staging_slot* slot = nullptr);
  void check(const result<void>& sent);
  result<void> send_rows(const protocol::send_rows& rows, const gpu::staging_slot& slot);

  transports::transport& transport_;
  std::string standby_;
  outlets out_;
  protocol::link_sender sender_;
  link_target target_;
  std::optional<transports::connection_id> connection_;
  bool welcomed_ = false;
  process_id peer_;
  std::string carrier_;
  time_point retry_at_{};
  time_point greet_until_{};
  std::string last_refusal_;  // logged once, not at every attempt
};

}  // namespace baton::actors
