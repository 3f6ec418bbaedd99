#include "apps/commands/status.hpp"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/runtime.hpp"
#include "apps/commands/orchestrator_call.hpp"
#include "apps/exit_codes.hpp"
#include "apps/host/terminal.hpp"

namespace baton::apps {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "-";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// Of a group's owner, before or after a change of it.
std::string owner_of(const json& event, const char* key) {
  const std::string name = event.value(key, "");
  return name.empty() ? "nobody" : name;
}

std::string names_of(const json& object, const char* key, const char* between = ",") {
  std::string names;
  for (const auto& name : object.value(key, json::array()))
    names += (names.empty() ? "" : between) + name.get<std::string>();
  return names.empty() ? "-" : names;
}

void print(const json& status) {
  const host::terminal screen(false);
  std::printf("%s\n", screen.paint(host::style::bold, "NODE         STATE  SESSIONS   CONTROL").c_str());
  for (const auto& node : status.value("nodes", json::array()))
    std::printf("%-12s %s  %4s/%-4s  %s\n", text_of(node, "name").c_str(),
                node.value("alive", false) && node.value("draining", false) ? "drain"
                : node.value("alive", false) ? screen.paint(host::style::good, "alive").c_str()
                                             : screen.paint(host::style::bad, "dead ").c_str(),
                text_of(node, "sessions").c_str(), text_of(node, "capacity").c_str(),
                text_of(node, "control").c_str());
  std::printf("\n%s\n", screen.paint(host::style::bold, "GROUP        EPOCH  OWNER        IN SYNC").c_str());
  for (const auto& group : status.value("groups", json::array()))
    std::printf("%-12s %5s  %-12s %s\n", text_of(group, "group").c_str(), text_of(group, "epoch").c_str(),
                text_of(group, "owner").c_str(), names_of(group, "in_sync").c_str());
  std::printf(
      "\n%s\n",
      screen.paint(host::style::bold, "LINK         STATE  CARRIER      LAG    DELTAS     BYTES").c_str());
  for (const auto& link : status.value("links", json::array()))
    std::printf("%-12s %s  %-12s %-6s %-10s %s\n",
                (text_of(link, "from") + " -> " + text_of(link, "to")).c_str(),
                link.value("up", false) ? screen.paint(host::style::good, "up   ").c_str()
                                        : screen.paint(host::style::bad, "down ").c_str(),
                text_of(link, "carrier").c_str(), text_of(link, "lag_tokens").c_str(),
                text_of(link, "deltas").c_str(), text_of(link, "delta_bytes").c_str());
  if (const std::string refused = names_of(status, "refused", ", "); refused != "-")
    std::printf(
        "\n%s %s: the orchestrator's store is not the one that they have obeyed, or an old copy of it\n",
        screen.paint(host::style::bad, "REFUSED     ").c_str(), refused.c_str());
  const auto failovers = status.value("failovers", json::array());
  if (!failovers.empty())
    std::printf("\n%s\n", screen.paint(host::style::bold, "FAILOVER     EPOCH  GROUP        CAUSE").c_str());
  for (const auto& event : failovers)
    std::printf("%-12s %5s  %-12s %s\n", (owner_of(event, "from") + " -> " + owner_of(event, "to")).c_str(),
                text_of(event, "epoch").c_str(), text_of(event, "group").c_str(),
                text_of(event, "cause").c_str());
}

int show(const status_options& how) {
  if (!is_orchestrator(how.orchestrator)) return exit_code::usage;
  const auto answer = within<std::string>(
      how.timeout, how.orchestrator, [how] { return actors::fetch_status(how.orchestrator, how.timeout); });
  const auto status = answer.ok() ? json::parse(*answer, nullptr, false) : json();
  if (!status.is_object()) {
    std::fprintf(stderr, "baton: %s\n",
                 answer.ok() ? ("orchestrator " + how.orchestrator + ": an answer that is no status").c_str()
                             : answer.failure().what.c_str());
    return exit_code::cannot_start;
  }
  if (how.json)
    std::printf("%s\n", status.dump(2).c_str());
  else
    print(status);
  return exit_code::success;
}

}  // namespace

int status_command(const status_options& how) {
  const int code = show(how);
  std::fflush(nullptr);
  ::_exit(code);  // not waiting for a thread that was left behind
}

}  // namespace baton::apps
