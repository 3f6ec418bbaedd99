#include "actors/stores/record_store.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors::stores {

result<std::unique_ptr<record_store>> open_store(const std::string& where, const std::string& cluster) {
  const std::size_t colon = std::min(where.find(':'), where.size());
  const std::string kind = where.substr(0, colon);
  const std::string rest = where.substr(std::min(colon + 1, where.size()));
  if (kind == "sqlite" && !rest.empty()) return open_sqlite_store(rest);
  if (kind != "etcd" || rest.empty())
    return {errc::invalid_argument, "store " + where + ": expected sqlite:PATH or etcd:URL,…"};
  std::vector<std::string> members;
  for (std::size_t from = 0; from <= rest.size();) {
    const std::size_t comma = std::min(rest.find(',', from), rest.size());
    members.push_back(rest.substr(from, comma - from));
    from = comma + 1;
  }
  return open_etcd_store(std::move(members), cluster);
}

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
