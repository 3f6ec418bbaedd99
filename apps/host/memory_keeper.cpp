#include "apps/host/memory_keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

namespace baton::apps::host {
namespace {

/// Giving gigabytes back takes a core for a while, just when a successor on this machine may need it.
constexpr int least_urgent = 19;
/// So the memory of a process that was killed stays until a successor has taken over and is past its first
/// steps, which are the slowest for it: the client waits for them.
constexpr int linger_ms = 400;
constexpr std::size_t stack_bytes = std::size_t{64} << 10;

volatile bool ends_orderly = false;  // shared with the keeper

/// Runs in our memory, with the thread-local storage of the thread that made it: it must not fail a call of
/// the C library (which would set that thread's `errno`) nor allocate.
int wait_for_end(void* argument) {
  ::prctl(PR_SET_NAME, "baton-keeper");
  ::setpriority(PRIO_PROCESS, 0, least_urgent);
  ::dup2(*static_cast<int*>(argument), STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  pollfd ours{STDIN_FILENO, POLLIN, 0};
  while (::poll(&ours, 1, -1) == 0) {
  }
  if (!ends_orderly) ::poll(nullptr, 0, linger_ms);
  return 0;
}

}  // namespace

result<void> keep_memory_past_our_end() {
  alignas(64) static std::array<char, stack_bytes> stack;
  static int process = -1;  // read by the keeper at its start, whenever that is
  process = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  if (process < 0) return {errc::io_failed, std::string("pidfd_open: ") + std::strerror(errno)};
  sigset_t all{};
  sigset_t before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the keeper inherits it
  const int keeper = ::clone(wait_for_end, stack.data() + stack.size(), CLONE_VM, &process);
  const int failed = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(process);  // ours; the keeper has its own
  if (keeper < 0) return {errc::io_failed, std::string("clone: ") + std::strerror(failed)};
  return {};
}

void give_memory_back_at_our_end() {
  ends_orderly = true;
}

}  // namespace baton::apps::host
