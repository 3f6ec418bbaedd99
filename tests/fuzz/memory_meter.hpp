#pragma once

#include <cstddef>

namespace baton::fuzz {

/// Measures what its thread takes from `operator new` while it lives. One at a time.
class memory_meter {
 public:
  memory_meter() noexcept;

  /// The most that was held at once, in bytes, beyond what was held at the start.
  [[nodiscard]] std::size_t peak_bytes() const noexcept;
};

}  // namespace baton::fuzz
