#pragma once

#include <memory>

#include "gpu/device.hpp"
#include "gpu/staging_ring.hpp"

namespace baton::gpu {

/// The device without a GPU: staging in ordinary host memory, pack and unpack by the calling thread. What a
/// CPU engine uses, and the reference that a GPU body is tested against. Thread-safe; calls on different
/// slots run in parallel.
class host_device final : public device {
 public:
  /// Allocates the ring; throws std::runtime_error when there is no memory for it or `staging` asks for none.
  explicit host_device(staging_ring::options staging);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] staging_ring& staging() override;
  result<std::uint64_t> pack(const kv_layout& layout, const kv_image& image, memory_region slot) override;
  result<void> unpack(const kv_layout& layout, memory_region slot, std::uint32_t count,
                      std::uint64_t checksum, kv_image& image) override;

 private:
  staging_ring staging_;
};

/// The host body behind its interface; throws like the constructor.
std::unique_ptr<device> make_host_device(staging_ring::options staging);

}  // namespace baton::gpu
