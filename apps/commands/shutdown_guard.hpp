#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apps/host/interrupt.hpp"

namespace baton::apps {

/// Makes sure that a process that is told to end does end: from the signal on there is a deadline, and past
/// it the process just exits, whatever its parts are waiting for. Nothing is lost by that, since any process
/// may be killed at any time. After SIGTERM there is time before, to hand over what it serves; another signal
/// cuts that short.
class shutdown_guard {
 public:
  /// `signals` belongs to this object's thread from here on.
  shutdown_guard(host::interrupt& signals, std::chrono::milliseconds to_hand_over,
                 std::chrono::milliseconds patience);
  /// The process is about to end by itself.
  ~shutdown_guard();
  shutdown_guard(const shutdown_guard&) = delete;
  shutdown_guard& operator=(const shutdown_guard&) = delete;

  [[nodiscard]] bool requested() const noexcept { return requested_; }
  /// Blocks until the process is told to end.
  void await();
  /// From here on, or from the start, there is no time to hand anything over.
  [[nodiscard]] bool hurried() const noexcept { return hurried_; }
  void hurry() noexcept { hurried_ = true; }

 private:
  void watch();
  /// True if the process is about to end by itself within so long.
  [[nodiscard]] bool done_within(std::chrono::milliseconds time) const;

  host::interrupt& signals_;
  std::chrono::milliseconds to_hand_over_;
  std::chrono::milliseconds patience_;
  int done_ = -1;  // readable once the destructor runs
  std::atomic<bool> requested_{false};
  std::atomic<bool> hurried_{false};
  std::mutex guard_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace baton::apps
