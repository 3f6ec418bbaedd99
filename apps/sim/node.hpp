#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/data_plane.hpp"
#include "actors/engine_loop.hpp"
#include "actors/engines/wrapping_engine.hpp"
#include "actors/link_driver.hpp"
#include "actors/protocol/lease.hpp"
#include "actors/protocol/primary_table.hpp"
#include "apps/sim/world.hpp"
#include "gpu/device.hpp"

namespace baton::apps::sim {

class gateway;
class orchestrator;

/// The engine of a node of a run; without a name, that of its oracle.
actors::engines::toy_engine::options engine_options(const settings& how, const std::string& node = {});

/// An engine that passes for another one.
class disguised_engine final : public actors::engines::wrapping_engine {
 public:
  disguised_engine(engine& inner, actors::engines::fingerprint shown)
      : wrapping_engine(inner), shown_(std::move(shown)) {}
  [[nodiscard]] const actors::engines::fingerprint& identity() const override { return shown_; }

 private:
  actors::engines::fingerprint shown_;
};

/// One run of a node under simulated time: the product's own protocol objects, data plane, links, engine loop
/// and staging memory. What its actors do beyond them (carry effects from one to the other) is done here,
/// each actor as a mailbox.
class node : public std::enable_shared_from_this<node> {
 public:
  node(world& in, std::shared_ptr<host> on, std::vector<std::string> standbys);
  void start();

  // From the orchestrator.
  void on_view(const cluster_view& view, const wire_ptr& wire);
  // From gateways.
  void on_hello(const gateway_hello& hello, const wire_ptr& wire,
                const std::function<void(const heartbeat_ack&)>& reply);
  void on_open(const open_turn& request, const wire_ptr& wire,
               const std::function<void(const open_turn_reply&)>& reply);
  void on_end(const end_turn& request, const wire_ptr& wire);

  /// Asks to own nothing, or no longer asks.
  void drain(bool on) { leaving_ = on; }

  // For checkers.
  [[nodiscard]] const host& on() const noexcept { return *host_; }
  [[nodiscard]] const actors::protocol::primary_table& table() const noexcept { return *table_; }
  /// The node's log of a session, whatever its role; nullptr if it has none.
  [[nodiscard]] const actors::protocol::session_log* log_of(session_id session) const;
  [[nodiscard]] position synced(session_id session) const;
  /// Rows in the engine.
  [[nodiscard]] position rows(session_id session) const {
    return engine_.holds(session) ? engine_.length(session) : 0;
  }
  [[nodiscard]] epoch highest_epoch(group_id group) const;
  [[nodiscard]] gpu::staging_ring::usage staging() const { return device_->staging().used(); }
  [[nodiscard]] actors::protocol::replica_set::counters refusals() const { return plane_->counted(); }
  [[nodiscard]] const std::map<std::string, std::unique_ptr<actors::link_driver>>& links() const noexcept {
    return links_;
  }
  /// When (truly) the last heartbeat that was acknowledged was sent.
  [[nodiscard]] nanoseconds renewed() const noexcept { return renewed_; }

 private:
  // Supervisor.
  void on_beat();
  void reach();
  void enroll();
  void beat();
  void orchestrator_away();
  [[nodiscard]] std::vector<group_status> statuses() const;

  // Primary.
  [[nodiscard]] bool lease_valid() const { return host_->now() < lease_until_; }
  void to_primary(std::function<actors::protocol::primary_effects()> what);
  void carry_out(actors::protocol::primary_effects effects);
  template <class Change, class Serve, class Answered>
  void wish(const Change& change, Serve serve, Answered answered);
  void act(actors::protocol::take_replicas& order);
  void act(actors::protocol::return_replicas& order);
  void act(actors::protocol::seal_gateway& order);
  void act(actors::protocol::reply_open& order);
  void act(actors::protocol::emit_tokens& order);
  void act(actors::protocol::emit_failure& order);
  void act(actors::protocol::ask_in_sync& order);
  void act(actors::protocol::ask_hand_over& order);
  void act(actors::protocol::begin_replication& order);
  void act(actors::protocol::replicate_records& order);
  // No simulated node has an archive.
  void act(actors::protocol::begin_archiving& /*order*/) {}
  void act(actors::protocol::restore_rows& /*order*/) {}
  void act(actors::protocol::end_replication& order);
  void act(actors::protocol::appoint& order);
  void act(actors::protocol::cut_engine& order);
  void act(actors::protocol::run_engine& order);
  void act(actors::protocol::allow_engine& order);
  void act(actors::protocol::stop_engine& order);
  void act(actors::protocol::pause_engine& order);
  void act(actors::protocol::drop_engine& order);
  void sealed(const process_id& gateway, group_id group, epoch under, const result<seal_reply>& reply);
  void on_link(const actors::link_report& report);
  void on_news(const actors::link_news& news);

  // Standby.
  void carry_out_standby(actors::protocol::replica_effects effects, const gpu::staging_slot& slot);
  void on_unpacked(const actors::unpacked_rows& rows);

  // Links.
  void to_link(const std::string& standby, std::function<void(actors::link_driver&)> what);
  /// `only`: to those; to all if it is empty.
  void to_links(const std::function<void(actors::link_driver&)>& what,
                const std::vector<std::string>& only = {});

  // Engine and gpu.
  void to_engine(std::function<void()> order);
  void turn_engine();
  void pack(const actors::exported_rows& rows);
  void unpack(const actors::unpack_order& order);

  world& in_;
  std::shared_ptr<host> host_;
  std::vector<std::string> standbys_;

  actors::engines::toy_engine own_engine_;
  disguised_engine disguised_;
  actors::engines::engine& engine_;
  std::shared_ptr<actors::protocol::engine_places> places_;
  std::unique_ptr<gpu::device> device_;
  std::unique_ptr<actors::data_plane> plane_;
  std::shared_ptr<sim_transport> transport_;
  std::unique_ptr<actors::engine_loop> loop_;
  std::unique_ptr<actors::protocol::primary_table> table_;
  std::map<std::string, std::unique_ptr<actors::link_driver>> links_;

  mailbox primary_box_, standby_box_, gpu_box_, engine_box_;
  std::map<std::string, mailbox> link_boxes_;
  std::deque<std::function<void()>> engine_orders_;
  bool engine_turning_ = false;
  std::uint64_t engine_progress_ = 0;

  remote<orchestrator> orchestrator_;
  bool dialing_ = false;
  bool registered_ = false;
  time_point redial_at_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t term_ = 0;
  allegiance obeyed_;
  std::uint64_t version_ = 0;
  actors::protocol::lease lease_;
  time_point lease_until_ = time_point::min();
  std::map<std::uint64_t, nanoseconds> beats_sent_;
  nanoseconds renewed_{};
  std::vector<group_status> published_;
  bool leaving_ = false;

  std::map<process_id, remote<gateway>> gateways_;
  std::map<actors::protocol::request_ticket, std::function<void(const open_turn_reply&)>> open_requests_;
  actors::protocol::request_ticket next_ticket_ = 1;
  std::map<std::string, bool> links_up_;
};

}  // namespace baton::apps::sim
