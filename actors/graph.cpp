#include "actors/graph.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "actors/graph_table.hpp"
#include "actors/graph_values.hpp"

namespace baton::actors {
namespace {

using namespace graph_text;
using std::chrono::milliseconds;

constexpr std::int64_t most_threads = 256;
constexpr std::int64_t most_milliseconds = 3'600'000;  // an hour: anything longer is a slip of units
constexpr std::int64_t most_microseconds = 10'000'000;
constexpr std::int64_t most_archive_tokens = 1024;  // an object is read into memory whole

// --- the file ------------------------------------------------------------------------------------------

/// Builds a deployment from a parsed file and remembers where everything stood for the checks of the whole.
class graph_reader {
 public:
  graph_reader(const std::string& file_name, std::string_view process)
      : folder_(std::filesystem::path(file_name).parent_path()), process_(process), out_(file_name) {}

  result<deployment> read(const toml::table& file) {
    table_reader top(file, "", out_);
    read_deployment(top);
    read_defaults(top);
    read_actors(top);
    read_links(top);
    top.refuse_others();
    check_links();
    check_quorum();
    check_addresses();
    check_parts(file);
    if (out_.any()) return out_.take();
    return std::move(graph_);
  }

 private:
  struct place {
    std::string key;
    std::size_t line = 0;
  };
  struct placed_link {
    link_entry link;
    place at;
    std::size_t transport_line = 0;
    std::size_t every_line = 0;
  };

  void read_deployment(table_reader& top);
  void read_defaults(table_reader& top);
  void read_every_tokens(table_reader& from, std::uint32_t& into);
  void read_duration(table_reader& from, std::string_view key, milliseconds& into);
  void read_actors(table_reader& top);
  void read_actor(const toml::table& table, std::size_t number);
  void read_orchestrator(table_reader& actor, const std::string& id, const std::string& process);
  void read_gateway(table_reader& actor, const std::string& id, const std::string& process);
  void read_node(table_reader& actor, const std::string& id, const std::string& process);
  void read_engine(table_reader& actor, node_entry& node);
  void read_llama(table_reader& engine, node_entry& node);
  void read_toy(table_reader& engine, node_entry& node);
  void read_labels(table_reader& actor, node_entry& node);
  void read_address(table_reader& from, std::string_view key, bool required, bool any_port,
                    std::string& into);
  void read_data_address(table_reader& actor, node_entry& node);
  void read_links(table_reader& top);
  void read_link(const toml::table& table, std::size_t number);
  std::vector<std::string> read_targets(table_reader& link);
  void read_archive(table_reader& link, archive_entry entry, const place& at);
  /// Whether a process is started here; another may be on another machine.
  [[nodiscard]] bool is_here(const std::string& process) const {
    return process_.empty() || process == process_;
  }
  /// What is wrong with a model file of `process`, or "".
  [[nodiscard]] std::string check_model(const std::string& process, const std::string& path) const;
  void check_links();
  void check_quorum();
  void check_link(const placed_link& link);
  void check_data_address(const std::string& node, const std::string& transport);
  void check_addresses();
  void check_parts(const toml::table& file);
  [[nodiscard]] std::string resolved(const std::string& path) const {
    return std::filesystem::path(path).is_absolute() ? path : (folder_ / path).lexically_normal().string();
  }

  std::filesystem::path folder_;
  std::string process_;
  problems out_;
  deployment graph_;
  bool has_orchestrator_ = false;
  bool all_typed_ = true;                                        // every actor and engine is of a known type
  std::map<std::string, std::pair<std::string, place>> actors_;  // id → type and where
  std::vector<std::pair<std::string, place>> addresses_;         // with a port other than 0
  std::map<std::string, std::pair<std::string, place>> data_addresses_;  // of nodes that name one
  std::size_t replicas_line_ = 0;
  std::size_t commit_line_ = 0;
  std::vector<placed_link> links_;
};

void graph_reader::read_deployment(table_reader& top) {
  const auto* node = top.find("deployment");
  if (node == nullptr) return;
  const auto* table = node->as_table();
  if (table == nullptr) return top.refuse("deployment", "expected a table, found " + describe(*node));
  table_reader from(*table, "deployment", out_);
  from.text("name", "", "a name", [&](const std::string& value) -> std::string {
    if (!is_name(value)) return "a name of at most 64 letters, digits, '-', '_' and '.'";
    graph_.name = value;
    return {};
  });
  from.refuse_others();
}

void graph_reader::read_duration(table_reader& from, std::string_view key, milliseconds& into) {
  std::uint64_t value = static_cast<std::uint64_t>(into.count());
  from.integer(key, 1, most_milliseconds, value);
  into = milliseconds(value);
}

void graph_reader::read_every_tokens(table_reader& from, std::uint32_t& into) {
  const std::string key = "every_tokens";
  const auto* node = from.find(key);
  if (node == nullptr) return;
  if (const auto* text = node->as_string(); text != nullptr && text->get() == "auto") {
    into = 1;  // the smallest lag; a link that cannot keep up falls behind by itself
    return;
  }
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < 1 || value->get() > std::int64_t{limits::session_tokens})
    return from.refuse(key, "expected \"auto\" or a whole number from 1 to " +
                                std::to_string(limits::session_tokens) + ", found " + describe(*node));
  into = static_cast<std::uint32_t>(value->get());
}

void graph_reader::read_defaults(table_reader& top) {
  const auto* node = top.find("defaults");
  if (node == nullptr) return;
  const auto* table = node->as_table();
  if (table == nullptr) return top.refuse("defaults", "expected a table, found " + describe(*node));
  table_reader from(*table, "defaults", out_);
  const char* const modes = R"("async", "semi-sync", "quorum:K" with K from 1 to 9, or "strict")";
  from.text("commit", "", modes, [&](const std::string& value) -> std::string {
    if (!is_commit_rule(value)) return modes;
    graph_.commit = value;
    return {};
  });
  read_every_tokens(from, graph_.every_tokens);
  from.integer("replicas", 1, 9, graph_.replicas);
  replicas_line_ = from.line_of("replicas");
  commit_line_ = from.line_of("commit");
  read_duration(from, "heartbeat_ms", graph_.heartbeat);
  read_duration(from, "suspect_ms", graph_.suspect_after);
  read_duration(from, "lease_ms", graph_.lease);
  const auto beat = std::to_string(graph_.heartbeat.count());
  if (graph_.suspect_after <= graph_.heartbeat)
    from.refuse("suspect_ms", "expected more than heartbeat_ms, which is " + beat + ", found " +
                                  std::to_string(graph_.suspect_after.count()));
  // Shorter, and an owner falls silent before anybody thinks of taking its place.
  if (graph_.lease < graph_.suspect_after)
    from.refuse("lease_ms", "expected at least suspect_ms, which is " +
                                std::to_string(graph_.suspect_after.count()) + ", found " +
                                std::to_string(graph_.lease.count()));
  from.refuse_others();
}

void graph_reader::read_address(table_reader& from, std::string_view key, bool required, bool any_port,
                                std::string& into) {
  const char* const kind = any_port ? "\"host:port\"" : "\"host:port\" with a port from 1 to 65535";
  from.text(key, required ? kind : "", kind, [&](const std::string& value) -> std::string {
    if (!is_address(value) || (!any_port && port_of(value) == 0U)) return kind;
    into = value;
    if (port_of(value) != 0U) addresses_.emplace_back(value, place{from.path_of(key), from.line_of(key)});
    return {};
  });
}

void graph_reader::read_actors(table_reader& top) {
  for_each_table(top, "actor",
                 [&](const toml::table& table, std::size_t number) { read_actor(table, number); });
}

void graph_reader::read_actor(const toml::table& table, std::size_t number) {
  const std::string by_number = "actor[" + std::to_string(number) + "]";
  const char* const name_rule = "a name of at most 64 letters, digits, '-', '_' and '.'";
  std::string id;
  table_reader(table, by_number, out_)
      .text("id", name_rule, name_rule, [&](const std::string& value) -> std::string {
        if (!is_name(value)) return name_rule;
        id = value;
        return {};
      });
  table_reader actor(table, id.empty() ? by_number : "actor." + id, out_);
  actor.find("id");
  const place at{actor.path_of("id"), actor.line_of("id")};
  std::string process = id;
  actor.text("process", "", name_rule, [&](const std::string& value) -> std::string {
    if (!is_name(value)) return name_rule;
    process = value;
    return {};
  });
  std::string type;
  const char* const types = R"("orchestrator", "gateway" or "node")";
  actor.text("type", types, types, [&](const std::string& value) -> std::string {
    if (value != "orchestrator" && value != "gateway" && value != "node") return types;
    type = value;
    return {};
  });
  if (!id.empty()) {
    const auto [earlier, added] = actors_.try_emplace(id, type, at);
    if (!added)
      out_.add(at.line, at.key,
               "expected an id of its own; line " + std::to_string(earlier->second.second.line) + " has " +
                   in_quotes(id) + " as well");
  }
  all_typed_ = all_typed_ && !type.empty();
  if (type.empty()) return;  // without it, any key may be right
  if (type == "orchestrator") read_orchestrator(actor, id, process);
  if (type == "gateway") read_gateway(actor, id, process);
  if (type == "node") read_node(actor, id, process);
  actor.refuse_others();
}

void graph_reader::read_orchestrator(table_reader& actor, const std::string& id, const std::string& process) {
  orchestrator_entry entry{id, process, {}, {}};
  read_address(actor, "listen", true, false, entry.listen);
  const char* const kinds =
      "\"sqlite:PATH\", or \"etcd:http://HOST:PORT\" with all members, separated by commas";
  actor.text("store", kinds, kinds, [&](const std::string& value) -> std::string {
    entry.store = value;
    if (is_etcd_store(value) || value == "sqlite::memory:") return {};
    if (!value.starts_with("sqlite:") || value.size() == 7) return kinds;
    entry.store = "sqlite:" + resolved(value.substr(7));
    return {};
  });
  if (has_orchestrator_)
    actor.refuse("type",
                 "expected one orchestrator; " + in_quotes(graph_.orchestrator.id) + " is one already");
  else
    graph_.orchestrator = std::move(entry);
  has_orchestrator_ = true;
}

void graph_reader::read_gateway(table_reader& actor, const std::string& id, const std::string& process) {
  gateway_entry entry;
  entry.id = id;
  entry.process = process;
  read_address(actor, "listen", true, true, entry.listen);
  actor.integer("poison_after", 0, 100, entry.poison_after);
  const char* const kind = "\"file:PATH\"";
  actor.text("archive", "", kind, [&](const std::string& value) -> std::string {
    if (!is_object_store(value)) return kind;
    entry.archive = "file:" + resolved(value.substr(value.find(':') + 1));
    return {};
  });
  graph_.gateways.push_back(std::move(entry));
}

void graph_reader::read_node(table_reader& actor, const std::string& id, const std::string& process) {
  node_entry entry;
  entry.id = id;
  entry.process = process;
  read_engine(actor, entry);
  read_labels(actor, entry);
  const char* const sizes = "a size such as \"256MiB\" or \"2GiB\"";
  actor.text("replica_memory", "", sizes, [&](const std::string& value) -> std::string {
    const auto bytes = bytes_of(value);
    if (!bytes) return sizes;
    entry.replica_memory_bytes = *bytes;
    return {};
  });
  read_address(actor, "control_listen", false, true, entry.control_listen);
  read_data_address(actor, entry);
  actor.text("network_devices", "", "names of network interfaces",
             [&](const std::string& value) -> std::string {
               entry.network_devices = value;
               return {};
             });
  graph_.nodes.push_back(std::move(entry));
}

void graph_reader::read_data_address(table_reader& actor, node_entry& node) {
  const char* const kinds = "\"host:port\", or \"shm:NAME\" for links of \"ucx-shm\"";
  actor.text("data_listen", "", kinds, [&](const std::string& value) -> std::string {
    if (!is_address(value) && !is_memory_address(value)) return kinds;
    node.data_listen = value;
    const place at{actor.path_of("data_listen"), actor.line_of("data_listen")};
    data_addresses_[node.id] = {value, at};
    if (!is_memory_address(value) && port_of(value) != 0U) addresses_.emplace_back(value, at);
    return {};
  });
}

void graph_reader::read_engine(table_reader& actor, node_entry& node) {
  const auto* found = actor.find("engine");
  const bool others_typed = std::exchange(all_typed_, false);
  const std::string forms = R"({ type = "llama", model = ... } or { type = "toy" })";
  if (found == nullptr) return actor.refuse("engine", "missing; expected " + forms);
  const auto* table = found->as_table();
  if (table == nullptr) return actor.refuse("engine", "expected " + forms + ", found " + describe(*found));
  table_reader engine(*table, actor.path_of("engine"), out_);
  std::string type;
  const char* const types = "\"llama\" or \"toy\"";
  engine.text("type", types, types, [&](const std::string& value) -> std::string {
    if (value != "llama" && value != "toy") return types;
    type = value;
    return {};
  });
  all_typed_ = others_typed && !type.empty();
  if (type == "llama") read_llama(engine, node);
  if (type == "toy") read_toy(engine, node);
  if (!type.empty()) engine.refuse_others();
}

std::string graph_reader::check_model(const std::string& process, const std::string& path) const {
  if (!is_here(process)) return {};
  std::error_code failed;
  if (std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), R_OK) == 0) return {};
  return "a model file that can be read";
}

void graph_reader::read_llama(table_reader& engine, node_entry& node) {
  llama_settings how;
  const std::string kind = "the path of a model file, or \"env:NAME\" of a variable that holds it";
  engine.text("model", kind, kind, [&](const std::string& value) -> std::string {
    how.model = value;
    if (value.rfind("env:", 0) == 0) {
      const char* content = std::getenv(value.c_str() + 4);
      const bool set = content != nullptr && *content != '\0';
      if (!set && is_here(node.process)) return "the name of an environment variable that is set";
      how.model = set ? content : "";
    }
    how.model = resolved(how.model);
    std::string wrong = check_model(node.process, how.model);
    if (!wrong.empty() && value.starts_with("env:")) wrong += " at " + in_quotes(how.model);
    return wrong;
  });
  engine.integer("context", 1, limits::session_tokens, how.context_tokens);
  engine.integer("sessions", 2, limits::node_sessions, how.sessions);
  engine.integer("threads", 1, most_threads, how.threads);
  engine.one_of("mode", {"exact", "throughput"}, how.mode);
  engine.one_of("kv_type", {"f32", "f16", "q8_0", "q4_0"}, how.kv_type);
  node.engine = std::move(how);
}

void graph_reader::read_toy(table_reader& engine, node_entry& node) {
  toy_settings how;
  engine.integer("seed", 0, INT64_MAX, how.seed);
  engine.integer("context", 1, limits::session_tokens, how.context_tokens);
  engine.integer("sessions", 2, limits::node_sessions, how.sessions);
  engine.integer("decode_us", 0, most_microseconds, how.decode_us);
  engine.integer("poison", 0, 255, how.poison);
  engine.integer("fault", 0, 255, how.fault);
  node.engine = how;
}

void graph_reader::read_labels(table_reader& actor, node_entry& node) {
  const auto* found = actor.find("labels");
  if (found == nullptr) return;
  const auto* table = found->as_table();
  if (table == nullptr) return actor.refuse("labels", "expected a table of texts, found " + describe(*found));
  for (const auto& [key, value] : *table) {
    if (const auto* text = value.as_string())
      node.labels.emplace(key.str(), text->get());
    else
      out_.add(value.source().begin.line, actor.path_of("labels") + "." + std::string(key.str()),
               "expected a text, found " + describe(value));
  }
}

void graph_reader::read_links(table_reader& top) {
  for_each_table(top, "link",
                 [&](const toml::table& table, std::size_t number) { read_link(table, number); });
}

void graph_reader::read_link(const toml::table& table, std::size_t number) {
  table_reader link(table, "link[" + std::to_string(number) + "]", out_);
  placed_link placed;
  placed.link.every_tokens = graph_.every_tokens;
  const std::string kind = "the id of a node";
  link.text("from", kind, kind, [&](const std::string& value) -> std::string {
    placed.link.from = value;
    const auto known = actors_.find(value);
    const bool wrong =
        known == actors_.end() || (known->second.first != "node" && !known->second.first.empty());
    return wrong ? kind : std::string{};
  });
  const auto targets = read_targets(link);
  placed.at = {link.path_of("to"), link.line_of("to")};
  if (!targets.empty() && std::ranges::all_of(targets, is_object_store))
    return read_archive(link, {placed.link.from, targets.front()}, placed.at);
  link.one_of("transport", {"ucx", "ucx-shm", "tcp"}, placed.link.transport);
  read_every_tokens(link, placed.link.every_tokens);
  placed.transport_line = link.line_of("transport");
  placed.every_line = link.line_of("every_tokens");
  link.refuse_others();
  for (const auto& target : targets) {
    placed.link.to = target;
    links_.push_back(placed);
  }
}

void graph_reader::read_archive(table_reader& link, archive_entry entry, const place& at) {
  entry.to = "file:" + resolved(entry.to.substr(entry.to.find(':') + 1));
  link.integer("every_tokens", 1, most_archive_tokens, entry.every_tokens);
  link.refuse_others();
  if (std::ranges::count(graph_.archives, entry.from, &archive_entry::from) > 0)
    out_.add(at.line, at.key, "expected one object store, " + in_quotes(entry.from) + " has one already");
  graph_.archives.push_back(std::move(entry));
}

std::vector<std::string> graph_reader::read_targets(table_reader& link) {
  const std::string kind = "the id of a node, an array of them, or an object store \"file:PATH\"";
  const auto* found = link.find("to");
  if (found == nullptr) return link.refuse("to", "missing; expected " + kind), std::vector<std::string>{};
  std::vector<std::string> targets;
  const auto take = [&](const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr) return link.refuse("to", "expected " + kind + ", found " + describe(node));
    if (is_object_store(text->get()) && found->is_string()) {
      targets.push_back(text->get());
      return;
    }
    const auto known = actors_.find(text->get());
    if (known == actors_.end() || (known->second.first != "node" && !known->second.first.empty()))
      return link.refuse("to", "expected the id of a node, found " + in_quotes(text->get()));
    targets.push_back(text->get());
  };
  if (const auto* list = found->as_array()) {
    if (list->empty()) link.refuse("to", "expected at least one node, found none");
    for (const auto& entry : *list)
      take(entry);
  } else {
    take(*found);
  }
  return targets;
}

void graph_reader::check_links() {
  for (const auto& placed : links_) {
    check_link(placed);
    check_data_address(placed.link.from, placed.link.transport);
    check_data_address(placed.link.to, placed.link.transport);
    graph_.links.push_back(placed.link);
  }
}

void graph_reader::check_data_address(const std::string& node, const std::string& transport) {
  const auto found = data_addresses_.find(node);
  if (found == data_addresses_.end()) return;
  const auto& [address, at] = found->second;
  const bool in_memory = transport == "ucx-shm";
  if (is_memory_address(address) != in_memory)
    out_.add(at.line, at.key,
             std::string("expected ") + (in_memory ? "\"shm:NAME\"" : "\"host:port\"") + " for links of " +
                 in_quotes(transport) + ", found " + in_quotes(address));
  data_addresses_.erase(found);
}

/// A node speaks one transport and has one interval, so all links that touch it agree.
void graph_reader::check_link(const placed_link& placed) {
  const auto& link = placed.link;
  if (link.from == link.to)
    out_.add(placed.at.line, placed.at.key,
             "expected another node than " + in_quotes(link.from) + ": a node cannot be its own standby");
  for (const auto& earlier : links_) {
    if (&earlier == &placed) return;
    const auto& other = earlier.link;
    const std::string line = "line " + std::to_string(earlier.at.line);
    const std::string key = placed.at.key.substr(0, placed.at.key.rfind('.'));
    if (link.from == other.from && link.to == other.to)
      return out_.add(placed.at.line, placed.at.key,
                      "expected a link of its own; " + line + " leads from " + in_quotes(link.from) + " to " +
                          in_quotes(link.to) + " as well");
    const bool touch =
        link.from == other.from || link.from == other.to || link.to == other.from || link.to == other.to;
    if (touch && link.transport != other.transport)
      return out_.add(placed.transport_line, key + ".transport",
                      "expected " + in_quotes(other.transport) + " as on " + line +
                          ": links that share a node share its transport, found " +
                          in_quotes(link.transport));
    if (link.from == other.from && link.every_tokens != other.every_tokens)
      return out_.add(placed.every_line, key + ".every_tokens",
                      "expected " + std::to_string(other.every_tokens) + " as on " + line +
                          ": links from one node share its interval, found " +
                          std::to_string(link.every_tokens));
  }
}

void graph_reader::check_addresses() {
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (addresses_[i].first == addresses_[j].first)
        out_.add(addresses_[i].second.line, addresses_[i].second.key,
                 "expected an address of its own; line " + std::to_string(addresses_[j].second.line) +
                     " listens on " + in_quotes(addresses_[i].first) + " as well");
}

/// More replicas than any node has links for, or a quorum of more, would never be.
void graph_reader::check_quorum() {
  if (graph_.links.empty()) return;
  std::ptrdiff_t most = 0;
  for (const auto& node : graph_.nodes)
    most = std::max(most, std::ranges::count(graph_.links, node.id, &link_entry::from));
  if (graph_.replicas > most)
    out_.add(replicas_line_, "defaults.replicas",
             "expected " + std::to_string(most) + " at most, for no node has more links, found " +
                 std::to_string(graph_.replicas));
  const std::string reason = graph_.replicas > 0 ? "there are no more replicas" : "no node has more links";
  if (graph_.replicas > 0) most = std::min<std::ptrdiff_t>(most, graph_.replicas);
  if (const auto quorum = quorum_of(graph_.commit); quorum && *quorum > most)
    out_.add(commit_line_, "defaults.commit",
             "expected \"quorum:" + std::to_string(most) + "\" at most, for " + reason + ", found " +
                 in_quotes(graph_.commit));
}

/// Whether the parts make a deployment, once each of them can be told.
void graph_reader::check_parts(const toml::table& file) {
  const std::size_t end = std::max<std::size_t>(file.source().end.line, 1);
  if (!all_typed_) return;
  if (!has_orchestrator_) out_.add(end, "actor", "expected one of type \"orchestrator\", found none");
  if (graph_.nodes.empty()) out_.add(end, "actor", "expected at least one of type \"node\", found none");
  for (const auto& node : graph_.nodes)
    if (node.engine.index() != graph_.nodes.front().engine.index()) {
      const auto found = actors_.find(node.id);
      if (found == actors_.end()) continue;  // without a name, which has been said
      out_.add(
          found->second.second.line, "actor." + node.id + ".engine",
          "expected the type of " + in_quotes(graph_.nodes.front().id) + "'s: a deployment has one model");
    }
  const auto names = processes_of(graph_);
  if (!process_.empty() && std::find(names.begin(), names.end(), process_) == names.end()) {
    std::vector<std::string> known;
    for (const auto& name : names)
      known.push_back(in_quotes(name));
    out_.add(end, "process", "expected " + listed(known) + ", found " + in_quotes(process_));
  }
}

}  // namespace

std::vector<std::string> processes_of(const deployment& graph) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  add(graph.orchestrator.process);
  for (const auto& node : graph.nodes)
    add(node.process);
  for (const auto& gateway : graph.gateways)
    add(gateway.process);
  return names;
}

result<deployment> parse_deployment(std::string_view text, const std::string& file_name,
                                    std::string_view process) {
  try {
    const auto file = toml::parse(text, file_name);
    return graph_reader(file_name, process).read(file);
  } catch (const toml::parse_error& failure) {  // the one place where the library's exceptions end
    const auto at = failure.source().begin;
    return {errc::invalid_argument, file_name + ":" + std::to_string(at.line) + ": not TOML, at column " +
                                        std::to_string(at.column) + ": " +
                                        on_one_line(failure.description())};
  }
}

}  // namespace baton::actors
