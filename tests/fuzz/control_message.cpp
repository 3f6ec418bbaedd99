#include "tests/fuzz/codec_checks.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/unit/schemas/samples.hpp"

namespace baton::fuzz {

// The first byte says of which type the rest is, in the order of `every_message`.
void control_message(input bytes) {
  choices draw{bytes};
  const std::uint8_t type = draw.byte();
  const input message = draw.rest();
  std::uint8_t number = 0;
  test::for_each_message([&](auto which) {
    if (number++ == type) check_codec<typename decltype(which)::type>(message);
  });
}

}  // namespace baton::fuzz
