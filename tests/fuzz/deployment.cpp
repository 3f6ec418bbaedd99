#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>
#include <string>
#include <variant>

#include "actors/graph.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

namespace {

using namespace actors;

const std::string file_name = "fuzz.toml";

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '"' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04X", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string size_text(std::size_t bytes) {
  const bool whole_gib = bytes % (1U << 30) == 0;
  return quoted(std::to_string(bytes >> (whole_gib ? 30 : 20)) + (whole_gib ? "GiB" : "MiB"));
}

std::string engine_text(const engine_settings& engine) {
  std::ostringstream out;
  if (const auto* llama = std::get_if<llama_settings>(&engine))
    out << "{ type = \"llama\", model = " << quoted(llama->model) << ", context = " << llama->context_tokens
        << ", sessions = " << llama->sessions << ", mode = " << quoted(llama->mode)
        << ", kv_type = " << quoted(llama->kv_type) << ", threads = " << llama->threads << " }";
  if (const auto* toy = std::get_if<toy_settings>(&engine))
    out << "{ type = \"toy\", seed = " << toy->seed << ", context = " << toy->context_tokens
        << ", sessions = " << toy->sessions << ", decode_us = " << toy->decode_us << " }";
  return out.str();
}

void write_actor(std::ostream& out, const std::string& id, const std::string& process, const char* type) {
  out << "[[actor]]\nid = " << quoted(id) << "\nprocess = " << quoted(process) << "\ntype = \"" << type
      << "\"\n";
}

/// The deployment as a file that says everything.
std::string text_of(const actors::deployment& graph) {
  std::ostringstream out;
  out << "[deployment]\nname = " << quoted(graph.name) << "\n[defaults]\ncommit = " << quoted(graph.commit)
      << "\nevery_tokens = " << graph.every_tokens << "\nheartbeat_ms = " << graph.heartbeat.count()
      << "\nsuspect_ms = " << graph.suspect_after.count() << "\nlease_ms = " << graph.lease.count() << "\n";
  write_actor(out, graph.orchestrator.id, graph.orchestrator.process, "orchestrator");
  out << "listen = " << quoted(graph.orchestrator.listen) << "\nstore = " << quoted(graph.orchestrator.store)
      << "\n";
  for (const auto& gateway : graph.gateways) {
    write_actor(out, gateway.id, gateway.process, "gateway");
    out << "listen = " << quoted(gateway.listen) << "\n";
  }
  for (const auto& node : graph.nodes) {
    write_actor(out, node.id, node.process, "node");
    out << "engine = " << engine_text(node.engine) << "\nlabels = {";
    const char* between = " ";
    for (const auto& [key, value] : node.labels) {
      out << between << quoted(key) << " = " << quoted(value);
      between = ", ";
    }
    out << " }\nreplica_memory = " << size_text(node.replica_memory_bytes)
        << "\ncontrol_listen = " << quoted(node.control_listen) << "\n";
    if (!node.data_listen.empty()) out << "data_listen = " << quoted(node.data_listen) << "\n";
    if (!node.network_devices.empty()) out << "network_devices = " << quoted(node.network_devices) << "\n";
  }
  for (const auto& link : graph.links)
    out << "[[link]]\nfrom = " << quoted(link.from) << "\nto = " << quoted(link.to)
        << "\ntransport = " << quoted(link.transport) << "\nevery_tokens = " << link.every_tokens << "\n";
  return out.str();
}

/// Whether every model is a path: one of a process elsewhere may be a variable that is not set here.
bool can_be_written(const actors::deployment& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    const auto* llama = std::get_if<llama_settings>(&node.engine);
    return llama != nullptr && (llama->model.empty() || llama->model.rfind("env:", 0) == 0);
  });
}

/// What every deployment keeps to that was taken.
void check_values(const actors::deployment& graph) {
  BATON_ASSERT(is_commit_rule(graph.commit));
  BATON_ASSERT(graph.heartbeat.count() >= 1);
  BATON_ASSERT(graph.suspect_after > graph.heartbeat && graph.lease > graph.heartbeat);
  BATON_ASSERT(is_address(graph.orchestrator.listen) && !graph.orchestrator.store.empty());
  BATON_ASSERT(!graph.nodes.empty());
  for (const auto& gateway : graph.gateways)
    BATON_ASSERT(is_address(gateway.listen));
  const auto is_node = [&](const std::string& id) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const auto& node) { return node.id == id; });
  };
  for (const auto& link : graph.links)
    BATON_ASSERT(is_node(link.from) && is_node(link.to) && link.from != link.to && link.every_tokens >= 1);
}

/// One line "FILE:LINE: ..." for each thing that is wrong, with a line that the file has.
void check_refusal(const error& refusal, std::string_view text) {
  BATON_ASSERT(refusal.code == errc::invalid_argument);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::istringstream in(refusal.what);
  std::size_t count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    BATON_ASSERT(line.rfind(file_name + ":", 0) == 0);
    const std::string rest = line.substr(file_name.size() + 1);
    const auto digits = rest.find_first_not_of("0123456789");
    BATON_ASSERT(digits != 0 && digits < 10 && rest.compare(digits, 2, ": ") == 0);
    const auto at = std::stoul(rest.substr(0, digits));
    BATON_ASSERT(at >= 1 && at <= lines);
    BATON_ASSERT(
        std::none_of(line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }));
  }
  BATON_ASSERT(count > 0);
}

}  // namespace

// A deployment file. What is taken keeps to the rules, and written down in full reads as the same; what is
// refused says where.
void deployment(input bytes) {
  const std::string_view text = baton::fuzz::text_of(bytes);
  // As of another process no model file need be there.
  for (const char* process : {"", "a"}) {
    const auto got = parse_deployment(text, file_name, process);
    if (!got.ok()) {
      check_refusal(got.failure(), text);
      continue;
    }
    check_values(*got);
    if (!can_be_written(*got)) continue;
    const auto again = parse_deployment(text_of(*got), file_name, process);
    BATON_ASSERT(again.ok() && *again == *got);
    BATON_ASSERT(!processes_of(*got).empty());
  }
}

}  // namespace baton::fuzz
