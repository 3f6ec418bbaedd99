#include "schemas/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace baton {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::uint64_t hash_step(std::uint64_t before, std::uint64_t word) noexcept {
  const std::array<std::uint64_t, 2> words{before, word};
  return XXH3_64bits(words.data(), sizeof words);
}

}  // namespace baton
