#include "apps/host/temporary_folder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace baton::apps::host {
namespace {

constexpr int removal_tries =
    100;  // two seconds, for children of ours that die at the same time and still write
constexpr int removal_pause_ms = 20;

/// Waits for the end of `lifeline` and removes the folder. Holds nothing else of its parent.
[[noreturn]] void clean_after(int lifeline, const std::string& path) noexcept {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    std::signal(signal, SIG_IGN);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(nothing, standard);
  const int kept = ::dup2(lifeline, STDERR_FILENO + 1);
  ::close_range(STDERR_FILENO + 2, ~0U, 0);
  char byte = 0;
  while (::read(kept, &byte, 1) < 0 && errno == EINTR) {
  }
  std::error_code failed;
  for (int i = 0; i < removal_tries; ++i) {
    std::filesystem::remove_all(path, failed);
    if (!std::filesystem::exists(path, failed)) break;
    ::poll(nullptr, 0, removal_pause_ms);
  }
  ::_exit(0);
}

}  // namespace

result<temporary_folder> temporary_folder::make(const std::string& prefix) {
  const char* parent = std::getenv("TMPDIR");
  std::string pattern =
      std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/" + prefix + "-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    return {errc::io_failed, "making a folder " + pattern + ": " + std::strerror(errno)};
  temporary_folder made;
  made.path_ = pattern;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0 || (made.cleaner_ = ::fork()) < 0) {
    const std::string why = std::strerror(errno);
    ::rmdir(pattern.c_str());
    return {errc::io_failed, "starting the cleaner of " + pattern + ": " + why};
  }
  if (made.cleaner_ == 0) {
    ::close(pipe[1]);
    clean_after(pipe[0], pattern);
  }
  ::close(pipe[0]);
  made.lifeline_ = pipe[1];
  return made;
}

temporary_folder::temporary_folder(temporary_folder&& other) noexcept
    : path_(std::move(other.path_)),
      lifeline_(std::exchange(other.lifeline_, -1)),
      cleaner_(std::exchange(other.cleaner_, -1)) {}

temporary_folder::~temporary_folder() {
  if (lifeline_ < 0) return;
  ::close(lifeline_);
  while (::waitpid(cleaner_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace baton::apps::host
