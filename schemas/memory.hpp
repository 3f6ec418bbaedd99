#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// The one word that `transports` and `gpu` share: a piece of memory that bytes leave from or land in.
namespace baton {

/// Where a region lives. Decides which copies and which transports can reach it.
enum class memory_kind : std::uint8_t { host, pinned_host, cuda_device };

/// A borrowed piece of memory. Whoever hands it out says how long it stays valid.
struct memory_region {
  std::byte* address = nullptr;
  std::size_t size_bytes = 0;
  memory_kind kind = memory_kind::host;

  [[nodiscard]] bool empty() const noexcept { return size_bytes == 0; }
  /// The bytes themselves; only for memory that the host can read.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {address, size_bytes}; }
};

}  // namespace baton
