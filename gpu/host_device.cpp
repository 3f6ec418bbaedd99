#include "gpu/host_device.hpp"

#include <cstring>
#include <string>

#include "schemas/hash.hpp"

namespace baton::gpu {
namespace {

/// Checks that every row of `count` positions lies within the image and that the rows fit `slot`; returns
/// their bytes. All sums are checked: strips come from an engine's own format and may be anything.
result<std::size_t> checked_bytes(const kv_layout& layout, const kv_image& image, std::uint32_t count,
                                  memory_region slot) {
  if (slot.kind == memory_kind::cuda_device)
    return {errc::invalid_argument, "the host device cannot reach device memory"};
  if (image.strips.size() != layout.row_bytes.size())
    return {errc::invalid_argument, "an image of " + std::to_string(image.strips.size()) +
                                        " strips for a layout of " + std::to_string(layout.row_bytes.size()) +
                                        " regions"};
  if (count > image.count)
    return {errc::invalid_argument,
            std::to_string(count) + " positions for an image of " + std::to_string(image.count)};
  std::size_t total = 0;
  if (__builtin_mul_overflow(layout.bytes_per_token(), std::size_t{count}, &total) || total > slot.size_bytes)
    return {errc::invalid_argument, std::to_string(count) + " positions of " +
                                        std::to_string(layout.bytes_per_token()) + " bytes do not fit " +
                                        std::to_string(slot.size_bytes) + " bytes"};
  if (count == 0) return std::size_t{0};
  for (std::size_t region = 0; region < image.strips.size(); ++region) {
    const auto& strip = image.strips[region];
    const std::size_t row = layout.row_bytes[region];
    std::size_t end = 0;
    const bool overflows = __builtin_mul_overflow(strip.stride_bytes, std::size_t{count} - 1, &end) ||
                           __builtin_add_overflow(end, strip.offset_bytes, &end) ||
                           __builtin_add_overflow(end, row, &end);
    if (overflows || end > image.bytes.size() || (count > 1 && strip.stride_bytes < row))
      return {errc::invalid_argument,
              "strip " + std::to_string(region) + " (offset " + std::to_string(strip.offset_bytes) +
                  ", stride " + std::to_string(strip.stride_bytes) + ", row " + std::to_string(row) +
                  ") does not fit an image of " + std::to_string(image.bytes.size()) + " bytes"};
  }
  return total;
}

}  // namespace

host_device::host_device(staging_ring::options staging) : staging_(staging) {}

std::string_view host_device::name() const {
  return "host";
}

staging_ring& host_device::staging() {
  return staging_;
}

result<std::uint64_t> host_device::pack(const kv_layout& layout, const kv_image& image, memory_region slot) {
  const auto total = checked_bytes(layout, image, image.count, slot);
  if (!total) return total.failure();
  if (*total == 0) return hash_bytes({});
  const std::size_t regions = layout.row_bytes.size();
  std::byte* to = slot.address;
  for (std::size_t position = 0; position < image.count; ++position) {
    for (std::size_t region = 0; region < regions; ++region) {
      const auto& strip = image.strips[region];
      const std::size_t row = layout.row_bytes[region];
      std::memcpy(to, image.bytes.data() + strip.offset_bytes + position * strip.stride_bytes, row);
      to += row;
    }
  }
  return hash_bytes({slot.address, *total});
}

result<void> host_device::unpack(const kv_layout& layout, memory_region slot, std::uint32_t count,
                                 std::uint64_t checksum, kv_image& image) {
  const auto total = checked_bytes(layout, image, count, slot);
  if (!total) return total.failure();
  if (hash_bytes({slot.address, *total}) != checksum)
    return {errc::corrupt, "the checksum of " + std::to_string(*total) + " bytes of KV rows does not match"};
  if (*total == 0) return {};
  const std::size_t regions = layout.row_bytes.size();
  const std::byte* from = slot.address;
  for (std::size_t position = 0; position < count; ++position) {
    for (std::size_t region = 0; region < regions; ++region) {
      const auto& strip = image.strips[region];
      const std::size_t row = layout.row_bytes[region];
      std::memcpy(image.bytes.data() + strip.offset_bytes + position * strip.stride_bytes, from, row);
      from += row;
    }
  }
  return {};
}

std::unique_ptr<device> make_host_device(staging_ring::options staging) {
  return std::make_unique<host_device>(staging);
}

}  // namespace baton::gpu
