#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/cluster_table.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using actors::protocol::change_ticket;
using actors::protocol::cluster_effects;
using actors::protocol::cluster_table;
using actors::protocol::failover_event;
using actors::protocol::publish_view;
using actors::protocol::reply_change;
using actors::protocol::swap_record;

inline process_id run_of(const std::string& name, std::uint64_t number = 1) {
  return {name, incarnation{number}};
}

inline group_record record(std::uint64_t group, const process_id& owner, std::vector<process_id> in_sync,
                           std::uint64_t revision) {
  return {group_id{group}, epoch{revision}, revision, owner, std::move(in_sync)};
}

/// A cluster table, the clock, and a store that carries out its swaps at once, unless told otherwise. Checks
/// on every swap what must hold for all of them.
class cluster_world {
 public:
  using time_point = cluster_table::time_point;

  explicit cluster_world(std::vector<group_record> records = {}) {
    for (const group_record& record : records) {
      store[record.group] = record;
      revision = std::max(revision, record.revision);
    }
    table.emplace(options(), std::move(records), now);
  }

  static cluster_table::options options() {
    cluster_table::options out;
    out.term = 3;
    out.store = 77;
    return out;
  }

  // --- events
  // ---------------------------------------------------------------------------------------------------------

  void node(const std::string& name, std::uint64_t number = 1, std::uint32_t capacity = 100,
            std::uint64_t model = 0) {
    node_registration it;
    it.fingerprint_hash = model;
    it.node = run_of(name, number);
    it.control_address = name + ":1";
    it.capacity_sessions = capacity;
    beating[name] = it.node;
    run(table->on_node(it, now));
  }

  void gateway(const std::string& name = "gateway", std::uint64_t number = 1) {
    run(table->on_gateway({run_of(name, number), {}}, now));
  }

  void lost(const process_id& who) {
    beating.erase(who.name);
    run(table->on_lost(who, "connection lost", now));
  }

  heartbeat_ack beat(const heartbeat& it) {
    cluster_effects effects;
    const heartbeat_ack ack = table->on_heartbeat(it, now, effects);
    run(std::move(effects));
    return ack;
  }

  heartbeat_ack beat(const process_id& who, std::vector<group_status> groups = {}) {
    heartbeat it;
    it.node = who;
    it.sequence = ++sequence;
    it.view_version = table->view().version;
    it.groups = std::move(groups);
    return beat(it);
  }

  /// Time passes in steps of a heartbeat; all in `beating` beat.
  void pass(std::chrono::milliseconds span) {
    for (const time_point end = now + span; now < end;) {
      now += limits::heartbeat;
      for (const auto& [name, who] : beating)
        beat(who, statuses[name]);
      tick();
    }
  }

  void tick() { run(table->on_tick(now)); }

  in_sync_reply change(in_sync_change it) {
    replies.clear();
    const change_ticket ticket = ++tickets;
    run(table->on_change(ticket, it, now));
    REQUIRE(replies.size() == 1);
    REQUIRE(replies.contains(ticket));
    return replies[ticket];
  }

  in_sync_reply hand_over(const baton::hand_over& it) {
    replies.clear();
    const change_ticket ticket = ++tickets;
    run(table->on_hand_over(ticket, it, now));
    REQUIRE(replies.contains(ticket));
    return replies[ticket];
  }

  /// The same where nothing can be said now.
  void change_unanswered(in_sync_change it) {
    replies.clear();
    run(table->on_change(++tickets, it, now));
    REQUIRE(replies.empty());
  }

  /// The owner of a group asks for a change of its in-sync set.
  in_sync_change asks(group_id group, const process_id& standby, bool add) {
    const group_record& it = store.at(group);
    return {group, it.epoch, it.revision, it.owner, standby, add};
  }

  void add(group_id group, const std::string& standby) {
    REQUIRE(change(asks(group, beating.at(standby), true)).changed);
  }

  // --- the store
  // ------------------------------------------------------------------------------------------------------

  void run(cluster_effects effects) {
    for (const auto& effect : effects) {
      if (const auto* swap = std::get_if<swap_record>(&effect)) {
        if (held_back)
          waiting.push_back(*swap);
        else
          carry_out(*swap);
      } else if (const auto* reply = std::get_if<reply_change>(&effect)) {
        if (reply->reply) replies[reply->to] = *reply->reply;
      } else {
        ++published;
      }
    }
  }

  void carry_out(const swap_record& swap) {
    ++swaps;
    const nesting here{depth};
    REQUIRE(depth < 32);  // no endless recursion
    REQUIRE(raw(swap.desired.group) != 0);
    REQUIRE(std::find(swap.desired.in_sync.begin(), swap.desired.in_sync.end(), swap.desired.owner) ==
            swap.desired.in_sync.end());
    const auto known = store.find(swap.desired.group);
    group_record there;
    there.group = swap.desired.group;
    if (known != store.end()) there = known->second;
    if (store_down) {  // it can neither be written nor read
      group_record none;
      none.group = swap.desired.group;
      run(table->on_swapped(false, none, now));
      return;
    }
    if (there.revision != swap.expected) {
      run(table->on_swapped(false, there, now));
      return;
    }
    if (there.owner != swap.desired.owner) REQUIRE(swap.new_epoch);
    group_record written = swap.desired;
    written.revision = ++revision;
    if (swap.new_epoch)
      written.epoch = epoch{revision};
    else
      REQUIRE(written.epoch == there.epoch);
    store[written.group] = written;
    if (store_lies) {  // it has written, says that it failed, and cannot be read
      group_record none;
      none.group = swap.desired.group;
      run(table->on_swapped(false, none, now));
      return;
    }
    run(table->on_swapped(true, written, now));
  }

  /// Carries out what was held back, in order.
  void release() {
    held_back = false;
    while (!waiting.empty()) {
      const swap_record swap = waiting.front();
      waiting.pop_front();
      carry_out(swap);
    }
  }

  /// Somebody else writes.
  void meddle(group_id group, const process_id& owner) {
    group_record& it = store[group];
    it.group = group;
    it.owner = owner;
    it.revision = ++revision;
    it.epoch = epoch{revision};
  }

  // --- questions
  // ------------------------------------------------------------------------------------------------------

  const group_record& group(std::uint64_t number) const { return store.at(group_id{number}); }

  std::vector<group_id> owned_by(const process_id& who) const {
    std::vector<group_id> out;
    for (const auto& [id, record] : store)
      if (record.owner == who) out.push_back(id);
    return out;
  }

  bool alive(const std::string& name) const {
    for (const node_view& node : table->view().nodes)
      if (node.node.name == name) return node.alive;
    return false;
  }

  /// The table and the store tell the same.
  void check_settled() const {
    const cluster_view view = table->view();
    REQUIRE(view.groups.size() == store.size());
    for (const group_record& record : view.groups)
      CHECK(record == store.at(record.group));
  }

  struct nesting {
    explicit nesting(int& it) : depth(++it) {}
    ~nesting() { --depth; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    int& depth;
  };

  time_point now{1h};
  std::optional<cluster_table> table;
  std::map<group_id, group_record> store;
  std::map<std::string, process_id> beating;
  std::map<std::string, std::vector<group_status>> statuses;  // what each reports when it beats
  std::map<change_ticket, in_sync_reply> replies;
  std::deque<swap_record> waiting;
  bool held_back = false;
  bool store_down = false, store_lies = false;
  std::uint64_t revision = 0, sequence = 0;
  change_ticket tickets = 0;
  int swaps = 0, published = 0, depth = 0;
};

/// a owns group 1 with b and c in sync, b owns 2, c owns 3.
inline cluster_world three_nodes() {
  cluster_world world;
  world.node("a");
  world.node("b");
  world.node("c");
  world.add(group_id{1}, "b");
  world.add(group_id{1}, "c");
  return world;
}

}  // namespace baton::test
