#pragma once

#include <string>

namespace baton::apps {

struct run_options {
  std::string file;
  std::string process;  ///< empty: all of them, as children
  std::string log_level = "info";
  bool json = false;
};

/// `baton run FILE [--process NAME]`. Returns the exit code.
int run_command(const run_options& how);

}  // namespace baton::apps
