#include "apps/commands/orchestrator_call.hpp"

#include <cstdio>

#include "actors/graph.hpp"

namespace baton::apps {

bool is_orchestrator(const std::string& address) {
  if (actors::is_address(address)) return true;
  std::fprintf(stderr, "baton: --orchestrator: expected HOST:PORT, found \"%s\"\n", address.c_str());
  return false;
}

}  // namespace baton::apps
