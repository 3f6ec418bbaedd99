#include "apps/commands/drain.hpp"

#include <cstdio>

#include "actors/graph.hpp"
#include "actors/runtime.hpp"
#include "apps/exit_codes.hpp"

namespace baton::apps {

int drain_command(const drain_options& how) {
  if (!actors::is_address(how.orchestrator)) {
    std::fprintf(stderr, "baton: --orchestrator: expected HOST:PORT, found \"%s\"\n",
                 how.orchestrator.c_str());
    return exit_code::usage;
  }
  const auto done = actors::drain_node(how.orchestrator, how.node, !how.undo, how.timeout);
  if (!done) {
    std::fprintf(stderr, "baton: %s\n", done.failure().what.c_str());
    return done.code() == errc::connection_lost ? exit_code::cannot_start : exit_code::failed;
  }
  std::printf(how.undo ? "node %s may own groups again\n" : "node %s owns nothing\n", how.node.c_str());
  return exit_code::success;
}

}  // namespace baton::apps
