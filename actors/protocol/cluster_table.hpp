#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "schemas/control.hpp"
#include "schemas/limits.hpp"

namespace baton::actors::protocol {

/// Names a request for a change of an in-sync set between this object and whoever holds its reply.
using change_ticket = std::uint64_t;

// --- effects -----------------------------------------------------------------------------------------------

/// Compare-and-swap in the record store: write `desired` if the group's revision still is `expected` (0: no
/// record yet), then report by `on_swapped`. If `new_epoch`, the record's epoch becomes the revision of this
/// very change.
struct swap_record {
  group_record desired;
  std::uint64_t expected = 0;
  bool new_epoch = false;
};
struct reply_change {
  change_ticket to = 0;
  std::optional<in_sync_reply> reply;  ///< nothing: the outcome is not known; answer with an error
};
/// The view has changed: send it to everybody.
struct publish_view {};

using cluster_effect = std::variant<swap_record, reply_change, publish_view>;
using cluster_effects = std::vector<cluster_effect>;

/// One change of owner, for people.
struct failover_event {
  group_id group{};
  process_id from;
  process_id to;
  baton::epoch epoch{};
  std::string cause;
  std::chrono::milliseconds detected_after{};  ///< since the node was last heard
};

/// The cluster as its orchestrator knows it: members, who is alive, who owns what. Decides failovers and
/// guards in-sync sets; every decision is a compare-and-swap in the record store (docs/protocol.md sections
/// T, L, P1, I). Pure; not thread-safe.
class cluster_table {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::uint64_t term = 0;
    std::uint64_t store = 0;  ///< that the records are in
    std::chrono::milliseconds suspect_after = limits::suspect_after;
    std::chrono::milliseconds lease = limits::lease;
    std::chrono::milliseconds stalled_after =
        limits::engine_stalled_after;           ///< a busy engine loop without progress for this long is dead
    std::chrono::milliseconds tick_period{10};  ///< between calls of `on_tick`
  };

  /// `records`: what the store holds. Owners get one lease from `now` on before they can be called dead.
  cluster_table(options how, std::vector<group_record> records, time_point now);

  cluster_effects on_node(const node_registration& node, time_point now);
  /// Whether this process was a node until another of its name registered: it must not register again, or two
  /// that run under one name would take turns for ever.
  [[nodiscard]] bool replaced(const process_id& node) const;
  /// Whether who has obeyed that must not be told anything (rule T): the records are others, or older.
  [[nodiscard]] bool foreign(const allegiance& obeyed) const;
  cluster_effects on_gateway(const gateway_registration& gateway, time_point now);
  heartbeat_ack on_heartbeat(const heartbeat& beat, time_point now, cluster_effects& effects);
  /// Its connection closed, or its process is known to have ended.
  cluster_effects on_lost(const process_id& who, const std::string& cause, time_point now);
  /// A planned move: the owner comes to rest, and asks that its standby be the owner. Answered like a change.
  /// The old owner tells the new one when that has all; views show the old record until the new owner reports
  /// the group, the old one does not any more, either is lost, or it has taken too long.
  cluster_effects on_hand_over(change_ticket ticket, const hand_over& change, time_point now);
  /// Whether the node of that name shall own nothing; false also if it is unknown. Until it restarts.
  bool drain(const std::string& node, bool on, cluster_effects& effects);
  /// The node of that name shall own the group, and have it until something happens to it. False if there is
  /// no such group, or the node is not alive or drains.
  bool move(group_id group, const std::string& node, cluster_effects& effects);
  cluster_effects on_change(change_ticket ticket, const in_sync_change& change, time_point now);
  /// Outcome of a `swap_record`: the record as written, or (if not `done`) as the store really has it; with
  /// revision 0 if it has none or could not be read.
  cluster_effects on_swapped(bool done, const group_record& outcome, time_point now);
  cluster_effects on_tick(time_point now);

  [[nodiscard]] cluster_view view() const;
  [[nodiscard]] const std::vector<failover_event>& failovers() const noexcept { return failovers_; }
  [[nodiscard]] const std::map<std::string, std::vector<group_status>>& statuses() const noexcept {
    return statuses_;
  }

 private:
  static constexpr std::size_t groups_per_node = 4;

  struct member {
    node_registration registration;
    bool alive = false;
    time_point heard{};
    std::uint64_t progress = 0;
    time_point progressed{};
    bool busy = false;
    std::set<incarnation> replaced{};  // that ran under this name before
    time_point since{};                // alive without a break
    bool leaving = false;              // says so itself
    bool drained = false;              // by order
    [[nodiscard]] bool draining() const { return leaving || drained; }
  };
  struct pending_change {
    std::optional<change_ticket> ticket;
    std::optional<failover_event> failover;
    process_id owner{};          // the new one, if the change names one
    bool told_by_owner = false;  // by the old one, not by a view
  };
  /// A group whose new owner is to hear of it from the old one.
  struct hand_on {
    group_record before;
    time_point until{};
  };

  [[nodiscard]] bool silent(const member& node, time_point now) const;
  [[nodiscard]] bool hears_nobody(time_point now, std::chrono::milliseconds lately) const;
  void note_sleep(time_point now);
  [[nodiscard]] bool just_woken(time_point now) const;
  void listen_again(time_point now);
  void lose(member& node, const std::string& cause, time_point now, cluster_effects& effects);
  void fail_over(const group_record& record, const std::string& cause, time_point now,
                 cluster_effects& effects);
  void remove_from(const group_record& record, const process_id& who, cluster_effects& effects);
  [[nodiscard]] bool still_handed_on(group_id group, const hand_on& it, time_point now) const;
  void show_handed_on(time_point now, cluster_effects& effects);
  void settle(const group_record& record, time_point now, cluster_effects& effects);
  /// A node that owns none gets one of another's then instead of a new one, if it comes to hold one in time.
  [[nodiscard]] bool enough_groups() const { return groups_.size() >= groups_per_node * nodes_.size(); }
  [[nodiscard]] const group_record* find_spare() const;
  void give_work(const member& node, time_point now, cluster_effects& effects);
  void make_sure(cluster_effects& effects);
  bool swap(group_record desired, std::uint64_t expected, bool new_epoch, pending_change why,
            cluster_effects& effects);
  void changed(cluster_effects& effects);
  void reply(change_ticket ticket, group_id group, bool changed, cluster_effects& effects) const;
  [[nodiscard]] const member* choose_successor(const group_record& record) const;
  [[nodiscard]] std::vector<group_move> moves() const;
  [[nodiscard]] std::size_t missed_by_gateways(const process_id& node) const;
  [[nodiscard]] const process_id* better_place(const group_record& record,
                                               const std::map<process_id, std::size_t>& load) const;
  [[nodiscard]] const process_id* ordered_owner(const group_record& record) const;
  [[nodiscard]] bool may_inherit(const process_id& who, time_point now) const;
  [[nodiscard]] bool runs(const process_id& who) const;
  [[nodiscard]] const group_status* status_of(const std::string& node, group_id group) const;

  options how_;
  time_point started_;
  std::map<std::string, member> nodes_;
  std::map<std::string, gateway_registration> gateways_;
  std::map<group_id, group_record> groups_;
  std::map<group_id, pending_change> pending_;
  std::map<group_id, hand_on> handed_on_;
  std::map<std::string, std::vector<group_status>> statuses_;
  std::vector<failover_event> failovers_;
  std::map<group_id, std::string> ordered_;  // by order: where a group is to be
  std::set<group_id> unsure_;  // a write of theirs failed, and what the store has could not be read
  std::uint64_t version_ = 0;
  time_point ticked_at_;
  bool overslept_ = false;
  std::optional<time_point> woken_at_;
};

}  // namespace baton::actors::protocol
