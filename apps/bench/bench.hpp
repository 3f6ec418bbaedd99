#pragma once

#include <cstdint>

#include "apps/demo/cluster.hpp"

namespace baton::apps::bench {

struct bench_options {
  demo::cluster_options cluster;
  std::uint32_t tokens = 64;
  std::uint32_t rounds = 20;  ///< of `overhead`
  std::uint32_t losses = 9;   ///< of `gap`, per context; the middle gap counts
  bool full = false;          ///< of `gap`: the longest context as well
  bool json = false;
};

/// `baton bench gap`: the scenario of the demo at growing contexts. The gap less one decode step should not
/// grow, and prefilling again is what peers do instead. Returns the exit code.
int gap_command(const bench_options& how);

/// `baton bench overhead`: decode speed with replication and without, in turns, so that both see the same
/// machine.
int overhead_command(const bench_options& how);

}  // namespace baton::apps::bench
