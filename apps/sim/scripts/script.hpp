#pragma once

#include <string>
#include <string_view>

#include "schemas/errors.hpp"

namespace baton::apps::sim::scripts {

/// What running a script came to.
struct script_outcome {
  std::string text;    ///< the script with the output it really has
  std::string broken;  ///< a violation, or a command that could not be carried out; empty: none
};

/// Runs a script: blocks of command lines, `----`, the output they are expected to have, an empty line. Text
/// from `#` at the beginning of a line is for people. Stops at the first thing that is broken.
script_outcome run_script(std::string_view text);

/// Where two scripts differ, line by line, for people: '-' expected, '+' actual. Empty if they are equal.
std::string difference(std::string_view expected, std::string_view actual);

/// Runs the script in a file, twice. With `rewrite`, writes the actual output into it; otherwise prints where
/// it differs. An exit code: success only if nothing is broken, both runs are the same and, without
/// `rewrite`, the output is as expected.
int script_command(const std::string& file, bool rewrite);

}  // namespace baton::apps::sim::scripts
