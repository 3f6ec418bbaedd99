#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/protocol/cluster_table.hpp"
#include "schemas/control.hpp"
#include "schemas/errors.hpp"

namespace baton::actors::stores {

/// A term, and the store that it is in: a number drawn when that was made, never 0.
struct office {
  std::uint64_t term = 0;
  std::uint64_t store = 0;
};

/// The one durable thing of a cluster: a small record per placement group, changed only by compare-and-swap.
/// Nothing is written per token or per session. Not thread-safe; calls may take a second.
class record_store {
 public:
  virtual ~record_store() = default;

  /// Begins a term of office: higher than any before, durable before it returns.
  virtual result<office> begin_term() = 0;

  virtual result<std::vector<group_record>> load() = 0;

  /// Writes `desired` if the group's revision still is `expected` (0: no such group). The record's revision
  /// becomes the store's next one, over all groups; its epoch too if `new_epoch`. Returns the record as
  /// written; `conflict` if another revision is there, `stale_epoch` if another orchestrator has begun a
  /// term: then nothing has been written. `io_failed` says nothing of that: it may have been written, and may
  /// be yet.
  virtual result<group_record> swap(group_record desired, std::uint64_t expected, bool new_epoch) = 0;
};

/// What came of a compare-and-swap.
struct swap_outcome {
  bool done = false;
  group_record
      record;  ///< as written; or what is there instead; or of revision 0: there is none, or who knows
  error why;   ///< if not done
};
[[nodiscard]] swap_outcome try_swap(record_store& store, protocol::swap_record swap);

/// A database file, durable over power loss (write-ahead log, synchronous = FULL); ":memory:" for tests.
/// `io_failed` names the file if it cannot be opened or is none of ours.
result<std::unique_ptr<record_store>> open_sqlite_store(const std::string& path);

/// An etcd cluster, "http://host:port" of each member, which many deployments may share: everything is under
/// "/baton/<cluster>/". No member need be there yet. A second orchestrator may use it: who began the later
/// term writes, the other's swaps fail with `stale_epoch`.
result<std::unique_ptr<record_store>> open_etcd_store(std::vector<std::string> members,
                                                      const std::string& cluster);

/// By what a deployment says: "sqlite:PATH" or "etcd:URL,URL".
result<std::unique_ptr<record_store>> open_store(const std::string& where, const std::string& cluster);

}  // namespace baton::actors::stores
