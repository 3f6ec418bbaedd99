#include "apps/sim/store.hpp"

#include <utility>

namespace baton::apps::sim {

const process_id* shared_store::owner_under(group_id group, epoch under) const {
  const auto found = owners_.find({group, under});
  return found == owners_.end() ? nullptr : &found->second;
}

result<std::vector<group_record>> store_session::load() {
  if (store_.random_.chance(store_.failing)) {
    ++store_.failures;
    return {errc::io_failed, "simulated"};
  }
  std::vector<group_record> all;
  for (const auto& [group, record] : store_.records_)
    all.push_back(record);
  return all;
}

result<group_record> store_session::swap(group_record desired, std::uint64_t expected, bool new_epoch) {
  if (term_ != store_.term_) return {errc::stale_epoch, "another term has begun"};
  if (store_.random_.chance(store_.failing)) {
    ++store_.failures;
    store_.tell(desired, "fails");
    return {errc::io_failed, "simulated"};
  }
  const auto known = store_.records_.find(desired.group);
  const std::uint64_t there = known == store_.records_.end() ? 0 : known->second.revision;
  if (there != expected) {
    store_.tell(desired, "conflict");
    return {errc::conflict, "revision " + std::to_string(there)};
  }
  desired.revision = ++store_.revision_;
  if (new_epoch) desired.epoch = epoch{desired.revision};
  const auto [owner, fresh] = store_.owners_.try_emplace({desired.group, desired.epoch}, desired.owner);
  if (!fresh && owner->second != desired.owner) store_.misuse_ = "INV4: two owners under one epoch";
  store_.records_[desired.group] = desired;
  if (store_.random_.chance(store_.lying)) {
    ++store_.lies;
    store_.tell(desired, "written, reported as failed");
    return {errc::io_failed, "simulated: the answer was lost"};
  }
  store_.tell(desired, "written");
  return desired;
}

std::pair<nanoseconds, nanoseconds> store_session::next_ways() {
  const auto one = [this] {
    if (!store_.random_.chance(store_.lagging)) return store_.random_.time(50us, 500us);
    ++store_.lags;
    return store_.random_.time(1ms, longest_lag);
  };
  return {one(), one()};
}

}  // namespace baton::apps::sim
