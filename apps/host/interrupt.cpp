#include "apps/host/interrupt.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

namespace baton::apps::host {

interrupt::interrupt() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&wanted, signal);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  descriptor_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  BATON_ASSERT(descriptor_ >= 0);
  std::signal(SIGPIPE, SIG_IGN);
}

interrupt::~interrupt() {
  ::close(descriptor_);
}

bool interrupt::raised() {
  signalfd_siginfo which{};
  if (!raised_ && ::read(descriptor_, &which, sizeof which) > 0) {
    raised_ = true;
    signal_ = static_cast<int>(which.ssi_signo);
  }
  return raised_;
}

bool interrupt::raised_again() {
  signalfd_siginfo which{};
  return raised() && ::read(descriptor_, &which, sizeof which) > 0;
}

result<void> interrupt::wait(std::span<pollfd> wanted, time_point deadline) {
  std::vector<pollfd> all(wanted.begin(), wanted.end());
  all.push_back({descriptor_, POLLIN, 0});
  for (;;) {
    if (raised()) return {errc::cancelled, "interrupted"};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    const int ready =
        ::poll(all.data(), all.size(), static_cast<int>(std::clamp<long long>(left, 0, 1'000'000)));
    if (ready < 0 && errno != EINTR) return {errc::io_failed, std::string("poll: ") + std::strerror(errno)};
    if (ready > 0 && all.back().revents == 0) {
      std::copy(all.begin(), all.end() - 1, wanted.begin());
      return {};
    }
    if (ready == 0 && clock::now() >= deadline) return {errc::timed_out, "timed out"};
  }
}

result<void> interrupt::wait_readable(int descriptor, time_point deadline) {
  pollfd one{descriptor, POLLIN, 0};
  return wait({&one, 1}, deadline);
}

result<void> interrupt::pause(std::chrono::milliseconds time) {
  const auto passed = wait({}, clock::now() + time);
  return passed.code() == errc::timed_out ? result<void>{} : passed;
}

void interrupt::unblock_all() noexcept {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
}

}  // namespace baton::apps::host
