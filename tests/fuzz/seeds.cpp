#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/unit/schemas/samples.hpp"

// Writes the seeds of the targets over the codec: samples of every message, and messages that would grow in
// memory.
//
//   fuzz_seeds tests/fuzz/corpus

using namespace baton;

namespace {

using bytes = std::vector<std::byte>;

void write(const std::filesystem::path& file, const bytes& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

/// The samples of a type that are small enough, under names that sort.
template <class Message>
void write_samples(const std::filesystem::path& folder, const std::string& name, const bytes& before) {
  int number = 0;
  for (const Message& sample : test::samples<Message>()) {
    bytes content = before;
    const bytes message = encode(sample);
    content.insert(content.end(), message.begin(), message.end());
    if (content.size() <= 1024) write(folder / (name + "-" + std::to_string(number)), content);
    ++number;
  }
}

/// A message of one segment whose root has `pointers` pointers, the `index`th of them to a list of `count`
/// elements of no size; filled up to `size` bytes, so that the read limits let it pass.
bytes list_of_nothing(unsigned data_words, unsigned pointers, unsigned index, std::uint64_t count,
                      std::size_t size) {
  std::vector<std::uint64_t> words(size / 8);
  words[0] = std::uint64_t{words.size() - 1} << 32;
  words[1] = std::uint64_t{data_words} << 32 | std::uint64_t{pointers} << 48;
  const std::size_t pointer = 2 + data_words + index;
  const std::size_t tag = 2 + data_words + pointers;
  words[pointer] = (tag - pointer - 1) << 2 | 1 | std::uint64_t{7} << 32;
  words[tag] = count << 2;
  bytes out(words.size() * 8);
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  write_samples<link_frame>(root / "link_frame", "sample", {});
  write_samples<delta_descriptor>(root / "delta_descriptor", "sample", {});
  std::uint8_t type = 0;
  test::for_each_message([&](auto which) {
    using message = typename decltype(which)::type;
    write_samples<message>(root / "control_message", std::string{wire_name<message>().substr(6)},
                           {std::byte{type++}});
  });
  // A cluster view of 1 KiB that says it has 500 nodes of no size.
  bytes view{std::byte{9}};
  const bytes nothing = list_of_nothing(2, 3, 0, 500, 1024);
  view.insert(view.end(), nothing.begin(), nothing.end());
  write(root / "control_message" / "list-of-nothing", view);
  return 0;
}
