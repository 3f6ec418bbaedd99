#include "actors/archive/reader.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "actors/protocol/evaluation_plan.hpp"
#include "schemas/hash.hpp"

namespace baton::actors::archive {

namespace {

/// How many rows of the history in the manifest are rows of `wanted`.
position usable(const archive_manifest& manifest, const protocol::session_log& wanted,
                const row_format& format) {
  if (manifest.fingerprint != format.fingerprint || manifest.bytes_per_token != format.bytes_per_token)
    return 0;
  // Another session may have been made of it since: its history is compared as if it were the wanted one's.
  protocol::session_log there{wanted.session(), format.fingerprint};
  session_piece history = manifest.log;
  history.session = wanted.session();
  history.chain_before = there.chain();
  if (!there.adopt(history)) return 0;
  const auto same = there.agreement(wanted.piece_from(0));
  if (!same) return 0;
  const position rows = protocol::rows_kept_in(wanted.turns(), there.turns(), *same, format.prefill_chunk);
  const auto& there_are = manifest.rows;
  return there_are.empty() ? 0 : std::min(rows, there_are.back().first + there_are.back().count);
}

}  // namespace

reader::reader(object_store& store, session_id from, const protocol::session_log& wanted,
               const row_format& format)
    : store_(store), bytes_per_token_(format.bytes_per_token) {
  const auto keys = store.list(manifest_folder(from));
  if (!keys) return;
  for (auto key = keys->rbegin(); key != keys->rend(); ++key) {  // of equal ones, the latest
    auto manifest = read_message<archive_manifest>(store, *key);
    if (!manifest) continue;
    if (const position rows = usable(*manifest, wanted, format); rows > 0)
      found_.push_back({std::move(manifest->rows), rows});
  }
  std::ranges::stable_sort(found_, std::ranges::greater{}, &candidate::end);
}

bytes reader::read(position first) {
  for (const candidate& it : found_) {
    if (it.end <= first) break;
    const auto after = std::ranges::upper_bound(it.rows, first, {}, &archived_rows::first);
    if (auto got = read(*std::prev(after), first, it.end); !got.empty()) return got;
  }
  return {};
}

bytes reader::read(const archived_rows& rows, position first, position end) {
  const std::size_t size = rows.stored * bytes_per_token_;
  const auto object = store_.get(rows.object, size);
  if (!object || object->size() != size || hash_bytes(*object) != rows.checksum) return {};
  const auto at = [&](position row) {
    return object->begin() + static_cast<std::ptrdiff_t>((row - rows.first) * bytes_per_token_);
  };
  return {at(first), at(std::min(end, rows.first + rows.count))};
}

}  // namespace baton::actors::archive
