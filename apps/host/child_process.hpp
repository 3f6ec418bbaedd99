#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "schemas/errors.hpp"

namespace baton::apps::host {

struct child_options {
  std::vector<std::string> command{};  ///< [0] is the path of the program
  std::string log_path{};              ///< its standard error goes there; empty: to ours
  int network_namespace = -1;          ///< it lives in there, with a matching /sys; -1: in ours
};

/// A program that runs as our child, and never outlives us: the kernel kills it when we die, by whatever
/// cause. Its standard output comes to us by a pipe, its standard input is empty, and it has a process group
/// of its own, so that Ctrl-C reaches us only; whatever is left of that group at its end is killed. Start it
/// from the main thread: the kernel binds its life to that of the thread.
class child_process {
 public:
  static result<child_process> start(const child_options& how);

  /// Kills it, if it still runs, and reaps it.
  ~child_process();
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Readable when there is output, and at its end. Does not block.
  [[nodiscard]] int output() const noexcept { return output_; }
  /// Readable once it has ended.
  [[nodiscard]] int ending() const noexcept { return ending_; }

  /// Complete lines that have arrived since the last call.
  std::vector<std::string> read_lines();

  /// Does nothing once it has been reaped.
  void signal(int number) noexcept;

  /// The status of `waitpid`, if it has ended. Reaps it.
  std::optional<int> ended() noexcept;

  /// Asks all to end, wakes them if they are stopped, and kills those that have not ended after `grace`.
  /// Returns when all are reaped.
  static void end_all(const std::vector<child_process*>& children, std::chrono::milliseconds grace) noexcept;

 private:
  child_process() = default;
  void reap_group(int options) noexcept;

  pid_t pid_ = -1;
  int output_ = -1;
  int ending_ = -1;
  bool reaped_ = false;
  bool group_reaped_ = false;  // what it left behind
  int status_ = 0;
  std::string partial_;
};

/// "killed by signal 9 (Killed)" or "exit code 3".
std::string describe_ending(int status);

/// The path of the program that runs now.
std::string own_path();

/// Runs a program to its end. Its output comes back if it succeeds; otherwise the error has its last words.
result<std::string> run_program(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                                int network_namespace = -1);

}  // namespace baton::apps::host
