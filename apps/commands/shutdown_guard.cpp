#include "apps/commands/shutdown_guard.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/exit_codes.hpp"

namespace baton::apps {

shutdown_guard::shutdown_guard(host::interrupt& signals, std::chrono::milliseconds patience)
    : signals_(signals), patience_(patience), done_(::eventfd(0, EFD_CLOEXEC)) {
  BATON_ASSERT(done_ >= 0);
  thread_ = std::thread([this] { watch(); });
}

shutdown_guard::~shutdown_guard() {
  ::eventfd_write(done_, 1);
  thread_.join();
  ::close(done_);
}

void shutdown_guard::watch() {
  for (;;) {
    const auto waited = signals_.wait_readable(done_, host::clock::now() + std::chrono::hours(1));
    if (waited.ok()) return;
    if (waited.code() != errc::timed_out) break;
  }
  {
    const std::lock_guard lock(guard_);
    requested_ = true;
  }
  changed_.notify_all();
  pollfd done{done_, POLLIN, 0};
  if (::poll(&done, 1, static_cast<int>(patience_.count())) == 1) return;
  constexpr std::string_view words = "baton: a part did not stop in time; leaving without it\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, words.data(), words.size());
  ::_exit(exit_code::success);
}

void shutdown_guard::await() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [this] { return requested_.load(); });
}

}  // namespace baton::apps
