#include "apps/demo/cluster.hpp"

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

namespace baton::apps::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto start_timeout = 60s;  // a model of a few gigabytes is read from a disk in this time
constexpr auto health_timeout = 20s;
constexpr auto in_step_timeout = 60s;  // a few hundred megabytes of KV on a busy machine
constexpr auto request_timeout = 2s;
constexpr auto poll_pause = 20ms;
constexpr auto end_grace = 2500ms;
constexpr std::size_t tail_lines = 8;

std::string in_quotes(const std::string& text) {
  return "\"" + text + "\"";
}

/// A TOML string; what needs escaping is escaped.
std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// How many entries of a list in the status have a flag set.
std::size_t count_true(const nlohmann::json& status, const char* list, const char* flag) {
  if (!status.is_object() || !status.contains("cluster") || !status["cluster"].is_object()) return 0;
  const auto entries = status["cluster"].value(list, nlohmann::json::array());
  return static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), [flag](const auto& entry) {
    return entry.is_object() && entry.value(flag, false);
  }));
}

}  // namespace

result<std::unique_ptr<cluster>> cluster::start(const cluster_options& how, host::interrupt& signals,
                                                host::terminal& screen) {
  std::unique_ptr<cluster> made(new cluster(how, signals, screen));
  auto folder = host::temporary_folder::make("baton-demo");
  if (!folder) return folder.failure();
  made->folder_.emplace(std::move(*folder));
  if (how.network) {
    auto net = host::virtual_network::make(nodes());
    if (!net) return net.failure();
    made->network_.emplace(std::move(*net));
  }
  for (const auto step : {&cluster::write_deployment, &cluster::start_processes, &cluster::await_all_ready,
                          &cluster::await_health})
    if (auto done = (made.get()->*step)(); !done) return made->explain(done.failure());
  screen.progress_done();
  return made;
}

cluster::~cluster() {
  std::vector<host::child_process*> all;
  for (auto& [name, child] : children_)
    all.push_back(&child);
  host::child_process::end_all(all, end_grace);
}

std::string cluster::node_text(const std::string& name) const {
  std::string text = "[[actor]]\nid = " + in_quotes(name) + "\ntype = \"node\"\n";
  text += how_.engine == "toy" ? "engine = { type = \"toy\", decode_us = " + std::to_string(how_.decode_us)
                               : "engine = { type = \"llama\", model = " + toml_text(how_.model);
  text += ", context = " + std::to_string(how_.context_tokens) +
          ", sessions = " + std::to_string(how_.sessions) + " }\n";
  if (network_) {
    const std::string any_port = in_quotes(network_->address_of(name) + ":0");
    text += "control_listen = " + any_port + "\ndata_listen = " + any_port +
            "\nnetwork_devices = " + in_quotes(host::virtual_network::device()) + "\n";
  }
  return text + "\n";
}

result<void> cluster::write_deployment() {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7000;  // nobody else lives in a network of our own
  if (network_) {
    host = host::virtual_network::hub_address();
  } else {
    const auto found = host::free_port();
    if (!found) return found.failure();
    port = *found;
  }
  std::string text = "[deployment]\nname = \"demo\"\n\n[defaults]\ncommit = " + in_quotes(how_.commit) +
                     "\nevery_tokens = " + std::to_string(how_.every_tokens) + "\n\n";
  text += "[[actor]]\nid = \"control\"\ntype = \"orchestrator\"\nlisten = " +
          in_quotes(host + ":" + std::to_string(port)) + "\nstore = \"sqlite:state.db\"\n\n";
  text += "[[actor]]\nid = \"edge\"\ntype = \"gateway\"\nlisten = " + in_quotes(host + ":0") + "\n\n";
  for (const auto& name : nodes())
    text += node_text(name);
  for (const auto& from : nodes()) {
    if (!how_.linked) break;
    std::string others;
    for (const auto& to : nodes())
      if (to != from) others += (others.empty() ? "" : ", ") + in_quotes(to);
    text += "[[link]]\nfrom = " + in_quotes(from) + "\nto = [" + others +
            "]\ntransport = " + in_quotes(how_.transport) + "\n\n";
  }
  const std::string path = folder_->path() + "/deployment.toml";
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return {errc::io_failed, "cannot write " + path};
  return {};
}

result<void> cluster::start_process(const std::string& name) {
  host::child_options how;
  how.command = {host::own_path(), "run", folder_->path() + "/deployment.toml", "--process", name, "--json"};
  how.log_path = log_path(name);
  if (network_)
    how.network_namespace = name == "control" || name == "edge" ? network_->hub() : network_->of(name);
  auto child = host::child_process::start(how);
  if (!child) return {child.code(), "starting " + name + ": " + child.failure().what};
  children_.emplace(name, std::move(*child));
  return {};
}

result<void> cluster::start_processes() {
  for (const auto& name : processes())
    if (auto started = start_process(name); !started) return started;
  return {};
}

result<void> cluster::read_ready(std::map<std::string, bool>& ready) {
  for (auto& [name, child] : children_) {
    for (const auto& line : child.read_lines()) {
      const auto said = nlohmann::json::parse(line, nullptr, false);
      if (!said.is_object() || said.value("event", "") != "ready") continue;
      ready[name] = true;
      if (said.contains("http")) gateway_address_ = said.value("http", "");
    }
    if (child.ended()) return {errc::unavailable, "process " + name + " has ended"};
  }
  return {};
}

result<void> cluster::await_ready(std::size_t wanted, const std::string& what) {
  const auto deadline = host::clock::now() + start_timeout;
  std::map<std::string, bool> ready;
  for (unsigned step = 0;; ++step) {
    screen_.progress(what + ": " + std::to_string(ready.size()) + " of " + std::to_string(wanted) + " ready",
                     step);
    if (auto read = read_ready(ready); !read) return read;
    if (ready.size() >= wanted) return {};
    if (host::clock::now() > deadline) {
      const auto late = std::find_if(children_.begin(), children_.end(),
                                     [&](const auto& entry) { return !ready.contains(entry.first); });
      suspect_ = late->first;
      return {errc::timed_out,
              suspect_ + " was not ready within " + std::to_string(start_timeout.count()) + " s"};
    }
    if (auto passed = signals_.pause(poll_pause); !passed) return passed;
  }
}

result<void> cluster::await_all_ready() {
  auto ready = await_ready(children_.size(), "starting the orchestrator, the gateway and three nodes");
  if (ready) gateway_.emplace(gateway_address_, network_ ? network_->hub() : -1, signals_);
  return ready;
}

std::string cluster::what_is_missing(bool in_step) const {
  const auto health = gateway_->get("/health", request_timeout);
  const auto text = status();
  const auto known = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  const std::size_t others = how_.linked ? nodes().size() - 1 : 0;
  const auto alive = count_true(known, "nodes", "alive");
  const auto up = count_true(known, "links", "up");
  if (!health || health->status != 200) return "the gateway cannot take a turn";
  if (alive != nodes().size() || up != nodes().size() * others)
    return std::to_string(alive) + " nodes and " + std::to_string(up) + " links are up";
  if (!in_step) return {};
  for (const auto& group : known["cluster"].value("groups", nlohmann::json::array()))
    if (group.value("in_sync", nlohmann::json::array()).size() != others || group.value("lag_tokens", 0) != 0)
      return "group " + group["group"].dump() + " is not in step";
  return {};
}

result<void> cluster::await_nothing_missing(bool in_step, std::chrono::seconds timeout,
                                            const std::string& what) {
  const auto deadline = host::clock::now() + timeout;
  std::string missing;
  for (unsigned step = 1; host::clock::now() < deadline; ++step) {
    screen_.progress(what, step);
    missing = what_is_missing(in_step);
    if (missing.empty()) return {};
    std::map<std::string, bool> ignored;
    if (auto read = read_ready(ignored); !read) return read;
    if (auto passed = signals_.pause(poll_pause); !passed) return passed;
  }
  return {errc::timed_out, what + ": after " + std::to_string(timeout.count()) + " s " + missing};
}

/// Ready to take a turn, with every node and link up, so that a turn has its standbys from the start.
result<void> cluster::await_health() {
  return await_nothing_missing(false, health_timeout, "waiting until all nodes and links are up");
}

result<void> cluster::await_in_step() {
  return await_nothing_missing(true, in_step_timeout, "waiting until the standbys are in step");
}

result<void> cluster::restart(const std::string& node) {
  if (children_.erase(node) == 0) return {errc::invalid_argument, "there is no node \"" + node + "\""};
  if (auto started = start_process(node); !started) return started;
  return await_ready(1, "starting node " + node + " again");
}

result<std::string> cluster::status() const {
  const auto answer = gateway_->get("/baton/status", request_timeout);
  if (!answer) return answer.failure();
  if (answer->status != 200)
    return {errc::unavailable, "/baton/status answers " + std::to_string(answer->status)};
  return answer->body;
}

result<void> cluster::signal(const std::string& node, int number) {
  const auto found = children_.find(node);
  if (found == children_.end()) return {errc::invalid_argument, "there is no node \"" + node + "\""};
  found->second.signal(number);
  return {};
}

result<void> cluster::set_link(const std::string& node, bool up) {
  if (!network_ || !children_.contains(node))
    return {errc::invalid_argument, "there is no link to a node \"" + node + "\""};
  return network_->set_link(node, up);
}

std::string cluster::log_tail(const std::string& process) const {
  std::ifstream file(log_path(process));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > tail_lines) lines.pop_front();
  }
  std::string text;
  for (const auto& line : lines)
    text += "\n    " + line;
  return text.empty() ? " (its log is empty)" : "; its log ends:" + text;
}

error cluster::explain(const error& why) {
  error whole = why;
  if (why.code == errc::cancelled) return whole;
  for (auto& [name, child] : children_) {
    const auto status = child.ended();
    if (!status && name != suspect_) continue;
    const std::string fate = status ? host::describe_ending(*status) : "still running";
    whole.what += "\n  " + name + ": " + fate + log_tail(name);
  }
  return whole;
}

}  // namespace baton::apps::demo
