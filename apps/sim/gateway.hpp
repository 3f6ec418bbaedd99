#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "actors/gateway_core.hpp"
#include "apps/sim/world.hpp"

namespace baton::apps::sim {

class node;
class orchestrator;

/// One run of a gateway under simulated time: the product's `gateway_core`, and its connections.
class gateway : public std::enable_shared_from_this<gateway> {
 public:
  /// `released`: after an owner's tokens have been taken, whether or not they were accepted.
  using observer = std::function<void(const turn_tokens&, const process_id& from)>;

  gateway(world& in, std::shared_ptr<host> on, observer released);
  void start();

  // Clients.
  actors::turn_handle submit(const actors::completion_request& request,
                             actors::completion_service::receiver events);
  void cancel(actors::turn_handle which);

  // From owners and the orchestrator.
  void on_seal(const seal& order, const wire_ptr& wire, const std::function<void(const seal_reply&)>& reply);
  void on_tokens(const turn_tokens& tokens, const wire_ptr& wire);
  void on_failure(const turn_failure& failure, const wire_ptr& wire);
  void on_view(const cluster_view& view, const wire_ptr& wire);

  [[nodiscard]] const actors::gateway_core& core() const noexcept { return core_; }
  [[nodiscard]] const host& on() const noexcept { return *host_; }

 private:
  struct known_node {
    remote<node> line;
    bool dialing = false;
    time_point redial_at{};
  };

  void carry_out(actors::gateway_effects effects);
  void reach_orchestrator();
  void register_here();
  void lose_orchestrator();
  void reach_nodes();
  void reach(const node_view& view);
  void lose_node(const process_id& who);
  void on_tick();

  world& in_;
  std::shared_ptr<host> host_;
  actors::gateway_core core_;
  observer released_;
  remote<orchestrator> orchestrator_;
  bool dialing_ = false;
  time_point redial_at_{};
  allegiance obeyed_;
  std::map<process_id, known_node> nodes_;
  std::uint64_t next_handle_ = 1;
};

}  // namespace baton::apps::sim
