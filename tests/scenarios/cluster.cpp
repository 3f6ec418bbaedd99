#include "tests/scenarios/cluster.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::tests {

bool cluster::ready(const std::string& status) const {
  const auto json = nlohmann::json::parse(status, nullptr, false);
  if (!json.is_object() || !service_ready() || !json.contains("cluster") || !json["cluster"].contains("groups"))
    return false;
  const auto& groups = json["cluster"]["groups"];
  const std::size_t standbys = how_.links ? how_.nodes.size() - 1 : 0;
  std::size_t owned = 0;
  for (const auto& group : groups) {
    if (group["owner"] == "" || group["in_sync"].size() < standbys)
      return false;
    ++owned;
  }
  return owned >= how_.nodes.size();
}

bool cluster::service_ready() const { return edge_->gateway("edge")->ready(); }

void cluster::await(const std::function<bool(const std::string&)>& condition, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (!condition(status())) {
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("cluster: waited in vain; status: " + status());
    std::this_thread::sleep_for(10ms);  // the status is a snapshot; there is no event to wait for
  }
}

}  // namespace baton::tests
