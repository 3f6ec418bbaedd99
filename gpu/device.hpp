#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/kv_layout.hpp"
#include "gpu/staging_ring.hpp"
#include "schemas/errors.hpp"

namespace baton::gpu {

/// The memory that KV rows pass through between an engine and a transport, and the copies in and out of it.
/// One contract; the host body is always built. Thread-safe: the engine's thread acquires, the gpu actor
/// packs and unpacks, the transport's thread lands and releases.
class device {
 public:
  virtual ~device() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// The ring of staging slots, registered once with whatever moves their bytes.
  [[nodiscard]] virtual staging_ring& staging() = 0;

  /// Gathers the rows of `image` into `slot` in wire order (see `kv_layout`) and returns their checksum,
  /// XXH3-64 over exactly `image.count * layout.bytes_per_token()` bytes. `invalid_argument` if the image
  /// does not fit the layout or the slot is too small; then nothing has been written.
  virtual result<std::uint64_t> pack(const kv_layout& layout, const kv_image& image, memory_region slot) = 0;

  /// Checks the checksum of `count` positions in `slot`, then scatters them into the strips of `image`.
  /// `corrupt` if the checksum differs; then the image has not been touched.
  virtual result<void> unpack(const kv_layout& layout, memory_region slot, std::uint32_t count,
                              std::uint64_t checksum, kv_image& image) = 0;
};

}  // namespace baton::gpu
