#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "actors/stores/record_store.hpp"
#include "apps/sim/scheduler.hpp"

namespace baton::apps::sim {

/// The durable records: they survive every process. May fail, write and say that it failed (the answer of a
/// commit was lost), or take so long that who asked has given it up when it is written.
class shared_store {
 public:
  explicit shared_store(dice& random) : random_(random) {}

  double failing = 0;  ///< chance that a call fails and does nothing
  double lying = 0;    ///< chance that a swap is written and reported as failed
  double lagging = 0;  ///< chance that a swap takes up to `longest_lag`
  std::function<void(const group_record&, std::string_view what)> seen;  ///< each swap, and how it ended
  std::uint64_t failures = 0;
  std::uint64_t lies = 0;
  std::uint64_t lags = 0;

  [[nodiscard]] const std::map<group_id, group_record>& records() const noexcept { return records_; }
  /// Who owned a group under an epoch; nobody ever changes that.
  [[nodiscard]] const process_id* owner_under(group_id group, epoch under) const;
  /// What went wrong in the use of the store; empty if nothing.
  [[nodiscard]] const std::string& misuse() const noexcept { return misuse_; }

 private:
  friend class store_session;
  void tell(const group_record& record, std::string_view what) const {
    if (seen) seen(record, what);
  }

  dice& random_;
  std::uint64_t revision_ = 0;
  std::uint64_t term_ = 0;
  std::map<group_id, group_record> records_;
  std::map<std::pair<group_id, epoch>, process_id> owners_;
  std::string misuse_;
};

/// The store as one orchestrator sees it.
constexpr nanoseconds longest_lag = 3s;
class store_session final : public actors::stores::record_store {
 public:
  explicit store_session(shared_store& store) : store_(store) {}
  result<actors::stores::office> begin_term() override {
    return actors::stores::office{term_ = ++store_.term_, 1};
  }
  result<std::vector<group_record>> load() override;
  result<group_record> swap(group_record desired, std::uint64_t expected, bool new_epoch) override;
  /// How long the next swap is on its way, there and back.
  std::pair<nanoseconds, nanoseconds> next_ways();

 private:
  shared_store& store_;
  std::uint64_t term_ = 0;
};

}  // namespace baton::apps::sim
