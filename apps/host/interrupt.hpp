#pragma once

#include <poll.h>

#include <chrono>
#include <span>
#include <string>

#include "schemas/errors.hpp"

namespace baton::apps::host {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

/// SIGINT, SIGTERM and SIGHUP as something to wait for, so that every wait ends by them and destructors clean
/// up. Make one, first thing in `main`, before any thread: the signals are blocked from then on in all
/// threads. SIGPIPE is ignored.
class interrupt {
 public:
  interrupt();
  ~interrupt();
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  /// Whether one of the signals has come; once true it stays so.
  [[nodiscard]] bool raised();
  /// Whether one has come after the first; does not wait.
  [[nodiscard]] bool raised_again();
  /// Which one came first; 0: none yet.
  [[nodiscard]] int signal() const noexcept { return signal_; }

  /// Waits until one of `wanted` is ready (its `revents` say which). `timed_out` at the deadline, `cancelled`
  /// by a signal.
  result<void> wait(std::span<pollfd> wanted, time_point deadline);
  /// The same for reading from one descriptor.
  result<void> wait_readable(int descriptor, time_point deadline);
  /// Lets time pass. `cancelled` by a signal.
  result<void> pause(std::chrono::milliseconds time);

  /// Undoes the blocking, in a child before it becomes another program.
  static void unblock_all() noexcept;

 private:
  int descriptor_ = -1;
  bool raised_ = false;
  int signal_ = 0;
};

}  // namespace baton::apps::host
