#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton::apps::http {

/// Why a turn was given up before the service had ended it.
enum class abandoned : std::uint8_t {
  client_left,  ///< the client closed or its connection broke
  slow_reader,  ///< more than `client_buffer_bytes` waited for it
  stalled,      ///< it took not a byte within the write time-out
  stopping      ///< the server is going down
};

/// What the edge itself counts. Thread-safe.
class counters {
 public:
  void opened() { connections_.fetch_add(1, std::memory_order_relaxed); }
  void closed() { connections_.fetch_sub(1, std::memory_order_relaxed); }
  void answered(unsigned status);
  void gave_up(abandoned why) {
    abandoned_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

  /// Prometheus text, to stand behind the service's own.
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::array<unsigned, 13> statuses{200, 400, 404, 405, 409, 413, 415,
                                                     417, 429, 431, 500, 503, 504};
  static constexpr std::array<std::string_view, 4> reasons{"client_left", "slow_reader", "stalled",
                                                           "stopping"};

  std::atomic<std::int64_t> connections_{0};
  std::array<std::atomic<std::uint64_t>, statuses.size() + 1> answered_{};  ///< the last: any other status
  std::array<std::atomic<std::uint64_t>, reasons.size()> abandoned_{};
};

}  // namespace baton::apps::http
