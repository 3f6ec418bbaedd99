#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "actors/gateway_sessions.hpp"
#include "schemas/control.hpp"

namespace baton::actors {

/// The cluster as a gateway knows it: who owns which group, and which nodes have taken its hello. Pure; not
/// thread-safe.
class gateway_routes {
 public:
  /// False if the view is older than the one known; then it is ignored.
  bool on_view(cluster_view view);
  /// A seal names the owner before any view does.
  void on_sealed(const seal& order);
  /// The node has taken our hello: turns may be opened there, until it is lost or leaves the view.
  void on_node_known(const process_id& node) { known_.insert(node); }
  void on_node_lost(const process_id& node) { known_.erase(node); }
  /// Notes since when nodes that are alive cannot be reached, and returns those for which that is long.
  std::vector<process_id> unreachable(std::chrono::steady_clock::time_point now,
                                      std::chrono::milliseconds long_enough);

  [[nodiscard]] const cluster_view& view() const noexcept { return view_; }
  [[nodiscard]] bool known(const process_id& node) const { return known_.contains(node); }

  /// Of a group that somebody owns; otherwise nullptr.
  [[nodiscard]] const group_record* record_of(group_id group) const;
  [[nodiscard]] const process_id* owner_of(group_id group) const;
  [[nodiscard]] std::uint32_t context_of(group_id group) const;
  /// Of all nodes; no prompt can be longer.
  [[nodiscard]] std::uint32_t longest_context() const;
  [[nodiscard]] const node_view* view_of(const process_id& node) const;
  /// The group that a new session goes to: of the node with the least to do for its capacity, as far as this
  /// gateway knows; idle sessions, which make room, decide only where that is the same. nullptr if no node
  /// can take one.
  [[nodiscard]] const group_record* choose_group(const gateway_sessions& sessions) const;

 private:
  cluster_view view_;
  std::set<process_id> known_;
  std::map<process_id, std::chrono::steady_clock::time_point> missed_since_;
};

}  // namespace baton::actors
