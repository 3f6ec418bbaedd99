#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.hpp"

// Feeds files to one target, as a test in builds that have no fuzzer:
//
//   fuzz_corpus TARGET FILE|FOLDER...

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const auto target = std::find_if(baton::fuzz::targets.begin(), baton::fuzz::targets.end(),
                                   [&](const auto& one) { return one.name == name; });
  if (target == baton::fuzz::targets.end() || argc < 3) {
    std::fputs("usage: fuzz_corpus TARGET FILE|FOLDER...\n", stderr);
    return 2;
  }
  std::size_t fed = 0;
  for (int i = 2; i < argc; ++i)
    for (const auto& file : files_of(argv[i])) {
      std::ifstream in(file, std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(in), {}};
      if (!in) {
        std::fprintf(stderr, "cannot read %s\n", file.c_str());
        return 2;
      }
      std::printf("%s\n", file.c_str());
      std::fflush(stdout);  // the last line names the file if the target ends the process
      target->run(std::as_bytes(std::span{content}));
      ++fed;
    }
  std::printf("%zu files\n", fed);
  return fed > 0 ? 0 : 1;  // an empty corpus tests nothing
}
