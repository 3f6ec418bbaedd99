#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "schemas/hash.hpp"
#include "transports/transport.hpp"

namespace baton::transports::test {

using bytes = std::vector<std::byte>;

/// Longer than anything takes that works, on a loaded machine under a sanitizer.
inline constexpr std::chrono::seconds patience{40};

inline bytes pattern(std::size_t size_bytes, std::uint64_t seed) {
  bytes made(size_bytes);
  std::uint64_t word = seed;
  for (std::size_t i = 0; i < size_bytes; i += sizeof word) {
    word = mix64(word + i);
    std::memcpy(made.data() + i, &word, std::min(sizeof word, size_bytes - i));
  }
  return made;
}

inline memory_region region_of(bytes& of) {
  return {of.data(), of.size(), memory_kind::host};
}

/// Writes down everything that a transport says, lands rows in memory of its own, and checks on the way what
/// every transport promises: one thread, no concurrent calls, alignment, nothing after `on_lost`.
class recording_sink : public frame_sink {
 public:
  enum class kind { accepted, message, rows, landed, lost };

  struct entry {
    kind what;
    connection_id from;
    bytes content;  // message, descriptor, landed rows
    std::size_t size_bytes = 0;
    std::optional<error> failure;
  };

  enum class threads { one, several };

  explicit recording_sink(threads may_call = threads::one) : may_call_(may_call) {}

  // --- what the test decides beforehand ---
  std::function<bool(const bytes& descriptor)> refuse;        ///< answers on_rows with nothing
  std::function<void(connection_id, const bytes&)> and_then;  ///< runs within on_message

  void on_accepted(connection_id from) override {
    const watch guard(*this, from);
    add({kind::accepted, from, {}, 0, {}});
  }

  void on_message(connection_id from, std::span<const std::byte> message) override {
    const watch guard(*this, from);
    if (!message.empty() && reinterpret_cast<std::uintptr_t>(message.data()) % 8 != 0)
      blame("message unaligned");
    wait_at_gate();
    bytes copy(message.begin(), message.end());
    if (and_then) and_then(from, copy);
    add({kind::message, from, std::move(copy), message.size(), {}});
  }

  memory_region on_rows(connection_id from, std::span<const std::byte> descriptor,
                        std::size_t size_bytes) override {
    const watch guard(*this, from);
    if (!descriptor.empty() && reinterpret_cast<std::uintptr_t>(descriptor.data()) % 8 != 0)
      blame("descriptor unaligned");
    wait_at_gate();
    bytes copy(descriptor.begin(), descriptor.end());
    const bool refused = refuse && refuse(copy);
    memory_region where;
    if (!refused) {
      const std::lock_guard lock(mutex_);
      // Landings stay for good, since a failed one may be written late.
      where = region_of(landings_.emplace_back(size_bytes + 1));
      open_[where.address] = {from, size_bytes};
    }
    add({kind::rows, from, std::move(copy), size_bytes, {}});
    return where;
  }

  void on_landed(connection_id from, memory_region landing, result<void> outcome) override {
    const watch guard(*this, from);
    std::size_t size_bytes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = open_.find(landing.address);
      if (found == open_.end() || found->second.first != from)
        return blame("landed twice, or never announced");
      size_bytes = found->second.second;
      open_.erase(found);
    }
    if (outcome)
      add({kind::landed, from, bytes(landing.address, landing.address + size_bytes), size_bytes, {}});
    else
      add({kind::landed, from, {}, size_bytes, outcome.failure()});
  }

  void on_lost(connection_id from, const error& reason) override {
    const watch guard(*this, from);
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [address, pending] : open_)
        if (pending.first == from) complaints_.push_back("lost with a landing pending");
      lost_[from] = reason;
    }
    add({kind::lost, from, {}, 0, reason});
  }

  // --- what the test does meanwhile ---

  /// Holds the transport's thread at its next message or rows.
  void shut_gate() {
    const std::lock_guard lock(mutex_);
    gate_open_ = false;
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    gate_open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait_until_at_gate() {
    return wait([this] { return at_gate_; });
  }

  [[nodiscard]] bool wait_for(kind what, std::size_t count) {
    return wait([&] { return count_of(what) >= count; });
  }
  [[nodiscard]] bool wait_for_message(const bytes& content) {
    return wait([&] {
      return std::any_of(log_.begin(), log_.end(), [&](const entry& each) {
        return each.what == kind::message && each.content == content;
      });
    });
  }
  [[nodiscard]] bool wait_lost(connection_id which) {
    return wait([&] { return lost_.contains(which); });
  }

  [[nodiscard]] std::vector<entry> all(std::optional<kind> what = {},
                                       std::optional<connection_id> from = {}) const {
    const std::lock_guard lock(mutex_);
    std::vector<entry> chosen;
    for (const auto& each : log_)
      if ((!what || each.what == *what) && (!from || each.from == *from)) chosen.push_back(each);
    return chosen;
  }
  [[nodiscard]] std::size_t count(kind what) const {
    const std::lock_guard lock(mutex_);
    return count_of(what);
  }
  [[nodiscard]] std::optional<error> lost(connection_id which) const {
    const std::lock_guard lock(mutex_);
    const auto found = lost_.find(which);
    return found == lost_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::vector<std::string> complaints() const {
    const std::lock_guard lock(mutex_);
    return complaints_;
  }
  [[nodiscard]] std::thread::id thread() const {
    const std::lock_guard lock(mutex_);
    return thread_;
  }

 private:
  /// Around each call of the transport.
  class watch {
   public:
    watch(recording_sink& owner, connection_id from) : owner_(owner) {
      if (owner_.inside_.exchange(true)) owner_.blame("two calls at once");
      const std::lock_guard lock(owner_.mutex_);
      if (owner_.thread_ == std::thread::id()) owner_.thread_ = std::this_thread::get_id();
      if (owner_.may_call_ == threads::one && owner_.thread_ != std::this_thread::get_id())
        owner_.complaints_.push_back("a call from another thread");
      if (owner_.lost_.contains(from)) owner_.complaints_.push_back("a call after on_lost");
    }
    ~watch() { owner_.inside_ = false; }
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;

   private:
    recording_sink& owner_;
  };

  template <class Predicate>
  bool wait(Predicate done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, done);
  }
  void wait_at_gate() {
    std::unique_lock lock(mutex_);
    if (gate_open_) return;
    at_gate_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return gate_open_; });
    at_gate_ = false;
  }
  void add(entry what) {
    const std::lock_guard lock(mutex_);
    log_.push_back(std::move(what));
    changed_.notify_all();
  }
  void blame(std::string what) {
    const std::lock_guard lock(mutex_);
    complaints_.push_back(std::move(what));
  }
  [[nodiscard]] std::size_t count_of(kind what) const {
    std::size_t count = 0;
    for (const auto& each : log_)
      count += each.what == what ? 1 : 0;
    return count;
  }

  const threads may_call_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<entry> log_;
  std::deque<bytes> landings_;
  std::map<std::byte*, std::pair<connection_id, std::size_t>> open_;
  std::map<connection_id, error> lost_;
  std::vector<std::string> complaints_;
  std::thread::id thread_;
  std::atomic<bool> inside_{false};
  bool gate_open_ = true;
  bool at_gate_ = false;
};

/// Counts the completions of sends: how often each has run, and with what.
class completions {
 public:
  transport::completion next() {
    const std::lock_guard lock(mutex_);
    const std::size_t index = outcomes_.size();
    outcomes_.emplace_back();
    return [this, index](result<void> outcome) {
      const std::lock_guard inner(mutex_);
      outcomes_[index].push_back(std::move(outcome));
      threads_.push_back(std::this_thread::get_id());
      changed_.notify_all();
    };
  }
  /// The last `next` was not taken by the transport.
  void forget_last() {
    const std::lock_guard lock(mutex_);
    outcomes_.pop_back();
  }
  [[nodiscard]] bool wait_all() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] {
      for (const auto& each : outcomes_)
        if (each.empty()) return false;
      return true;
    });
  }
  [[nodiscard]] std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& each : outcomes_)
      count += each.empty() ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool each_once() const {
    const std::lock_guard lock(mutex_);
    for (const auto& each : outcomes_)
      if (each.size() != 1) return false;
    return true;
  }
  [[nodiscard]] std::size_t failed(errc code) const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& each : outcomes_)
      for (const auto& outcome : each)
        count += !outcome && outcome.code() == code ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::size_t succeeded() const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& each : outcomes_)
      for (const auto& outcome : each)
        count += outcome ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool all_on(std::thread::id thread) const {
    const std::lock_guard lock(mutex_);
    for (const auto& each : threads_)
      if (each != thread) return false;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<result<void>>> outcomes_;
  std::vector<std::thread::id> threads_;
};

}  // namespace baton::transports::test
