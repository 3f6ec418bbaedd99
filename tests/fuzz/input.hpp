#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "schemas/errors.hpp"

/// What a fuzz target gets, and how it draws choices from it.
namespace baton::fuzz {

using input = std::span<const std::byte>;

inline std::string_view text_of(input bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Draws choices from an input, in order. Once it is used up every draw is 0.
class choices {
 public:
  explicit choices(input bytes) : left_(bytes) {}

  [[nodiscard]] bool any() const noexcept { return !left_.empty(); }

  std::uint8_t byte() {
    const auto drawn = next(1);
    return drawn.empty() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(drawn[0]);
  }
  std::uint64_t word() {
    const auto drawn = next(sizeof(std::uint64_t));
    std::uint64_t value = 0;
    if (!drawn.empty()) std::memcpy(&value, drawn.data(), drawn.size());
    return value;
  }
  /// In [0, n), n > 0; one byte if that is enough.
  std::uint32_t below(std::size_t n) {
    BATON_ASSERT(n > 0);
    return static_cast<std::uint32_t>((n <= 256 ? byte() : word()) % n);
  }
  bool flag() { return (byte() & 1) != 0; }

  /// The next `size` bytes, or what is left.
  input next(std::size_t size) {
    const input drawn = left_.first(std::min(size, left_.size()));
    left_ = left_.subspan(drawn.size());
    return drawn;
  }
  input rest() { return next(left_.size()); }

 private:
  input left_;
};

}  // namespace baton::fuzz
