#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdlib>

#include "schemas/log.hpp"

int main(int argc, char** argv) {
  const char* level = std::getenv("BATON_LOG");
  baton::configure_log(level == nullptr ? "error" : level, "test");
  return Catch::Session().run(argc, argv);
}
