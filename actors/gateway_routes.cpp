#include "actors/gateway_routes.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "schemas/limits.hpp"

namespace baton::actors {

bool gateway_routes::on_view(cluster_view view) {
  if (view.term < view_.term || (view.term == view_.term && view.version < view_.version)) return false;
  // An orchestrator that has just begun has heard of nobody: that says nothing of the nodes that were there.
  // Those that it has lost it lists as such.
  if (view.nodes.empty()) view.nodes = std::move(view_.nodes);
  view_ = std::move(view);
  std::erase_if(known_, [&](const process_id& node) { return view_of(node) == nullptr; });
  return true;
}

std::vector<process_id> gateway_routes::unreachable(std::chrono::steady_clock::time_point now,
                                                    std::chrono::milliseconds long_enough) {
  std::erase_if(missed_since_, [&](const auto& it) {
    const node_view* node = view_of(it.first);
    return node == nullptr || !node->alive || known(it.first);
  });
  std::vector<process_id> out;
  for (const node_view& node : view_.nodes)
    if (node.alive && !known(node.node) &&
        now - missed_since_.try_emplace(node.node, now).first->second > long_enough)
      out.push_back(node.node);
  return out;
}

void gateway_routes::on_sealed(const seal& order) {
  for (group_record& record : view_.groups)
    if (record.group == order.group && record.epoch < order.epoch) {
      record.epoch = order.epoch;
      record.owner = order.owner;
    }
}

const group_record* gateway_routes::record_of(group_id group) const {
  const auto found = std::find_if(view_.groups.begin(), view_.groups.end(),
                                  [&](const group_record& it) { return it.group == group; });
  return found == view_.groups.end() || found->owner.name.empty() ? nullptr : &*found;
}

const process_id* gateway_routes::owner_of(group_id group) const {
  const group_record* record = record_of(group);
  return record == nullptr ? nullptr : &record->owner;
}

std::uint32_t gateway_routes::context_of(group_id group) const {
  const process_id* owner = owner_of(group);
  const node_view* node = owner == nullptr ? nullptr : view_of(*owner);
  if (node != nullptr) return node->context_tokens;
  return view_.nodes.empty() ? limits::session_tokens : view_.nodes.front().context_tokens;
}

std::uint32_t gateway_routes::longest_context() const {
  std::uint32_t longest = 0;
  for (const node_view& node : view_.nodes)
    longest = std::max(longest, node.context_tokens);
  return view_.nodes.empty() ? limits::session_tokens : longest;
}

const node_view* gateway_routes::view_of(const process_id& node) const {
  const auto found = std::find_if(view_.nodes.begin(), view_.nodes.end(),
                                  [&](const node_view& it) { return it.node == node; });
  return found == view_.nodes.end() ? nullptr : &*found;
}

const group_record* gateway_routes::choose_group(const gateway_sessions& sessions) const {
  std::map<process_id, gateway_sessions::count> of_node;
  for (const group_record& record : view_.groups) {
    const gateway_sessions::count here = sessions.in_group(record.group);
    of_node[record.owner].busy += here.busy;
    of_node[record.owner].all += here.all;
  }
  const group_record* best = nullptr;
  std::tuple<bool, bool, double, double, std::size_t> best_load;
  for (const group_record& record : view_.groups) {
    const node_view* node = view_of(record.owner);
    if (node == nullptr || !node->alive) continue;
    const gateway_sessions::count& its = of_node[record.owner];
    const double capacity = std::max<std::uint32_t>(1, node->capacity_sessions);
    const std::tuple load{!known(record.owner), node->draining, static_cast<double>(its.busy) / capacity,
                          static_cast<double>(its.all) / capacity, sessions.in_group(record.group).all};
    if (best == nullptr || load < best_load) {
      best = &record;
      best_load = load;
    }
  }
  return best;
}

}  // namespace baton::actors
