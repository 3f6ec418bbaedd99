#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/memory.hpp"

namespace baton::gpu {

class staging_ring;

/// A slot on loan from the ring: given back when the last copy of the handle goes. Copy it to share the slot,
/// e.g. one delta that several links send. Safe to drop on any thread.
class staging_slot {
 public:
  staging_slot() = default;

  [[nodiscard]] bool held() const noexcept { return lease_ != nullptr; }
  [[nodiscard]] memory_region region() const noexcept;
  /// Takes the slot out of use for the life of the process, because a failed endpoint may still write to it
  /// (protocol Z2).
  void quarantine() noexcept;

 private:
  friend class staging_ring;
  struct lease;
  explicit staging_slot(std::shared_ptr<lease> held) : lease_(std::move(held)) {}
  std::shared_ptr<lease> lease_;
};

/// A fixed number of equal slots in one allocation, lent and given back. Never grows: when all are lent,
/// `acquire` says `no_room` and replication lags instead of memory growing (design rule 10). Thread-safe.
class staging_ring {
 public:
  struct options {
    std::size_t slot_bytes = 0;
    std::size_t slots = 0;
  };

  struct usage {
    std::size_t total = 0, lent = 0, quarantined = 0;
  };

  /// Allocates all of it, page-aligned and touched.
  explicit staging_ring(options how);
  ~staging_ring();
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;

  /// A free slot with room for `size_bytes`; `no_room` when all are lent or a slot is too small. Does not
  /// wait.
  result<staging_slot> acquire(std::size_t size_bytes);

  [[nodiscard]] usage used() const;
  [[nodiscard]] std::size_t slot_bytes() const noexcept;
  /// The whole allocation, for registering it with a transport.
  [[nodiscard]] memory_region whole() const noexcept;

 private:
  friend class staging_slot;
  struct pool;
  std::shared_ptr<pool> pool_;  // outlives the ring while slots are lent
};

}  // namespace baton::gpu
