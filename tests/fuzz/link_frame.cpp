#include "schemas/link.hpp"

#include "tests/fuzz/codec_checks.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

void link_frame(input bytes) {
  check_codec<baton::link_frame>(bytes);
}

}  // namespace baton::fuzz
