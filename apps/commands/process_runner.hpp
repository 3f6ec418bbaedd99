#pragma once

#include <string>

#include "actors/graph.hpp"

namespace baton::apps {

struct process_options {
  std::string file_name;  ///< of the deployment, for errors
  std::string process;
  bool json = false;
};

/// Runs the actors of one process of a deployment in this very process, until SIGTERM, SIGINT or SIGHUP, and
/// says on standard output when each is ready. Ends the process, within five seconds of the signal.
[[noreturn]] void run_process(const actors::deployment& graph, const process_options& how);

}  // namespace baton::apps
