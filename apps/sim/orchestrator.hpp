#pragma once

#include <deque>
#include <map>
#include <memory>

#include "actors/protocol/cluster_table.hpp"
#include "apps/sim/world.hpp"

namespace baton::apps::sim {

class node;
class gateway;

/// The orchestrator's actor under simulated time: it carries out what the `cluster_table` decides.
class orchestrator : public std::enable_shared_from_this<orchestrator> {
 public:
  orchestrator(world& in, std::shared_ptr<host> on) : in_(in), host_(std::move(on)), store_(in.store) {}
  /// False if the store refuses; try again later.
  bool start();

  void on_node(const node_registration& what, const wire_ptr& wire,
               const std::function<void(const heartbeat_ack&)>& reply);
  void on_gateway(const gateway_registration& what, const wire_ptr& wire,
                  const std::function<void(const heartbeat_ack&)>& reply);
  void on_heartbeat(const heartbeat& beat, const wire_ptr& wire,
                    const std::function<void(const heartbeat_ack&)>& reply);
  void on_change(const in_sync_change& change, const wire_ptr& wire,
                 const std::function<void(const in_sync_reply&)>& reply);
  void on_hand_over(const hand_over& change, const wire_ptr& wire,
                    const std::function<void(const in_sync_reply&)>& reply);

  [[nodiscard]] const actors::protocol::cluster_table* table() const noexcept { return table_.get(); }

 private:
  void carry_out(actors::protocol::cluster_effects effects);
  void next_swap();
  void publish();
  void run(actors::protocol::cluster_effects effects);
  void on_tick();
  void lost(const process_id& who, const wire_ptr& wire);

  world& in_;
  std::shared_ptr<host> host_;
  store_session store_;
  std::deque<actors::protocol::swap_record> swaps_;  // the first is with the store
  std::uint64_t term_ = 0;
  std::unique_ptr<actors::protocol::cluster_table> table_;
  std::map<process_id, remote<node>> nodes_;
  std::map<process_id, remote<gateway>> gateways_;
  std::map<actors::protocol::change_ticket, std::function<void(const in_sync_reply&)>> changes_;
  actors::protocol::change_ticket next_ticket_ = 1;
  bool view_changed_ = false;
};

}  // namespace baton::apps::sim
