#include "schemas/link.hpp"

#include "tests/fuzz/codec_checks.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

void delta_descriptor(input bytes) {
  if (!check_codec<baton::delta_descriptor>(bytes)) return;
  const auto rows = *decode<baton::delta_descriptor>(bytes);
  // What the rooms above rely on: the rows are some, and lie within the longest session.
  BATON_ASSERT(rows.count > 0 && std::uint64_t{rows.first} + rows.count <= limits::session_tokens);
  BATON_ASSERT(rows.codec == row_codec::none);
  BATON_ASSERT(encode(rows).size() <= limits::descriptor_bytes);
}

}  // namespace baton::fuzz
