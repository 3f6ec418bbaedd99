#include "apps/commands/drain.hpp"

#include <unistd.h>

#include <cstdio>

#include "actors/runtime.hpp"
#include "apps/commands/orchestrator_call.hpp"
#include "apps/exit_codes.hpp"

namespace baton::apps {
namespace {

/// The answer to an order that found what it waits for too late still comes.
constexpr std::chrono::seconds last_word{1};

int drain(const drain_options& how) {
  if (!is_orchestrator(how.orchestrator)) return exit_code::usage;
  const auto done = within<void>(how.timeout + last_word, how.orchestrator, [how] {
    return actors::drain_node(how.orchestrator, how.node, !how.undo, how.timeout);
  });
  if (!done) {
    std::fprintf(stderr, "baton: %s\n", done.failure().what.c_str());
    return done.code() == errc::connection_lost ? exit_code::cannot_start : exit_code::failed;
  }
  std::printf(how.undo ? "node %s may own groups again\n" : "node %s owns nothing\n", how.node.c_str());
  return exit_code::success;
}

}  // namespace

int drain_command(const drain_options& how) {
  const int code = drain(how);
  std::fflush(nullptr);
  ::_exit(code);  // not waiting for a thread that was left behind
}

}  // namespace baton::apps
