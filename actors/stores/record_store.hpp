#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schemas/control.hpp"
#include "schemas/errors.hpp"

namespace baton::actors::stores {

/// The one durable thing of a cluster: a small record per placement group, changed only by compare-and-swap.
/// Nothing is written per token or per session. Not thread-safe: the orchestrator's own thread owns it; calls
/// may take milliseconds.
class record_store {
 public:
  virtual ~record_store() = default;

  /// Begins a term of office: higher than any before, durable before it returns.
  virtual result<std::uint64_t> begin_term() = 0;

  virtual result<std::vector<group_record>> load() = 0;

  /// Writes `desired` if the group's revision still is `expected` (0: no such group). The record's revision
  /// becomes the store's next one, over all groups; its epoch too if `new_epoch`. Returns the record as
  /// written; `conflict` if another revision is there, `io_failed` if nothing could be written.
  virtual result<group_record> swap(group_record desired, std::uint64_t expected, bool new_epoch) = 0;
};

/// A database file, durable over power loss (write-ahead log, synchronous = FULL); ":memory:" for tests.
/// `io_failed` names the file if it cannot be opened or is none of ours.
result<std::unique_ptr<record_store>> open_sqlite_store(const std::string& path);

}  // namespace baton::actors::stores
