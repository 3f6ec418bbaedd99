#pragma once

#include <vector>

#include "schemas/codec.hpp"
#include "schemas/limits.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/memory_meter.hpp"

namespace baton::fuzz {

/// What holds for any bytes read as a `Message`: a value or `malformed`, in memory that is a small multiple
/// of the bytes; what was read is written, read and written again without a change; and it does not matter
/// where the bytes lie. Returns whether they were a value.
template <class Message>
bool check_codec(input bytes) {
  const memory_meter meter;
  const auto got = decode<Message>(bytes);
  // The text of an error, and the library's own objects, are the constant.
  BATON_ASSERT(meter.peak_bytes() <= bytes.size() * (limits::decoded_factor + 1) + (16U << 10));
  if (!got.ok()) {
    BATON_ASSERT(got.code() == errc::malformed);
    BATON_ASSERT(!got.failure().what.empty() && got.failure().what.size() < 1024);
    return false;
  }
  const auto again = encode(*got);
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  const auto elsewhere = decode<Message>(input{shifted}.subspan(1));
  BATON_ASSERT(elsewhere.ok() && encode(*elsewhere) == again);
  if (again.size() > most_bytes<Message>) return true;  // what was shared is written out
  const auto back = decode<Message>(again);
  BATON_ASSERT(back.ok());
  BATON_ASSERT(encode(*back) == again);
  const bool has_nan = !(*got == *got);
  BATON_ASSERT(*back == *got || has_nan);
  return true;
}

}  // namespace baton::fuzz
