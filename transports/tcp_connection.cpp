#include "transports/tcp_connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "schemas/limits.hpp"
#include "transports/send_checks.hpp"

namespace baton::transports::detail {
namespace {

/// Read from one connection before the others get their turn.
constexpr std::size_t turn_bytes = 4U << 20;
/// Refused rows are read in pieces of this.
constexpr std::size_t dropped_bytes = 64U << 10;

}  // namespace

tcp_connection::tcp_connection(connection_id id, unique_fd socket, bool accepted)
    : id_(id), socket_(std::move(socket)), connecting_(!accepted), announced_(!accepted) {
  tune(socket_.get());
}

result<void> tcp_connection::write_some(const std::function<void(tcp_frame&)>& sent) {
  if (connecting_) {
    const auto stands = connection_outcome(descriptor());
    if (!stands) return stands.failure();
    if (!*stands) return {};
    connecting_ = false;
  }
  while (wants_to_write()) {
    std::array<iovec, 4> parts{};
    std::size_t count = 0;
    // What is left of a part, of which `skip` bytes of all parts have gone.
    std::size_t skip = out_.empty() ? 0 : out_.front().sent_bytes;
    const auto add = [&](const void* from, std::size_t size_bytes) {
      const auto gone = std::min(skip, size_bytes);
      skip -= gone;
      if (size_bytes > gone)
        parts[count++] = {const_cast<char*>(static_cast<const char*>(from)) + gone, size_bytes - gone};
    };
    const auto greeting_left = greeting.size() - greeting_sent_;
    if (greeting_left > 0) {
      parts[count++] = {const_cast<char*>(greeting.data()) + greeting_sent_, greeting_left};
    } else {
      const auto& frame = out_.front();
      add(&frame.wire, sizeof frame.wire);
      add(frame.head.data(), frame.head.size());
      add(frame.rows.address, frame.rows.size_bytes);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const auto written = ::sendmsg(descriptor(), &message, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return {};
    if (written < 0) return system_error(errc::connection_lost, "sending");
    if (greeting_left > 0) {
      greeting_sent_ += static_cast<std::size_t>(written);
      continue;
    }
    out_.front().sent_bytes += static_cast<std::size_t>(written);
    if (out_.front().sent_bytes < out_.front().size_bytes()) continue;
    auto frame = std::move(out_.front());
    out_.pop_front();
    sent(frame);
  }
  return {};
}

result<void> tcp_connection::read_some(frame_sink& sink) {
  if (connecting_) return {};
  budget_ = turn_bytes;
  for (;;) {
    auto more = greeting_got_ < greeting.size() ? read_greeting(sink)
                : rows_begun_                   ? read_rows(sink)
                                                : read_head(sink);
    if (!more) return more.failure();
    if (!*more) return {};
  }
}

result<bool> tcp_connection::read_greeting(frame_sink& sink) {
  auto whole = fill(greeting_in_.data(), greeting_got_, greeting.size());
  if (!whole || !*whole) return whole;
  if (std::memcmp(greeting_in_.data(), greeting.data(), greeting.size()) != 0)
    return {errc::malformed, "the peer does not speak this protocol"};
  if (!std::exchange(announced_, true)) sink.on_accepted(id_);
  return true;
}

result<bool> tcp_connection::read_head(frame_sink& sink) {
  if (wire_got_ < sizeof wire_) {
    auto whole = fill(reinterpret_cast<std::byte*>(&wire_), wire_got_, sizeof wire_);
    if (!whole || !*whole) return whole;
    const bool fits = wire_.is_rows == 1 ? wire_.head_bytes <= limits::descriptor_bytes
                      : wire_.is_rows == 0
                          ? wire_.head_bytes <= limits::message_bytes && wire_.rows_bytes == 0
                          : false;
    if (!fits)
      return {errc::malformed, "a frame with a head of " + std::to_string(wire_.head_bytes) + " bytes"};
    head_.resize(wire_.head_bytes);
  }
  auto whole = fill(head_.data(), head_got_, head_.size());
  if (!whole || !*whole) return whole;
  if (wire_.is_rows == 1) {
    announce_rows(sink);
  } else {
    sink.on_message(id_, head_);
    finish_frame();
  }
  return true;
}

void tcp_connection::announce_rows(frame_sink& sink) {
  const auto size_bytes = static_cast<std::size_t>(wire_.rows_bytes);
  rows_begun_ = true;
  landing_ = sink.on_rows(id_, head_, size_bytes);
  if (!landing_.empty() && !accepts(landing_, size_bytes)) {
    sink.on_landed(id_, landing_, {errc::invalid_argument, "the landing does not hold the rows"});
    landing_ = {};
  }
  if (landing_.empty()) dropped_.resize(std::min(size_bytes, dropped_bytes));
}

result<bool> tcp_connection::read_rows(frame_sink& sink) {
  const auto size_bytes = static_cast<std::size_t>(wire_.rows_bytes);
  if (landing_.empty()) {
    while (rows_got_ < size_bytes) {
      std::size_t have = 0;
      const auto before = std::min(dropped_.size(), size_bytes - rows_got_);
      auto whole = fill(dropped_.data(), have, before);
      rows_got_ += have;
      if (!whole || !*whole) return whole;
    }
  } else {
    auto whole = fill(landing_.address, rows_got_, size_bytes);
    if (!whole || !*whole) return whole;
    sink.on_landed(id_, std::exchange(landing_, {}), {});
  }
  finish_frame();
  return true;
}

void tcp_connection::finish_frame() {
  wire_got_ = head_got_ = rows_got_ = 0;
  rows_begun_ = false;
}

result<bool> tcp_connection::fill(std::byte* into, std::size_t& have, std::size_t want) {
  while (have < want) {
    if (budget_ == 0) return false;
    const auto got = ::recv(descriptor(), into + have, std::min(want - have, budget_), 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
      budget_ -= static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return false;
    } else {
      return got == 0 ? error{errc::connection_lost, "the peer has closed or died"}
                      : system_error(errc::connection_lost, "receiving");
    }
  }
  return true;
}

std::deque<tcp_frame> tcp_connection::end(frame_sink& sink) {
  socket_.reset();
  if (!landing_.empty())
    sink.on_landed(id_, std::exchange(landing_, {}),
                   {errc::connection_lost, "the connection was lost before the rows had landed"});
  return std::exchange(out_, {});
}

}  // namespace baton::transports::detail
