#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace baton::actors::protocol {

/// How many standbys each group has: `replicas`, or if that is 0 all that its owner has links to.
inline std::size_t standbys_of_each(std::size_t replicas, std::size_t links) {
  return replicas == 0 ? links : std::min(replicas, links);
}

/// The sessions that a node's engine has room for, shared by the two sides of the node: conversations that it
/// serves, and replicas. Whoever begins to hold a session takes a place first; a session that changes sides
/// keeps its place; a place is given back once the engine has been told to drop the session, so that whoever
/// takes it next is behind that order. An engine is thus never asked to open more than it has.
///
/// Each side has a share for what it begins by itself. Only a change of sides may exceed it: a node that
/// takes over serves more, and evicts idle conversations when replicas want for room. Thread-safe.
class engine_places {
 public:
  /// `standbys`: of each conversation that the node serves.
  engine_places(std::size_t total, std::size_t standbys)
      : total_(total), holders_(1 + std::max<std::size_t>(1, standbys)), unused_(total) {}

  /// For the conversations that the node serves: where all nodes have the same share, each has room for the
  /// replicas of the others' conversations.
  [[nodiscard]] std::size_t own_share() const { return std::max<std::size_t>(1, total_ / holders_); }
  [[nodiscard]] std::size_t replica_share() const {
    return std::max<std::size_t>(1, total_ - std::min(total_, own_share()));
  }

  /// False if none is unused.
  [[nodiscard]] bool take() {
    std::size_t seen = unused_.load();
    while (seen > 0)
      if (unused_.compare_exchange_weak(seen, seen - 1)) return true;
    return false;
  }

  void give_back() { ++unused_; }

  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t unused() const noexcept { return unused_.load(); }

 private:
  std::size_t total_;
  std::size_t holders_;
  std::atomic<std::size_t> unused_;
};

}  // namespace baton::actors::protocol
