#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "transports/socket_address.hpp"
#include "transports/transport.hpp"
#include "transports/unique_fd.hpp"

/// One connection of `tcp_transport`: its socket, what waits to leave, and what is half arrived. Belongs to
/// the transport's thread. For this room only.
namespace baton::transports::detail {

/// Begins each frame on the wire; machines of one cluster share their byte order. The head (a message, or the
/// descriptor of rows) follows, then the rows.
struct tcp_frame_head {
  std::uint32_t is_rows = 0;
  std::uint32_t head_bytes = 0;
  std::uint64_t rows_bytes = 0;
};

/// A frame on its way out.
struct tcp_frame {
  tcp_frame_head wire;
  std::vector<std::byte> head;
  memory_region rows;
  transport::completion done;
  std::size_t cost = 0;
  std::size_t sent_bytes = 0;  // of all three parts together

  [[nodiscard]] std::size_t size_bytes() const { return sizeof wire + head.size() + rows.size_bytes; }
};

class tcp_connection {
 public:
  /// `accepted`: the peer connected to us; else the socket is still connecting.
  tcp_connection(connection_id id, unique_fd socket, bool accepted);

  [[nodiscard]] connection_id id() const noexcept { return id_; }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  /// The sink knows of it: we began it, or the peer has shown that it speaks our language.
  [[nodiscard]] bool announced() const noexcept { return announced_; }

  void push(tcp_frame frame) { out_.push_back(std::move(frame)); }
  /// Something waits to be written, or the socket to connect.
  [[nodiscard]] bool wants_to_write() const noexcept {
    return connecting_ || greeting_sent_ < sizeof greeting || !out_.empty();
  }

  /// Writes as much as the socket takes. `sent` is called for each frame that has left whole, in order.
  result<void> write_some(const std::function<void(tcp_frame&)>& sent);
  /// Reads what there is, up to a bound, and hands it to `sink`.
  result<void> read_some(frame_sink& sink);

  /// Ends the socket, fails a landing in progress, and hands over the frames that never left whole.
  std::deque<tcp_frame> end(frame_sink& sink);

 private:
  result<bool> read_greeting(frame_sink& sink);
  result<bool> read_head(frame_sink& sink);
  result<bool> read_rows(frame_sink& sink);
  void announce_rows(frame_sink& sink);
  void finish_frame();
  /// Reads into `[into + have, into + want)`; false when there is no more for now.
  result<bool> fill(std::byte* into, std::size_t& have, std::size_t want);

  /// Who we are, both ways, before any frame.
  static constexpr std::array<char, 12> greeting{'b', 'a', 't', 'o', 'n', ' ', 't', 'c', 'p', ' ', '1', '\n'};

  const connection_id id_;
  unique_fd socket_;
  bool connecting_;
  bool announced_;
  std::size_t greeting_sent_ = 0;
  std::deque<tcp_frame> out_;

  // what is arriving
  std::array<std::byte, sizeof greeting> greeting_in_{};
  std::size_t greeting_got_ = 0;
  tcp_frame_head wire_{};
  std::size_t wire_got_ = 0;
  std::vector<std::byte> head_;  // its allocation is aligned for any type
  std::size_t head_got_ = 0;
  bool rows_begun_ = false;
  memory_region landing_;  // empty: the rows are read and dropped
  std::size_t rows_got_ = 0;
  std::vector<std::byte> dropped_;
  std::size_t budget_ = 0;  // bytes that this call may still read
};

}  // namespace baton::transports::detail
