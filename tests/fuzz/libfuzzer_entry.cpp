#include "tests/fuzz/targets.hpp"

// What libFuzzer calls; BATON_FUZZ_TARGET is the name of one of targets.hpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::BATON_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
