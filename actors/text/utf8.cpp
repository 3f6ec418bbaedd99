#include "actors/text/utf8.hpp"

#include <array>
#include <cstdint>

namespace baton::actors::text {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct lead {
  int length = 0;  // of the character; 0 if no character begins so
  std::uint8_t second_low = 0x80, second_high = 0xBF;
};

lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

bool continues(const std::string& begun, std::uint8_t byte) {
  const lead first = lead_of(static_cast<std::uint8_t>(begun[0]));
  if (begun.size() == 1) return byte >= first.second_low && byte <= first.second_high;
  return byte >= 0x80 && byte <= 0xBF;
}

}  // namespace

std::string utf8_assembler::feed(std::string_view bytes) {
  std::string out;
  for (const char raw : bytes) {
    const auto byte = static_cast<std::uint8_t>(raw);
    if (!tail_.empty() && !continues(tail_, byte)) {
      out += replacement;
      tail_.clear();
    }
    if (tail_.empty() && lead_of(byte).length == 0) {
      out += replacement;
      continue;
    }
    tail_ += raw;
    if (static_cast<int>(tail_.size()) == lead_of(static_cast<std::uint8_t>(tail_[0])).length) {
      out += tail_;
      tail_.clear();
    }
  }
  return out;
}

std::string utf8_assembler::finish() {
  if (tail_.empty()) return {};
  tail_.clear();
  return std::string{replacement};
}

}  // namespace baton::actors::text
