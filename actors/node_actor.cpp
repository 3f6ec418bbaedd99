#include "actors/node_actor.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/lease.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto expected_within = 2s;

/// What others may say to a node, and what it says to itself.
using node_core_actor = node_actor::extend<caf::reacts_to<tick_atom>>;

spdlog::logger& log() {
  static const auto logger = log_of("node");
  return *logger;
}

struct node_state {
  std::shared_ptr<node_parts> node;
  node_options how;
  std::string control_address;
  std::string data_address;
  directory_ptr local;

  orchestrator_actor orchestrator;
  bool dialing = false;
  bool registered = false;
  bool refused = false;  // by the orchestrator, at the last try
  steady::time_point started = steady::now();
  bool told_alone = false;
  steady::time_point redial_at{};
  std::uint64_t sequence = 0;
  std::uint64_t term = 0;
  allegiance obeyed;
  std::uint64_t version = 0;
  std::unique_ptr<protocol::lease> lease;
  bool lease_valid = false;

  using pointer = node_core_actor::stateful_pointer<node_state>;

  void init(pointer self) {
    lease = std::make_unique<protocol::lease>(how.liveness.lease);
    self->set_down_handler([this, self](const caf::down_msg& down) {
      if (orchestrator && down.source == orchestrator.address()) away(self);
    });
    self->delayed_send(self, how.liveness.heartbeat, tick_atom::value);
  }

  // --- the orchestrator
  // ---------------------------------------------------------------------------------------------------

  void away(pointer self) {
    if (registered) log().warn("orchestrator away address={}", how.orchestrator);
    registered = false;
    node->alone.store(true);
    orchestrator = nullptr;
    self->send(node->primary, orchestrator);
    redial_at = steady::now() + 100ms;
  }

  void reach(pointer self) {
    if (dialing || steady::now() < redial_at) return;
    dialing = true;
    dial<orchestrator_actor>(
        self, local, how.orchestrator,
        [this, self](orchestrator_actor found) {
          dialing = false;
          orchestrator = std::move(found);
          self->monitor(orchestrator);
          enroll(self);
        },
        [this, self](const error&) {
          dialing = false;
          away(self);
        });
  }

  void enroll(pointer self) {
    node_registration offer;
    offer.node = node->self;
    offer.control_address = control_address;
    offer.data_address = data_address;
    offer.replicate_to = how.replicate_to;
    offer.fingerprint = node->engine->identity().fields;
    offer.capacity_sessions = static_cast<std::uint32_t>(node->places->own_share());
    offer.context_tokens = node->engine->context_tokens();
    offer.fingerprint_hash = node->engine->identity().hash();
    offer.obeyed = obeyed;
    const std::uint64_t number = ++sequence;
    lease->on_sent(number, steady::now());
    self->request(orchestrator, how.liveness.greeted_within(), wire<node_registration>{offer},
                  caf::actor_cast<node_actor>(self))
        .then(
            [this, self, number](const wire<heartbeat_ack>& reply) {
              const auto ack = reply.read();
              if (!ack || !ack->known) {
                const bool foreign = ack && ack->foreign;
                if (!std::exchange(refused, true))
                  log().error(
                      "registration refused: {} node={}",
                      foreign
                          ? "the orchestrator's store is not the one that this node has obeyed, or an old "
                            "copy of it (docs/operating.md says what to do)"
                          : "another process runs under this name",
                      node->self.name);
                return away(self);
              }
              refused = false;
              if (!registered) log().info("registered orchestrator={} term={}", how.orchestrator, ack->term);
              registered = true;
              term = ack->term;
              lease->on_acknowledged(number);
              self->send(node->primary, orchestrator);
            },
            [this, self](const caf::error&) { away(self); });
  }

  void beat(pointer self) {
    heartbeat message;
    message.node = node->self;
    message.sequence = ++sequence;
    message.progress = node->progress.load(std::memory_order_relaxed);
    message.busy = node->busy.load(std::memory_order_relaxed);
    message.view_version = version;
    message.groups = node->statuses();
    message.draining = node->leaving.load(std::memory_order_relaxed);
    constexpr std::uint64_t figures_every = 10;  // beats
    if (sequence % figures_every == 0) message.figures = node->figures();
    lease->on_sent(sequence, steady::now());
    self->request(orchestrator, limits::request_timeout, wire<heartbeat>{message})
        .then(
            [this, self](const wire<heartbeat_ack>& reply) {
              const auto ack = reply.read();
              if (!ack) return;
              lease->on_acknowledged(ack->sequence);
              if (!ack->known && registered) {
                registered = false;
                enroll(self);
              }
            },
            [](const caf::error&) {});
  }

  void on_tick(pointer self) {
    self->delayed_send(self, how.liveness.heartbeat, tick_atom::value);
    if (!orchestrator && version == 0 && steady::now() - started > expected_within &&
        !std::exchange(told_alone, true))
      log().warn("no orchestrator answers address={}; trying on", how.orchestrator);
    if (!orchestrator)
      reach(self);
    else if (registered)
      beat(self);
    const bool valid = lease->valid(steady::now());
    if (valid != lease_valid) log().info("lease {}", valid ? "held" : "lapsed");
    lease_valid = valid;
    self->send(node->primary, lease_state{lease->valid_until()});
  }

  // --- views
  // --------------------------------------------------------------------------------------------------------------

  void on_view(pointer self, const wire<cluster_view>& message) {
    auto view = message.read();
    if (!view || view->term < term) return;
    term = view->term;
    obey(obeyed, *view);
    version = view->version;
    auto shared = std::make_shared<const cluster_view>(std::move(*view));
    self->send(node->primary, view_update{shared});
    node->alone.store(std::none_of(shared->nodes.begin(), shared->nodes.end(), [this](const node_view& it) {
      return it.node != node->self && it.alive && !it.draining;
    }));
    for (const node_view& it : shared->nodes) {
      const auto replicator = node->replicators.find(it.node.name);
      if (replicator != node->replicators.end())
        self->send(replicator->second, link_target{it.node, it.alive ? it.data_address : std::string{}});
    }
  }
};

node_core_actor::behavior_type node_behavior(node_core_actor::stateful_pointer<node_state> self,
                                             std::shared_ptr<node_parts> node, node_options how,
                                             std::string control_address, std::string data_address,
                                             directory_ptr local) {
  auto& state = self->state;
  state.node = std::move(node);
  state.how = std::move(how);
  state.control_address = std::move(control_address);
  state.data_address = std::move(data_address);
  state.local = std::move(local);
  state.init(self);
  return {[self, &state](const wire<cluster_view>& view) { state.on_view(self, view); },
          [self, &state](tick_atom) { state.on_tick(self); }};
}

}  // namespace

caf::actor spawn_node_actor(caf::actor_system& system, std::shared_ptr<node_parts> node, node_options how,
                            std::string control_address, std::string data_address, directory_ptr local) {
  return caf::actor_cast<caf::actor>(system.spawn(node_behavior, std::move(node), std::move(how),
                                                  std::move(control_address), std::move(data_address),
                                                  std::move(local)));
}

}  // namespace baton::actors
