#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/archive/objects.hpp"
#include "actors/protocol/session_log.hpp"
#include "schemas/archive.hpp"

namespace baton::actors::archive {

/// The rows of sessions on their way into an object store: collected, written as objects of so many tokens
/// or after so long, and named by a manifest once they are there. What a manifest no longer names is removed
/// after it. A store that fails is asked again later; rows that it keeps waiting are bounded, and refused
/// past that. Calls that write may take seconds. Not thread-safe.
class writer {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::uint64_t fingerprint = 0;  ///< of the engine whose rows these are
    std::uint64_t bytes_per_token = 0;
    std::uint32_t object_tokens = 64;                ///< rows of one object
    std::chrono::milliseconds written_within{1000};  ///< fewer rows than that wait so long
    std::size_t most_waiting_bytes = 64U << 20;
  };

  /// A session as the receiving end of the link knows it. `generation` is that of its rows: each cut has
  /// another one.
  struct history {
    protocol::session_log log;
    baton::epoch epoch{};
    std::uint64_t generation = 0;
  };
  /// Nothing for a session that is not known any more.
  using histories = std::function<std::optional<history>(session_id)>;

  struct counters {
    std::uint64_t objects = 0, object_bytes = 0, manifests = 0, removed = 0, failures = 0, refused = 0;
  };

  /// `store` must outlive the writer.
  writer(options how, object_store& store) : how_(how), store_(store) {}

  /// Verified rows that follow what has been taken of the session, in wire order. `gap` if they do not
  /// follow, `no_room` if too much waits for the store.
  result<void> take(session_id session, std::uint64_t generation, position first,
                    std::span<const std::byte> rows, time_point now);
  /// The rows of positions >= `length` are of another history; the generation is another one from now on.
  void cut(session_id session, position length, std::uint64_t generation);
  /// The session is no longer ours to write. What is in the store stays.
  void drop(session_id session) { sessions_.erase(session); }

  /// Writes what is due.
  void on_tick(time_point now, const histories& known);

  /// Rows [0, n) of a session are in the store, and a manifest says so.
  [[nodiscard]] position archived(session_id session) const;
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return waiting_bytes_; }
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }

 private:
  struct state {
    std::vector<archived_rows> rows;  // in objects
    bytes waiting;                    // rows that follow
    time_point waiting_since{};
    std::uint64_t generation = 0;
    std::uint64_t first_number = 0;     // objects with a lower one are not of this state
    std::string manifest;               // the key of the last
    position named = 0;                 // rows that it names
    std::vector<std::string> obsolete;  // objects to remove once another manifest is there
    bool older_removed = false;         // what was written before, by us or others
    std::uint32_t failed = 0;           // in a row
    time_point retry_at{};
  };

  [[nodiscard]] static position end_of(const state& it) {
    return it.rows.empty() ? 0 : it.rows.back().first + it.rows.back().count;
  }
  [[nodiscard]] bool is_due(const state& it, time_point now) const;
  result<void> write(session_id session, state& it, const history& known);
  result<void> write_rows(session_id session, state& it, const history& known);
  result<void> write_manifest(session_id session, state& it, const history& known);
  void remove(const std::string& key);
  void remove_obsolete(session_id session, state& it, const history& known);

  options how_;
  object_store& store_;
  counters counters_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t next_number_ = 1;  // of objects of all sessions: a name is used once
  std::map<session_id, state> sessions_;
};

}  // namespace baton::actors::archive
