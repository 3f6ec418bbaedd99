#pragma once

#include <unistd.h>

#include <utility>

namespace baton::transports::detail {

/// Owns a file descriptor.
class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int descriptor) : descriptor_(descriptor) {}
  unique_fd(unique_fd&& from) noexcept : descriptor_(from.release()) {}
  unique_fd& operator=(unique_fd&& from) noexcept {
    if (this != &from) {
      reset();
      descriptor_ = from.release();
    }
    return *this;
  }
  ~unique_fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  int release() noexcept { return std::exchange(descriptor_, -1); }
  void reset() noexcept {
    if (descriptor_ >= 0) ::close(release());
  }

 private:
  int descriptor_ = -1;
};

}  // namespace baton::transports::detail
