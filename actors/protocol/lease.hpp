#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "schemas/limits.hpp"

namespace baton::actors::protocol {

/// A node's own view of its lease (docs/protocol.md section L): counted from the sending of the last
/// heartbeat that was acknowledged, and cut short by the margin for clock drift and the longest unchecked
/// section. Stops waste, not harm.
class lease {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit lease(std::chrono::milliseconds length) : length_(length) {}

  void on_sent(std::uint64_t sequence, time_point now) {
    sent_.try_emplace(sequence, now);  // if sent again, the answer may be to the first
    while (sent_.size() > 256)
      sent_.erase(sent_.begin());
  }

  void on_acknowledged(std::uint64_t sequence) {
    const auto found = sent_.find(sequence);
    if (found == sent_.end()) return;
    if (!ever_ || found->second > renewed_) renewed_ = found->second;
    ever_ = true;
    sent_.erase(sent_.begin(), std::next(found));
  }

  /// The lease runs before this instant. To be compared with the clock at the moment of use: a process may
  /// have been stopped since the last look.
  [[nodiscard]] time_point valid_until() const {
    return ever_ ? renewed_ + (length_ - margin()) : time_point::min();
  }
  [[nodiscard]] bool valid(time_point now) const { return now < valid_until(); }

  /// Drift of 1e-3 over the lease, and 20 ms that a loaded machine may keep a thread from looking at the
  /// clock.
  [[nodiscard]] std::chrono::milliseconds margin() const {
    return std::chrono::milliseconds{20} + length_ / 500;
  }

 private:
  std::chrono::milliseconds length_;
  std::map<std::uint64_t, time_point> sent_;
  time_point renewed_{};
  bool ever_ = false;
};

}  // namespace baton::actors::protocol
