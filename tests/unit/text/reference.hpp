#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/hash.hpp"

/// The slow and obvious way to text, to compare with.
namespace baton::test {

/// A seeded generator, the same on every machine.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(mix64(seed)) {}
  /// Uniform in [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((state_ = mix64(state_)) % n); }

 private:
  std::uint64_t state_;
};

/// A byte of the kinds that begin, continue or break characters.
inline char awkward_byte(dice& draw) {
  static constexpr std::string_view edges =
      "\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff";
  return draw.below(4) == 0 ? static_cast<char>(draw.below(256)) : edges[draw.below(edges.size())];
}

/// Table 3-7 of Unicode 15, line by line: the least and the greatest of each byte.
inline const std::vector<std::vector<std::pair<std::uint8_t, std::uint8_t>>>& table_3_7() {
  static const std::vector<std::vector<std::pair<std::uint8_t, std::uint8_t>>> lines{
      {{0x00, 0x7F}},
      {{0xC2, 0xDF}, {0x80, 0xBF}},
      {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
      {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
      {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
  };
  return lines;
}

/// The longest beginning of `bytes` that some line of the table begins with, and whether it is a whole line.
inline std::pair<std::size_t, bool> longest_part(std::string_view bytes) {
  std::pair<std::size_t, bool> best{0, false};
  for (const auto& line : table_3_7()) {
    std::size_t n = 0;
    while (n < line.size() && n < bytes.size() && static_cast<std::uint8_t>(bytes[n]) >= line[n].first &&
           static_cast<std::uint8_t>(bytes[n]) <= line[n].second)
      ++n;
    best = std::max(best, {n, n == line.size()});
  }
  return best;
}

/// All of `bytes` as text; if `more` may follow, without a character at the end that has only begun.
inline std::string reference_text(std::string_view bytes, bool more = false) {
  std::string out;
  while (!bytes.empty()) {
    const auto [size, whole] = longest_part(bytes);
    if (whole)
      out += bytes.substr(0, size);
    else if (more && size == bytes.size())
      return out;
    else
      out += "\xEF\xBF\xBD";
    bytes.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

inline bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto [size, whole] = longest_part(text);
    if (!whole) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace baton::test
