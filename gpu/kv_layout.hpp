#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "schemas/memory.hpp"

/// Where the KV rows of a token lie, in an engine's memory and on the wire.
namespace baton::gpu {

/// The rows of one token, region by region. A region is the K or the V tensor of one layer; its row is what
/// one token adds to it. On the wire and in staging memory the rows are position-major: all regions of the
/// first position, then all of the next. So a prefix of positions is a prefix of bytes, and cutting at any
/// position moves nothing.
struct kv_layout {
  std::vector<std::uint32_t> row_bytes;  ///< per region, in a fixed order

  [[nodiscard]] std::size_t bytes_per_token() const noexcept {
    return std::accumulate(row_bytes.begin(), row_bytes.end(), std::size_t{0});
  }
  friend bool operator==(const kv_layout&, const kv_layout&) = default;
};

/// The rows of one region within an engine's image: row `i` lies at `offset_bytes + i * stride_bytes`.
struct kv_strip {
  std::size_t offset_bytes = 0;
  std::size_t stride_bytes = 0;
};

/// The rows of `count` positions as an engine exports or imports them: its own format, with strips that say
/// where the rows are. `strips` has one entry per region of the layout.
struct kv_image {
  std::vector<std::byte> bytes;
  std::vector<kv_strip> strips;
  std::uint32_t count = 0;  ///< positions
};

}  // namespace baton::gpu
