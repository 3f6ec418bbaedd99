#include "tests/fuzz/targets.hpp"

#include <memory>

namespace baton::fuzz {

// A heap overflow behind three bytes that random inputs hardly ever have: to find it, the instrument must see
// coverage, follow it, and check memory. A run that does not find it within seconds is a broken instrument.
void canary(input bytes) {
  if (bytes.size() < 4) return;
  const std::string copy{text_of(bytes.first(4))};
  if (copy[0] != 'K' || copy[1] != 'V' || copy[2] != '!') return;
  const auto rows = std::make_unique<char[]>(64);
  const volatile char* past = rows.get() + (static_cast<unsigned char>(copy[3]) >= 128 ? 64 : 0);
  static_cast<void>(*past);
}

}  // namespace baton::fuzz
