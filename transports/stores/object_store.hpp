#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schemas/errors.hpp"

/// Where objects are kept for good: whole or not at all, each under a key.
namespace baton::transports::stores {

using bytes = std::vector<std::byte>;

/// One contract, several bodies. A key is parts between slashes, of any characters, none of them empty; no
/// key is the beginning of another, up to a slash. Thread-safe; every call may take seconds.
///
/// What a store promises:
/// - An object is seen whole or not at all, whenever its writer dies. Once `put` has returned it is durable.
/// - Who reads, lists or removes sees what has been put before, by anybody.
/// - Nothing is promised of what a store gives back but that it is whole: readers verify checksums.
class object_store {
 public:
  virtual ~object_store() = default;

  /// Where it is, as a deployment names it.
  [[nodiscard]] virtual const std::string& where() const noexcept = 0;

  /// Writes the object, or replaces it. `invalid_argument` for what is no key; `io_failed` says nothing of
  /// whether it has been written.
  virtual result<void> put(const std::string& key, std::span<const std::byte> object) = 0;
  /// `not_found` if there is none; `no_room` if it is larger than `most` bytes.
  virtual result<bytes> get(const std::string& key, std::size_t most) = 0;
  /// The keys that begin with `folder` and a slash, in order; all of them if it is empty.
  virtual result<std::vector<std::string>> list(const std::string& folder) = 0;
  /// None is there afterwards, whether or not one was.
  virtual result<void> remove(const std::string& key) = 0;
};

/// Objects as files under a directory, which is made if it is not there: a local disk, or a network's that
/// is mounted. `io_failed` names what cannot be made.
result<std::unique_ptr<object_store>> open_directory(const std::string& path);

/// By what a deployment says: "file:PATH".
result<std::unique_ptr<object_store>> open_object_store(const std::string& where);

}  // namespace baton::transports::stores
