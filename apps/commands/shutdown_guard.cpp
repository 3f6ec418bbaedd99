#include "apps/commands/shutdown_guard.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>

#include "apps/exit_codes.hpp"

namespace baton::apps {

namespace {
constexpr std::chrono::milliseconds glance{20};
}

shutdown_guard::shutdown_guard(host::interrupt& signals, std::chrono::milliseconds to_hand_over,
                               std::chrono::milliseconds patience)
    : signals_(signals), to_hand_over_(to_hand_over), patience_(patience), done_(::eventfd(0, EFD_CLOEXEC)) {
  BATON_ASSERT(done_ >= 0);
  thread_ = std::thread([this] { watch(); });
}

shutdown_guard::~shutdown_guard() {
  ::eventfd_write(done_, 1);
  thread_.join();
  ::close(done_);
}

bool shutdown_guard::done_within(std::chrono::milliseconds time) const {
  pollfd done{done_, POLLIN, 0};
  return ::poll(&done, 1, static_cast<int>(time.count())) == 1;
}

void shutdown_guard::watch() {
  for (;;) {
    const auto waited = signals_.wait_readable(done_, host::clock::now() + std::chrono::hours(1));
    if (waited.ok()) return;
    if (waited.code() != errc::timed_out) break;
  }
  {
    const std::lock_guard lock(guard_);
    hurried_ = signals_.signal() != SIGTERM;
    requested_ = true;
  }
  changed_.notify_all();
  for (const auto until = host::clock::now() + to_hand_over_; !hurried_;) {
    if (done_within(glance)) return;
    if (signals_.raised_again() || host::clock::now() > until) hurried_ = true;
  }
  if (done_within(patience_)) return;
  constexpr std::string_view words = "baton: a part did not stop in time; leaving without it\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, words.data(), words.size());
  ::_exit(exit_code::success);
}

void shutdown_guard::await() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [this] { return requested_.load(); });
}

}  // namespace baton::apps
