#include "apps/sim/scripts/script.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/exit_codes.hpp"
#include "apps/sim/scripts/commands.hpp"

namespace baton::apps::sim::scripts {

namespace {

constexpr std::string_view separator = "----";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string{text}};
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

bool is_command(const std::string& line) {
  return !line.empty() && !line.starts_with('#');
}

}  // namespace

script_outcome run_script(std::string_view text) {
  script_outcome out;
  std::string output;
  interpreter runs{[&output](const std::string& line) { output += line + "\n"; }};
  const auto lines = lines_of(text);
  bool violated = false;  // as it is to be: that is the end of it
  std::size_t at = 0;
  while (at < lines.size()) {
    bool any = false;
    output.clear();
    for (; at < lines.size() && lines[at] != separator; ++at) {
      out.text += lines[at] + "\n";
      if (!is_command(lines[at]) || !out.broken.empty() || violated) continue;
      any = true;
      const auto done = runs.run(lines[at]);
      violated = !runs.to_violate().empty() && runs.fault().starts_with(runs.to_violate() + ":");
      if (violated)
        output += "violation: " + runs.fault() + "\n";
      else if (!done)
        out.broken = "line " + std::to_string(at + 1) + ": " + lines[at] + ": " + done.failure().what;
      else if (!runs.fault().empty())
        out.broken = "line " + std::to_string(at + 1) + ": " + lines[at] + ": violation: " + runs.fault();
    }
    if (at == lines.size() && !any) break;
    out.text.append(separator).append("\n").append(output);
    if (at < lines.size()) ++at;
    while (at < lines.size() && !lines[at].empty())
      ++at;
  }
  if (out.broken.empty() && !violated && !runs.to_violate().empty())
    out.broken = "the end: " + runs.to_violate() + " has not been violated";
  return out;
}

std::string difference(std::string_view expected, std::string_view actual) {
  if (expected == actual) return {};
  const auto was = lines_of(expected);
  const auto is = lines_of(actual);
  constexpr std::size_t context = 3;
  std::size_t same = 0;
  while (same < was.size() && same < is.size() && was[same] == is[same])
    ++same;
  std::size_t tail = 0;
  while (tail < was.size() - same && tail < is.size() - same &&
         was[was.size() - 1 - tail] == is[is.size() - 1 - tail])
    ++tail;
  std::string out = "from line " + std::to_string(same + 1) + " on:\n";
  for (std::size_t i = same - std::min(same, context); i < same; ++i)
    out += "  " + was[i] + "\n";
  for (std::size_t i = same; i < was.size() - tail; ++i)
    out += "- " + was[i] + "\n";
  for (std::size_t i = same; i < is.size() - tail; ++i)
    out += "+ " + is[i] + "\n";
  for (std::size_t i = is.size() - tail; i < is.size() - tail + std::min(tail, context); ++i)
    out += "  " + is[i] + "\n";
  return out;
}

int script_command(const std::string& file, bool rewrite) {
  std::ifstream in{file, std::ios::binary};
  std::ostringstream read;
  read << in.rdbuf();
  if (!in) {
    std::fprintf(stderr, "baton: sim: --script: cannot read %s\n", file.c_str());
    return exit_code::usage;
  }
  const std::string text = read.str();
  const script_outcome once = run_script(text);
  const script_outcome again = run_script(text);
  std::string wrong = once.broken;
  if (wrong.empty() && once.text != again.text)
    wrong = "two runs differ, " + difference(once.text, again.text);
  if (rewrite) {
    std::ofstream out{file, std::ios::binary | std::ios::trunc};
    out << once.text;
    out.close();
    if (!out) wrong = "cannot write the file";
  } else if (const std::string differs = difference(text, once.text); !differs.empty()) {
    std::printf("%s: %s", file.c_str(), differs.c_str());
    if (wrong.empty()) wrong = "the output is not as expected";
  }
  if (wrong.empty()) return exit_code::success;
  std::printf("%s: %s\n  again: baton sim --script %s\n", file.c_str(), wrong.c_str(), file.c_str());
  return exit_code::failed;
}

}  // namespace baton::apps::sim::scripts
