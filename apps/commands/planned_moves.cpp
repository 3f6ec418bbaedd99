#include "apps/commands/planned_moves.hpp"

#include <unistd.h>

#include <cstdio>

#include "actors/runtime.hpp"
#include "apps/commands/orchestrator_call.hpp"
#include "apps/exit_codes.hpp"

namespace baton::apps {
namespace {

/// The answer to an order that found what it waits for too late still comes.
constexpr std::chrono::seconds last_word{1};

int code_of(const error& failure) {
  std::fprintf(stderr, "baton: %s\n", failure.what.c_str());
  return failure.code == errc::connection_lost ? exit_code::cannot_start : exit_code::failed;
}

int drain(const drain_options& how) {
  if (!is_orchestrator(how.orchestrator)) return exit_code::usage;
  const auto done = within<void>(how.timeout + last_word, how.orchestrator, [how] {
    return actors::drain_node(how.orchestrator, how.node, !how.undo, how.timeout);
  });
  if (!done) return code_of(done.failure());
  std::printf(how.undo ? "node %s may own groups again\n" : "node %s owns nothing\n", how.node.c_str());
  return exit_code::success;
}

int move(const move_options& how) {
  if (!is_orchestrator(how.orchestrator)) return exit_code::usage;
  const auto group = within<std::uint64_t>(how.timeout + last_word, how.orchestrator, [how] {
    return actors::move_session(how.orchestrator, how.session, how.node, how.timeout);
  });
  if (!group) return code_of(group.failure());
  std::printf("node %s serves group %llu, and session %s in it\n", how.node.c_str(),
              static_cast<unsigned long long>(*group), how.session.c_str());
  return exit_code::success;
}

[[noreturn]] void end_with(int code) {
  std::fflush(nullptr);
  ::_exit(code);  // not waiting for a thread that was left behind
}

}  // namespace

int drain_command(const drain_options& how) {
  end_with(drain(how));
}

int move_command(const move_options& how) {
  end_with(move(how));
}

}  // namespace baton::apps
