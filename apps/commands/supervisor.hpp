#pragma once

#include <string>

#include "actors/graph.hpp"

namespace baton::apps {

struct supervisor_options {
  std::string file_name;
  std::string log_level;
  bool json = false;
};

/// Runs each process of a deployment as a child of this one, and says on standard output when parts are ready
/// and when a process ends. A process that ends before its parts are ready ends all of them, with its exit
/// code. One that ends later does not: that is what the others are there for. Told to end, it tells its
/// children, and is gone within five seconds.
int supervise(const actors::deployment& graph, const supervisor_options& how);

}  // namespace baton::apps
