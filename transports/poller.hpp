#pragma once

#include <sys/epoll.h>

#include <functional>

#include "transports/unique_fd.hpp"

namespace baton::transports::detail {

/// What a transport's thread sleeps on: file descriptors, and a nudge from other threads. One thread calls
/// all but `wake`.
class poller {
 public:
  /// Throws std::runtime_error when the process has no file descriptors left.
  poller();

  /// Begins to watch, or changes what is watched for (EPOLLIN, EPOLLOUT; level-triggered).
  void watch(int descriptor, unsigned events);
  void unwatch(int descriptor);

  /// Calls `ready` for each descriptor that is ready, after at most `timeout_ms`.
  void wait(int timeout_ms, const std::function<void(int descriptor, unsigned events)>& ready);

  /// Ends a `wait` in progress, or the next one. Any thread.
  void wake();

 private:
  unique_fd wake_, epoll_;
};

}  // namespace baton::transports::detail
