#pragma once

#include <sys/types.h>

#include <string>

#include "schemas/errors.hpp"

namespace baton::apps::host {

/// A private folder that is gone when we are, even if we are killed: a small process of its own waits for our
/// end and removes it. Make it while there is one thread only.
class temporary_folder {
 public:
  /// In $TMPDIR or /tmp, named after `prefix`.
  static result<temporary_folder> make(const std::string& prefix);

  /// Returns once the folder is removed.
  ~temporary_folder();
  temporary_folder(temporary_folder&& other) noexcept;
  temporary_folder& operator=(temporary_folder&&) = delete;
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  temporary_folder() = default;

  std::string path_;
  int lifeline_ = -1;  // closed by us, or by the kernel at our end
  pid_t cleaner_ = -1;
};

}  // namespace baton::apps::host
