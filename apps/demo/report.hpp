#pragma once

#include <string>

#include "apps/demo/cluster.hpp"
#include "apps/demo/scenario.hpp"

namespace baton::apps::demo {

/// "kill", "stop" or "cut", as on the command line.
const char* name_of(loss how);

/// A small table for people.
std::string table_of(const scenario_result& outcome, const scenario_options& asked,
                     const host::terminal& screen);

/// One JSON object for programs; apps/README.md has its fields.
std::string json_of(const scenario_result& outcome, const scenario_options& asked, const cluster_options& on);

}  // namespace baton::apps::demo
