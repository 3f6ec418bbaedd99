#include "apps/commands/process_runner.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "actors/runtime.hpp"
#include "apps/commands/engine_choice.hpp"
#include "apps/commands/shutdown_guard.hpp"
#include "apps/exit_codes.hpp"
#include "apps/host/interrupt.hpp"
#include "apps/host/memory_keeper.hpp"
#include "apps/http/server.hpp"
#include "schemas/log.hpp"

namespace baton::apps {
namespace {

constexpr std::chrono::milliseconds patience{4000};
constexpr std::chrono::milliseconds to_hand_over{30'000};

/// Ends the process once its parts have stopped. The actor system is not taken apart: that would wait for the
/// last reference to each actor, and messages from peers that are frozen or dead may hold some.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  host::give_memory_back_at_our_end();
  ::_exit(code);
}

/// The parts of one process, in the order in which they were started.
class parts {
 public:
  parts(const actors::deployment& graph, const process_options& how) : graph_(graph), how_(how) {
    liveness_ = {graph.heartbeat, graph.suspect_after, graph.lease};
  }
  parts(const parts&) = delete;
  parts& operator=(const parts&) = delete;

  /// Starts all; between two parts it looks whether it should rather stop.
  result<void> start(const shutdown_guard& guard);
  /// Moves what its nodes serve to others, as far as there are any, until that is done or there is no time.
  void hand_over(const shutdown_guard& guard);
  void stop();

 private:
  result<void> start_orchestrator();
  result<void> start_node(const actors::node_entry& node);
  result<void> start_gateway(const actors::gateway_entry& gateway);
  /// `protocol`: "http" for clients, "address" for Baton's other parts.
  void say_ready(const char* type, const std::string& id, const std::string& protocol,
                 const std::string& address) const;
  /// A part has ended: a node because its engine failed, or the orchestrator because there is another one. A
  /// process that is nothing but that part ends with it.
  void broke_down(const std::string& id, const error& why) const;
  /// "FILE: actor.ID: what".
  [[nodiscard]] error named(const std::string& id, const error& why) const {
    return {why.code, how_.file_name + ": actor." + id + ": " + why.what};
  }

  const actors::deployment& graph_;
  const process_options& how_;
  actors::liveness_options liveness_;
  std::unique_ptr<actors::runtime> runtime_;
  std::vector<std::shared_ptr<actors::completion_service>> services_;
  std::vector<std::unique_ptr<http::server>> servers_;
};

void parts::say_ready(const char* type, const std::string& id, const std::string& protocol,
                      const std::string& address) const {
  if (how_.json) {
    const nlohmann::ordered_json line{{"event", "ready"},        {"actor", id},       {"type", type},
                                      {"process", how_.process}, {"pid", ::getpid()}, {protocol, address}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("ready %s %s %s\n", type, id.c_str(),
                protocol == "http" ? ("http://" + address).c_str() : address.c_str());
  }
  std::fflush(stdout);
}

result<void> parts::start_orchestrator() {
  const auto& entry = graph_.orchestrator;
  actors::orchestrator_options options;
  options.name = entry.id;
  options.listen = entry.listen;
  options.store = entry.store;
  options.cluster = graph_.name;
  options.on_breakdown = [this, id = entry.id](const error& why) { broke_down(id, why); };
  options.liveness = liveness_;
  const auto address = runtime_->add_orchestrator(options);
  if (!address) return named(entry.id, address.failure());
  say_ready("orchestrator", entry.id, "address", *address);
  return {};
}

result<void> parts::start_node(const actors::node_entry& node) {
  actors::node_options options;
  options.name = node.id;
  options.orchestrator = graph_.orchestrator.listen;
  options.control_listen = node.control_listen;
  options.network_devices = node.network_devices;
  options.commit = graph_.commit;
  options.every_tokens = graph_.every_tokens;
  options.replicas = graph_.replicas;
  options.replica_memory_bytes = node.replica_memory_bytes;
  options.sessions = std::visit([](const auto& engine) { return engine.sessions; }, node.engine);
  options.liveness = liveness_;
  options.on_breakdown = [this, id = node.id](const error& why) { broke_down(id, why); };
  for (const auto& link : graph_.links) {
    if (link.from != node.id && link.to != node.id) continue;
    options.transport = link.transport;  // the same on all links that touch a node
    if (link.from != node.id) continue;
    options.every_tokens = link.every_tokens;
    options.replicate_to.push_back(link.to);
  }
  for (const auto& archive : graph_.archives) {
    if (archive.from != node.id) continue;
    options.archive = archive.to;
    options.archive_every_tokens = archive.every_tokens;
  }
  const std::string anywhere = options.transport == "ucx-shm" ? "shm:0" : "127.0.0.1:0";
  options.data_listen = node.data_listen.empty() ? anywhere : node.data_listen;
  const auto address = runtime_->add_node(options, make_engine_factory(node.engine));
  if (!address) return named(node.id, address.failure());
  say_ready("node", node.id, "address", *address);
  return {};
}

result<void> parts::start_gateway(const actors::gateway_entry& gateway) {
  auto text = make_tokenizer(graph_.nodes.front().engine);
  if (!text) return named(gateway.id, text.failure());
  actors::gateway_options options;
  options.name = gateway.id;
  options.orchestrator = graph_.orchestrator.listen;
  options.poison_after = gateway.poison_after;
  options.archive = gateway.archive;
  options.liveness = liveness_;
  auto service = runtime_->add_gateway(options, *text);
  if (!service) return named(gateway.id, {service.code(), "archive: " + service.failure().what});
  services_.push_back(std::move(*service));
  http::server_options listen;
  listen.listen = gateway.listen;
  auto server = http::server::start(*services_.back(), listen);
  if (!server) return named(gateway.id, {server.code(), "listen: " + server.failure().what});
  const std::string host = gateway.listen.substr(0, gateway.listen.rfind(':'));
  const std::string http = host + ":" + std::to_string((*server)->port());
  servers_.push_back(std::move(*server));
  say_ready("gateway", gateway.id, "http", http);
  return {};
}

result<void> parts::start(const shutdown_guard& guard) {
  auto runtime = actors::runtime::start();
  if (!runtime) return {runtime.code(), how_.file_name + ": " + runtime.failure().what};
  runtime_ = std::move(*runtime);
  if (graph_.orchestrator.process == how_.process)
    if (auto done = start_orchestrator(); !done) return done;
  for (const auto& node : graph_.nodes) {
    if (node.process != how_.process || guard.requested()) continue;
    if (auto done = start_node(node); !done) return done;
  }
  for (const auto& gateway : graph_.gateways) {
    if (gateway.process != how_.process || guard.requested()) continue;
    if (auto done = start_gateway(gateway); !done) return done;
  }
  return {};
}

void parts::broke_down(const std::string& id, const error& why) const {
  std::fprintf(stderr, "baton: %s\n", named(id, why).what.c_str());
  const auto here = [this](const auto& part) { return part.process == how_.process; };
  const auto parts_here = static_cast<std::ptrdiff_t>(here(graph_.orchestrator)) +
                          std::ranges::count_if(graph_.gateways, here) +
                          std::ranges::count_if(graph_.nodes, here);
  if (parts_here == 1) leave(exit_code::failed);
}

void parts::hand_over(const shutdown_guard& guard) {
  if (runtime_) runtime_->drain(to_hand_over, [&guard] { return guard.hurried(); });
}

void parts::stop() {
  for (const auto& server : servers_)
    server->stop();
  if (runtime_) runtime_->stop();
}

}  // namespace

void run_process(const actors::deployment& graph, const process_options& how) {
  host::interrupt signals;
  if (const auto kept = host::keep_memory_past_our_end(); !kept)
    log_of("process")->warn("peers may notice our end late reason=\"{}\"", kept.failure().what);
  shutdown_guard guard(signals, to_hand_over, patience);
  parts running(graph, how);
  const auto started = running.start(guard);
  if (started) {
    guard.await();
    running.hand_over(guard);
  } else {
    std::fprintf(stderr, "baton: %s\n", started.failure().what.c_str());
  }
  guard.hurry();
  running.stop();
  leave(started ? exit_code::success : exit_code::cannot_start);
}

}  // namespace baton::apps
