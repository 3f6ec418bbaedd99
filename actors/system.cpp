#include "actors/system.hpp"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include <caf/io/all.hpp>

#include "actors/interfaces.hpp"

namespace baton::actors {

namespace {

template <class Message>
void add_wire(caf::actor_system_config& config) {
  config.add_message_type<wire<Message>>(std::string{wire_name<Message>()});
}

}  // namespace

system_config::system_config(std::size_t threads) {
  load<caf::io::middleman>();
  add_wire<node_registration>(*this);
  add_wire<gateway_registration>(*this);
  add_wire<heartbeat>(*this);
  add_wire<heartbeat_ack>(*this);
  add_wire<cluster_view>(*this);
  add_wire<in_sync_change>(*this);
  add_wire<hand_over>(*this);
  add_wire<in_sync_reply>(*this);
  add_wire<gateway_hello>(*this);
  add_wire<open_turn>(*this);
  add_wire<open_turn_reply>(*this);
  add_wire<turn_tokens>(*this);
  add_wire<turn_failure>(*this);
  add_wire<end_turn>(*this);
  add_wire<seal>(*this);
  add_wire<seal_reply>(*this);
  add_message_type<gateway_actor>("baton.gateway_actor");
  add_message_type<primary_actor>("baton.primary_actor");
  add_message_type<node_actor>("baton.node_actor");
  add_message_type<orchestrator_actor>("baton.orchestrator_actor");
  // One queue for all workers: on few cores faster than work stealing, and idle workers sleep.
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", threads);
  set("middleman.heartbeat-interval", caf::timespan{std::chrono::milliseconds{200}});
  set("middleman.connection-timeout", caf::timespan{std::chrono::seconds{2}});
}

/// Keeps a thing until the process ends, longer than the statics of any library.
template <class Thing>
void leave_behind(std::unique_ptr<Thing> thing) {
  static std::mutex guard;
  static auto& kept = *new std::vector<std::unique_ptr<Thing>>;
  const std::lock_guard lock{guard};
  kept.push_back(std::move(thing));
}

held_system::held_system(std::size_t threads) : body_(std::make_unique<body>(threads)) {
  get().await_actors_before_shutdown(false);
}

held_system::~held_system() {
  leave_behind(std::move(body_));
}

}  // namespace baton::actors
