#include "apps/host/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "apps/host/interrupt.hpp"

namespace baton::apps::host {
namespace {

/// What a shell says of a program that cannot be run.
constexpr int exit_cannot_run = 126;

void close_if_open(int& descriptor) noexcept {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

[[noreturn]] void give_up(const char* what) noexcept {
  dprintf(STDERR_FILENO, "baton: %s: %s\n", what, std::strerror(errno));
  ::_exit(exit_cannot_run);
}

/// /sys shows the devices of the namespace it was mounted in, so a new one is needed, seen by this process
/// only.
void enter_network_namespace(int descriptor) noexcept {
  if (::setns(descriptor, CLONE_NEWNET) != 0) give_up("entering a network namespace");
  if (::unshare(CLONE_NEWNS) != 0) give_up("making a mount namespace");
  if (::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) give_up("separating mounts");
  if (::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    give_up("mounting /sys");
}

/// Whether the child has ended. Leaves it to be reaped.
bool await_end(pid_t child, int options) noexcept {
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT | options) != 0)
    if (errno != EINTR) return false;
  return ended.si_pid == child;
}

/// The child's half of `start`, between fork and exec.
[[noreturn]] void become(const child_options& how, int output, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(exit_cannot_run);  // it died before it could be watched
  ::setpgid(0, 0);
  interrupt::unblock_all();
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  if (!how.log_path.empty()) {
    const int log = ::open(how.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) give_up(how.log_path.c_str());
    ::dup2(log, STDERR_FILENO);
  }
  if (how.network_namespace >= 0) enter_network_namespace(how.network_namespace);
  ::setenv("OMP_WAIT_POLICY", "passive",
           0);  // idle threads of one engine must not spin on the cores of another
  std::vector<char*> arguments;
  for (const auto& argument : how.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  give_up(arguments.front());
}

}  // namespace

result<child_process> child_process::start(const child_options& how) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    return {errc::io_failed, std::string("pipe: ") + std::strerror(errno)};
  child_process child;
  child.output_ = pipe[0];
  ::fcntl(child.output_, F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what it leaves behind becomes our child
  child.pid_ = ::fork();
  if (child.pid_ == 0) become(how, pipe[1], parent);
  ::close(pipe[1]);
  if (child.pid_ < 0) return {errc::io_failed, std::string("fork: ") + std::strerror(errno)};
  child.ending_ = static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0));
  if (child.ending_ < 0) return {errc::io_failed, std::string("pidfd_open: ") + std::strerror(errno)};
  return child;
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      ending_(std::exchange(other.ending_, -1)),
      reaped_(other.reaped_),
      group_reaped_(other.group_reaped_),
      status_(other.status_),
      partial_(std::move(other.partial_)) {}

child_process::~child_process() {
  if (pid_ > 0) {
    signal(SIGKILL);
    await_end(pid_, 0);
    (void)ended();
    reap_group(0);
  }
  close_if_open(output_);
  close_if_open(ending_);
}

std::vector<std::string> child_process::read_lines() {
  std::array<char, 4096> buffer{};
  while (output_ >= 0) {
    const auto count = ::read(output_, buffer.data(), buffer.size());
    if (count > 0) {
      partial_.append(buffer.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) close_if_open(output_);
    break;
  }
  std::vector<std::string> lines;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    lines.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
  return lines;
}

void child_process::signal(int number) noexcept {
  if (pid_ > 0 && !reaped_) ::kill(pid_, number);
}

std::optional<int> child_process::ended() noexcept {
  if (pid_ <= 0) return std::nullopt;
  if (!reaped_ && await_end(pid_, WNOHANG)) {
    ::kill(-pid_, SIGKILL);  // while nobody else can have its number
    reaped_ = ::waitpid(pid_, &status_, 0) == pid_;
  }
  if (!reaped_) return std::nullopt;
  reap_group(WNOHANG);
  return status_;
}

void child_process::reap_group(int options) noexcept {
  while (!group_reaped_) {
    const auto reaped = ::waitpid(-pid_, nullptr, options);
    if (reaped == 0) return;
    group_reaped_ = reaped < 0 && errno == ECHILD;
  }
}

void child_process::end_all(const std::vector<child_process*>& children,
                            std::chrono::milliseconds grace) noexcept {
  for (auto* child : children) {
    child->signal(SIGINT);  // SIGTERM would let nodes hand over to each other first
    child->signal(SIGCONT);
  }
  const auto deadline = clock::now() + grace;
  for (auto* child : children) {
    while (!child->ended()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
      if (left <= 0) break;
      pollfd gone{child->ending_, POLLIN, 0};
      ::poll(&gone, 1, static_cast<int>(left));
    }
    if (child->ended()) continue;
    child->signal(SIGKILL);
    pollfd gone{child->ending_, POLLIN, 0};
    while (!child->ended())
      ::poll(&gone, 1, 1000);
  }
}

std::string describe_ending(int status) {
  if (WIFSIGNALED(status))
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

std::string own_path() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

result<std::string> run_program(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                                int network_namespace) {
  std::array<int, 2> words{};  // what it says on standard error
  if (::pipe2(words.data(), O_CLOEXEC) != 0)
    return {errc::io_failed, std::string("pipe: ") + std::strerror(errno)};
  auto child = child_process::start({.command = command,
                                     .log_path = "/proc/self/fd/" + std::to_string(words[1]),
                                     .network_namespace = network_namespace});
  ::close(words[1]);
  const auto deadline = clock::now() + timeout;
  std::string output;
  bool ended = false;
  while (child.ok() && !ended && clock::now() < deadline) {
    pollfd gone{child->ending(), POLLIN, 0};
    ::poll(&gone, 1, 50);
    ended = child->ended().has_value();
    for (const auto& line : child->read_lines())
      output += line + "\n";
  }
  std::array<char, 512> said{};
  ::fcntl(words[0], F_SETFL, O_NONBLOCK);
  const auto count = ::read(words[0], said.data(), said.size());
  ::close(words[0]);
  if (!child) return child.failure();
  const std::string name = std::filesystem::path(command.front()).filename().string();
  if (!ended)
    return {errc::timed_out, name + " did not end within " + std::to_string(timeout.count()) + " ms"};
  if (*child->ended() == 0) return output;
  std::string text(said.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return {errc::io_failed, name + ": " + (text.empty() ? describe_ending(*child->ended()) : text)};
}

}  // namespace baton::apps::host
