#include <cstdio>
#include <string_view>

#include "apps/exit_codes.hpp"
#include "apps/sim/command.hpp"

/// `baton sim --script FILE [--rewrite]` without the rest of the binary.
int main(int argc, char** argv) {
  baton::apps::sim::sim_options how;
  how.rewrite = argc == 3 && std::string_view{argv[2]} == "--rewrite";
  if (argc != (how.rewrite ? 3 : 2)) {
    std::fprintf(stderr, "usage: script_runner FILE [--rewrite]\n");
    return baton::apps::exit_code::usage;
  }
  how.script = argv[1];
  return baton::apps::sim::sim_command(how);
}
