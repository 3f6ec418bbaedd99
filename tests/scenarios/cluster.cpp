#include "tests/scenarios/cluster.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::tests {

bool cluster::ready(const std::string& status) const {
  const auto json = nlohmann::json::parse(status, nullptr, false);
  if (!json.is_object() || !service_ready() || !json.contains("cluster") ||
      !json["cluster"].contains("groups"))
    return false;
  const auto& groups = json["cluster"]["groups"];
  const std::size_t standbys = how_.links ? how_.nodes.size() - 1 : 0;
  std::size_t owned = 0;
  for (const auto& group : groups) {
    if (group["owner"] == "" || group["in_sync"].size() < standbys) return false;
    ++owned;
  }
  return owned >= how_.nodes.size();
}

bool cluster::service_ready() const {
  return service_->ready();
}

void cluster::await(const std::function<bool(const std::string&)>& condition,
                    std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (!condition(status())) {
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("cluster: waited in vain; status: " + status());
    std::this_thread::sleep_for(10ms);  // the status is a snapshot; there is no event to wait for
  }
}

void cluster::await_in_sync(std::uint64_t rows) {
  await_sets(rows);
}
void cluster::await_in_sync_members() {
  await_sets(std::nullopt);
}

void cluster::await_sets(std::optional<std::uint64_t> rows) {
  await([&](const std::string& status) {
    const auto json = nlohmann::json::parse(status, nullptr, false);
    if (!json.is_object() || !json.contains("cluster") || !json["cluster"].contains("groups")) return false;
    std::uint64_t held = 0;
    for (const auto& group : json["cluster"]["groups"]) {
      if (group["owner"] == "" || group["in_sync"].size() + 1 < nodes_.size() ||
          (rows && group.value("lag_tokens", 1) != 0))
        return false;
      held += group.value("synced_tokens", std::uint64_t{0});
    }
    return held >= rows.value_or(0);
  });
}

std::uint64_t cluster::figure(const std::string& section, const std::string& name) {
  const auto json = nlohmann::json::parse(status(), nullptr, false);
  std::uint64_t sum = 0;
  for (const auto& node : json["cluster"]["nodes"])
    if (node.contains("figures") && node["figures"].contains(section))
      sum += node["figures"][section].value(name, std::uint64_t{0});
  return sum;
}

std::uint64_t cluster::lag_tokens() {
  const auto json = nlohmann::json::parse(status(), nullptr, false);
  std::uint64_t most = 0;
  for (const auto& group : json["cluster"]["groups"])
    most = std::max(most, group.value("lag_tokens", std::uint64_t{0}));
  return most;
}

}  // namespace baton::tests
