#include "gpu/staging_ring.hpp"

#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "schemas/errors.hpp"

namespace baton::gpu {
namespace {

/// Slots begin on cache lines, so that two of them written by two threads never share one.
constexpr std::size_t slot_alignment = 64;

std::size_t stride_of(std::size_t slot_bytes) {
  if (slot_bytes == 0 || slot_bytes > std::numeric_limits<std::size_t>::max() - slot_alignment)
    throw std::runtime_error("staging ring: a slot of " + std::to_string(slot_bytes) + " bytes");
  return (slot_bytes + slot_alignment - 1) / slot_alignment * slot_alignment;
}

}  // namespace

struct staging_ring::pool {
  explicit pool(options how) : how(how), stride(stride_of(how.slot_bytes)) {
    if (how.slots == 0 || __builtin_mul_overflow(stride, how.slots, &size_bytes))
      throw std::runtime_error("staging ring: " + std::to_string(how.slots) + " slots of " +
                               std::to_string(how.slot_bytes) + " bytes");
    void* mapped = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw std::runtime_error("staging ring: no memory for " + std::to_string(size_bytes) + " bytes");
    base = static_cast<std::byte*>(mapped);
    std::memset(base, 0, size_bytes);  // touched now, so that no page fault meets a token
    free.reserve(how.slots);           // giving back never allocates
    for (std::size_t i = how.slots; i-- > 0;)
      free.push_back(i);
  }

  /// The ring and the last slot are gone. A quarantined slot may still be written by a failed endpoint, so
  /// its memory is then never handed back to the system.
  ~pool() {
    if (quarantined == 0) ::munmap(base, size_bytes);
  }

  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  const options how;
  const std::size_t stride;
  std::size_t size_bytes = 0;
  std::byte* base = nullptr;

  std::mutex mutex;
  std::vector<std::size_t> free;  // a stack: the slot given back last is warm in the cache
  std::size_t quarantined = 0;
};

struct staging_slot::lease {
  lease(std::shared_ptr<staging_ring::pool> from, std::size_t index) : from(std::move(from)), index(index) {}

  ~lease() {
    const std::lock_guard lock(from->mutex);
    if (!quarantined) from->free.push_back(index);
  }

  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;

  const std::shared_ptr<staging_ring::pool> from;
  const std::size_t index;
  bool quarantined = false;  // guarded by from->mutex
};

memory_region staging_slot::region() const noexcept {
  if (!lease_) return {};
  const auto& from = *lease_->from;
  return {from.base + lease_->index * from.stride, from.how.slot_bytes, memory_kind::host};
}

void staging_slot::quarantine() noexcept {
  if (!lease_) return;
  const std::lock_guard lock(lease_->from->mutex);
  if (!lease_->quarantined) ++lease_->from->quarantined;
  lease_->quarantined = true;
}

staging_ring::staging_ring(options how) : pool_(std::make_shared<pool>(how)) {}

staging_ring::~staging_ring() = default;

result<staging_slot> staging_ring::acquire(std::size_t size_bytes) {
  if (size_bytes > pool_->how.slot_bytes)
    return {errc::no_room, "a staging slot has " + std::to_string(pool_->how.slot_bytes) +
                               " bytes, asked for " + std::to_string(size_bytes)};
  std::size_t index = 0;
  {
    const std::lock_guard lock(pool_->mutex);
    if (pool_->free.empty())
      return {errc::no_room, "all " + std::to_string(pool_->how.slots) + " staging slots are lent"};
    index = pool_->free.back();
    pool_->free.pop_back();
  }
  return staging_slot(std::make_shared<staging_slot::lease>(pool_, index));
}

staging_ring::usage staging_ring::used() const {
  const std::lock_guard lock(pool_->mutex);
  return {pool_->how.slots, pool_->how.slots - pool_->free.size() - pool_->quarantined, pool_->quarantined};
}

std::size_t staging_ring::slot_bytes() const noexcept {
  return pool_->how.slot_bytes;
}

memory_region staging_ring::whole() const noexcept {
  return {pool_->base, pool_->size_bytes, memory_kind::host};
}

}  // namespace baton::gpu
