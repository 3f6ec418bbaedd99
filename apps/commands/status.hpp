#pragma once

#include <chrono>
#include <string>

namespace baton::apps {

struct status_options {
  std::string orchestrator = "127.0.0.1:7000";
  std::chrono::milliseconds timeout{2000};
  bool json = false;
};

/// `baton status`. Returns the exit code.
int status_command(const status_options& how);

}  // namespace baton::apps
