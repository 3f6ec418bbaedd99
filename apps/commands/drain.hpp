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

/// `baton drain`. Returns the exit code.
int drain_command(const drain_options& how);

}  // namespace baton::apps
