#include "apps/commands/run.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "actors/graph.hpp"
#include "apps/commands/process_runner.hpp"
#include "apps/commands/supervisor.hpp"
#include "apps/exit_codes.hpp"
#include "schemas/log.hpp"

namespace baton::apps {
namespace {

result<std::string> read_file(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return {errc::io_failed, path + ": expected a deployment file, found a folder"};
  errno = 0;
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return {errc::io_failed, path + ": " + std::strerror(errno != 0 ? errno : EIO)};
  return text;
}

/// Each line of an error as one of ours.
int refuse(const error& why) {
  std::string text = "baton: ";
  for (const char c : why.what) {
    text += c;
    if (c == '\n') text += "baton: ";
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  return exit_code::usage;
}

}  // namespace

int run_command(const run_options& how) {
  const auto text = read_file(how.file);
  if (!text) return refuse(text.failure());
  const auto graph = actors::parse_deployment(*text, how.file, how.process);
  if (!graph) return refuse(graph.failure());
  configure_log(how.log_level, how.process.empty() ? "supervisor" : how.process);
  if (how.process.empty()) return supervise(*graph, {how.file, how.log_level, how.json});
  run_process(*graph, {how.file, how.process, how.json});
}

}  // namespace baton::apps
