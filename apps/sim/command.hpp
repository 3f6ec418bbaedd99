#pragma once

#include <cstdint>
#include <string>

namespace baton::apps::sim {

struct sim_options {
  std::uint64_t seed = 0;  ///< one run, of this seed; 0: `seeds` runs from `first` on
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  std::uint64_t faults = 0;  ///< instead of a number of seeds: until so many faults have been made
  std::size_t jobs = 1;      ///< threads, each with a run of its own
  std::string without;       ///< a rule to leave out, by name; the checkers must notice
  bool trace = false;        ///< print what happens, for one seed
  bool json = false;
  std::string script;    ///< instead of seeds: the script in this file, see scripts/script.hpp
  bool rewrite = false;  ///< write the output that it has into that file
};

/// `baton sim`. Exit code 0 only if no invariant was violated (with `without`: only if one was), or if the
/// script has the output that it expects.
int sim_command(const sim_options& how);

}  // namespace baton::apps::sim
