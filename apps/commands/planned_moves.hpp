#pragma once

#include <chrono>
#include <string>

namespace baton::apps {

struct drain_options {
  std::string node;
  std::string orchestrator = "127.0.0.1:7000";
  std::chrono::milliseconds timeout{30'000};
  bool undo = false;
};

struct move_options {
  std::string session;
  std::string node;
  std::string orchestrator = "127.0.0.1:7000";
  std::chrono::milliseconds timeout{30'000};
};

/// `baton move`. Returns the exit code.
int move_command(const move_options& how);

/// `baton drain`. Returns the exit code.
int drain_command(const drain_options& how);

}  // namespace baton::apps
