#include "actors/node.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "actors/engine_actor.hpp"
#include "actors/engines/self_test.hpp"
#include "actors/gpu_actor.hpp"
#include "actors/node_actor.hpp"
#include "actors/node_archive.hpp"
#include "actors/node_settings.hpp"
#include "actors/primary_actor.hpp"
#include "actors/replicator_actor.hpp"
#include "actors/standby_actor.hpp"
#include "gpu/host_device.hpp"
#include "schemas/log.hpp"
#include "transports/tcp_transport.hpp"
#include "transports/ucx_transport.hpp"

namespace baton::actors {

namespace {

spdlog::logger& log() {
  static const auto logger = log_of("node");
  return *logger;
}

result<std::unique_ptr<transports::transport>> make_transport(
    const node_options& how, transports::frame_sink& sink,
    const std::shared_ptr<transports::inproc_network>& network) {
  try {
    if (how.make_transport) return how.make_transport(sink);
    if (how.transport == "inproc") {
      if (network == nullptr)
        return {errc::invalid_argument, "transport inproc: this runtime has no local network"};
      return std::unique_ptr<transports::transport>{
          std::make_unique<transports::inproc_transport>(network, sink)};
    }
    if (how.transport == "ucx" || how.transport == "ucx-shm") {
      transports::ucx_options options;
      options.devices =
          how.network_devices.empty() ? transports::device_of(how.data_listen) : how.network_devices;
      options.shared_memory = how.transport == "ucx-shm";
      return std::unique_ptr<transports::transport>{
          std::make_unique<transports::ucx_transport>(options, sink)};
    }
    if (how.transport == "tcp")
      return std::unique_ptr<transports::transport>{std::make_unique<transports::tcp_transport>(sink)};
  } catch (const std::exception& problem) {
    return {errc::io_failed, "transport " + how.transport + ": " + problem.what()};
  }
  return {errc::invalid_argument,
          "transport \"" + how.transport + "\": expected ucx, ucx-shm, tcp or inproc"};
}

}  // namespace

result<std::unique_ptr<node>> node::start(caf::actor_system& system, const node_options& how,
                                          const engine_factory& make_engine, const directory_ptr& local,
                                          const std::shared_ptr<transports::inproc_network>& network,
                                          std::function<void(const process_id&, const error&)> broken) {
  std::unique_ptr<node> made{new node{system}};
  made->parts_->break_down = [self = &made->parts_->self, broken = std::move(broken)](const error& why) {
    broken(*self, why);
  };
  if (auto assembled = made->assemble(how, make_engine, local, network); !assembled)
    return assembled.failure();
  return made;
}

node::~node() {
  stop();
}

result<void> node::assemble(const node_options& how, const engine_factory& make_engine,
                            const directory_ptr& local,
                            const std::shared_ptr<transports::inproc_network>& network) {
  local_ = local;
  parts_->self = {how.name,
                  incarnation{std::random_device{}() | (std::uint64_t{std::random_device{}()} << 32)}};
  parts_->every_tokens = std::max(1U, how.every_tokens);
  auto commit = protocol::parse_commit_rule(how.commit);
  if (!commit) return commit.failure();
  auto engine = make_engine();
  if (!engine) return engine.failure();
  parts_->engine = std::move(*engine);
  parts_->places = std::make_shared<protocol::engine_places>(
      how.sessions, protocol::standbys_of_each(how.replicas, how.replicate_to.size()));
  if (auto made = make_data_plane(how, network); !made) return made;
  if (commit->how == protocol::commit_rule::mode::strict && !rows_ && !how.replicate_to.empty())
    return {
        errc::invalid_argument,
        "commit = \"strict\" waits for KV rows, which this engine cannot hand over; use semi-sync or quorum"};
  auto listening = parts_->transport->listen(how.data_listen);
  if (!listening)
    return {listening.code(), "data_listen " + how.data_listen + ": " + listening.failure().what};
  data_address_ = *listening;

  if (!how.archive.empty()) {
    auto archive = make_archive(parts_, how);
    if (!archive) return archive.failure();
    parts_->archive = std::move(*archive);
  }

  spawn_actors(how);
  parts_->primary =
      spawn_primary_actor(system_, parts_,
                          table_settings(parts_->self, *parts_->engine, parts_->places,
                                         {*commit, !how.replicate_to.empty(), how.replicas,
                                          how.liveness.lease, rows_, parts_->archive != nullptr}));
  if (parts_->archive) spawn_archive(system_, parts_);
  auto control =
      publish(system_, local_, caf::actor_cast<primary_actor>(parts_->primary), how.control_listen);
  if (!control) {
    stop();
    return control.failure();
  }
  control_address_ = *control;
  supervisor_ = spawn_node_actor(system_, parts_, how, control_address_, data_address_, local_);
  return {};
}

result<void> node::make_data_plane(const node_options& how,
                                   const std::shared_ptr<transports::inproc_network>& network) {
  const engines::engine& engine = *parts_->engine;
  const std::size_t slot_bytes = limits::delta_tokens * engine.layout().bytes_per_token();
  constexpr std::size_t fewest = 8;
  constexpr std::size_t most = 1024;
  const std::size_t slots =
      std::clamp(how.replica_memory_bytes / std::max<std::size_t>(slot_bytes, 1), fewest, most);
  try {
    parts_->device = gpu::make_host_device({std::max<std::size_t>(slot_bytes, 64), slots});
  } catch (const std::exception& problem) {
    return {errc::no_room, std::string{"replica_memory: "} + problem.what()};
  }
  const auto tested = engines::run_self_test(*parts_->engine, *parts_->device);
  if (!tested) return tested.failure();
  rows_ = tested->mode == engines::replication_mode::rows;
  log().info("self-test mode={} reason=\"{}\"", rows_ ? "rows" : "replay", tested->reason);

  const std::weak_ptr<node_parts> parts = parts_;
  parts_->plane = std::make_unique<data_plane>(
      plane_settings(parts_->self, engine, rows_, parts_->places), *parts_->device,
      [parts](protocol::replica_effects effects, gpu::staging_slot slot) {
        if (const auto alive = parts.lock())
          caf::anon_send(alive->standby, replica_orders{std::move(effects), std::move(slot)});
      });
  auto transport = make_transport(how, *parts_->plane, network);
  if (!transport) return transport.failure();
  parts_->transport = std::move(*transport);
  parts_->plane->attach(*parts_->transport);
  return {};
}

void node::spawn_actors(const node_options& how) {
  parts_->engine_loop = spawn_engine_actor(system_, parts_);
  parts_->gpu = spawn_gpu_actor(system_, parts_);
  parts_->standby = spawn_standby_actor(system_, parts_);
  for (const std::string& standby : how.replicate_to)
    parts_->replicators.emplace(standby, spawn_replicator_actor(system_, parts_, standby));
}

void node::stop() {
  if (parts_ == nullptr) return;
  if (local_ != nullptr && control_address_.starts_with(local_prefix)) local_->retract(control_address_);
  std::vector<caf::actor> actors;
  const auto add = [&](const auto& handle) {
    if (handle) actors.push_back(caf::actor_cast<caf::actor>(handle));
  };
  add(supervisor_);
  add(parts_->primary);
  for (const auto& [name, replicator] : parts_->replicators)
    add(replicator);
  if (parts_->archive) {
    add(parts_->archive->replicator);
    add(parts_->archive->restorer);
    add(parts_->archive->writer);
  }
  add(parts_->standby);
  add(parts_->gpu);
  add(parts_->engine_loop);
  caf::scoped_actor waiter{system_};
  for (const caf::actor& it : actors)
    caf::anon_send_exit(it, caf::exit_reason::kill);
  for (const caf::actor& it : actors)
    waiter->wait_for(it);
  parts_->transport.reset();  // only now: actors use it until they end
  if (parts_->archive) parts_->archive->transport.reset();
  supervisor_ = nullptr;
  parts_.reset();
}

}  // namespace baton::actors
