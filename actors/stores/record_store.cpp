#include "actors/stores/record_store.hpp"

#include <utility>

namespace baton::actors::stores {

swap_outcome try_swap(record_store& store, protocol::swap_record swap) {
  const group_id group = swap.desired.group;
  auto written = store.swap(std::move(swap.desired), swap.expected, swap.new_epoch);
  if (written) return {true, std::move(*written), {}};
  swap_outcome out{false, {}, written.failure()};
  out.record.group = group;
  if (out.why.code != errc::conflict) return out;  // it may have been written, or may be yet
  if (const auto records = store.load())
    for (const group_record& known : *records)
      if (known.group == group) out.record = known;
  return out;
}

}  // namespace baton::actors::stores
