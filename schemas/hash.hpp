#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Hashing. XXH3 against accidents (flipped bits, mixed-up histories); it is no defence against an attacker,
/// which is the transport's job.
namespace baton {

/// XXH3-64 of `bytes`, seeded. Thread-safe, no allocation.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;
std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept;

/// One step of a hash chain: depends on `before` and on `word`, in order.
std::uint64_t hash_step(std::uint64_t before, std::uint64_t word) noexcept;

/// SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection on 64 bits whose outputs look
/// independent.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace baton
