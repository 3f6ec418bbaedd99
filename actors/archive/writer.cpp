#include "actors/archive/writer.hpp"

#include <algorithm>
#include <utility>

#include "schemas/hash.hpp"

namespace baton::actors::archive {

namespace {

using namespace std::chrono_literals;

/// A store that has failed is asked again after this, then after twice as long, and so on.
constexpr auto first_retry = 200ms;
constexpr std::uint32_t most_doublings = 6;

}  // namespace

result<void> writer::take(session_id session, std::uint64_t generation, position first,
                          std::span<const std::byte> rows, time_point now) {
  if (waiting_bytes_ + rows.size() > how_.most_waiting_bytes) {
    ++counters_.refused;
    return {errc::no_room, "the store is behind by " + std::to_string(waiting_bytes_) + " bytes"};
  }
  const auto [found, begun] = sessions_.try_emplace(session);
  state& it = found->second;
  if (begun) it.first_number = next_number_;
  if (first != end_of(it) + it.waiting.size() / how_.bytes_per_token)
    return {errc::gap, "rows that do not follow what has been taken"};
  if (it.waiting.empty()) it.waiting_since = now;
  it.waiting.insert(it.waiting.end(), rows.begin(), rows.end());
  it.generation = generation;
  waiting_bytes_ += rows.size();
  return {};
}

void writer::cut(session_id session, position length, std::uint64_t generation) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  state& it = found->second;
  it.generation = std::max(it.generation, generation);
  while (!it.rows.empty() && it.rows.back().first >= length) {
    it.obsolete.push_back(std::move(it.rows.back().object));
    it.rows.pop_back();
  }
  if (end_of(it) > length) it.rows.back().count = length - it.rows.back().first;
  const std::size_t left = (length - std::min(length, end_of(it))) * how_.bytes_per_token;
  if (left >= it.waiting.size()) return;
  waiting_bytes_ -= it.waiting.size() - left;
  it.waiting.resize(left);
}

position writer::archived(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : std::min(found->second.named, end_of(found->second));
}

bool writer::is_due(const state& it, time_point now) const {
  if (now < it.retry_at) return false;
  if (it.waiting.empty()) return end_of(it) > it.named;  // in objects, but no manifest could be written
  return it.waiting.size() >= how_.object_tokens * how_.bytes_per_token ||
         now - it.waiting_since >= how_.written_within;
}

void writer::on_tick(time_point now, const histories& known) {
  for (auto& [session, it] : sessions_) {
    if (!is_due(it, now)) continue;
    const auto current = known(session);
    // A cut that has not reached us yet: what is here may be of another history than the one that is there.
    if (!current || current->generation != it.generation) continue;
    if (write(session, it, *current)) {
      it.failed = 0;
      continue;
    }
    ++counters_.failures;
    it.retry_at = now + first_retry * (1U << std::min(it.failed++, most_doublings));
  }
}

result<void> writer::write(session_id session, state& it, const history& known) {
  if (auto done = write_rows(session, it, known); !done) return done;
  if (auto done = write_manifest(session, it, known); !done) return done;
  remove_obsolete(session, it, known);
  return {};
}

result<void> writer::write_rows(session_id session, state& it, const history& known) {
  while (!it.waiting.empty()) {
    const std::size_t size = std::min(it.waiting.size(), how_.object_tokens * how_.bytes_per_token);
    const std::span<const std::byte> object{it.waiting.data(), size};
    archived_rows rows;
    rows.object = rows_key(session, known.epoch, next_number_++);
    rows.first = end_of(it);
    rows.count = rows.stored = static_cast<std::uint32_t>(size / how_.bytes_per_token);
    rows.checksum = hash_bytes(object);
    if (auto done = store_.put(rows.object, object); !done) {
      it.obsolete.push_back(std::move(rows.object));  // it may be there all the same
      return done;
    }
    ++counters_.objects;
    counters_.object_bytes += size;
    it.rows.push_back(std::move(rows));
    it.waiting.erase(it.waiting.begin(), it.waiting.begin() + static_cast<std::ptrdiff_t>(size));
    waiting_bytes_ -= size;
  }
  return {};
}

result<void> writer::write_manifest(session_id session, state& it, const history& known) {
  archive_manifest manifest;
  manifest.epoch = known.epoch;
  manifest.fingerprint = how_.fingerprint;
  manifest.bytes_per_token = how_.bytes_per_token;
  manifest.log = known.log.piece_from(0);
  manifest.rows = it.rows;
  const std::string key = manifest_key(session, known.epoch, next_number_++);
  if (auto done = store_.put(key, sealed(encode(manifest))); !done) {
    it.obsolete.push_back(key);
    return done;
  }
  ++counters_.manifests;
  if (!it.manifest.empty()) it.obsolete.push_back(std::move(it.manifest));
  it.manifest = key;
  it.named = end_of(it);
  return {};
}

void writer::remove(const std::string& key) {
  if (store_.remove(key)) ++counters_.removed;
}

/// What was written before goes once we have as much.
void writer::remove_obsolete(session_id session, state& it, const history& known) {
  for (const std::string& key : std::exchange(it.obsolete, {}))
    remove(key);
  if (it.older_removed || end_of(it) + 1 < known.log.length()) return;
  const auto keys = store_.list(session_folder(session));
  if (!keys) return;  // another time
  it.older_removed = true;
  for (const std::string& key : *keys)
    if (is_older(key, known.epoch, it.first_number)) remove(key);
}

}  // namespace baton::actors::archive
