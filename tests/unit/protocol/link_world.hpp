#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "actors/protocol/evaluation_plan.hpp"
#include "actors/protocol/link_sender.hpp"
#include "actors/protocol/replica_set.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {

/// Of toy rows, as packed.
std::uint64_t checksum_of(const std::vector<std::uint64_t>& content);

namespace protocol = actors::protocol;

/// What a simulated run does wrong on purpose, to show that the checkers see it.
struct mutations {
  bool trust_progress_by_index = false;  ///< the owner does not ask whether an acknowledged chain is its own
  bool skip_chain_check = false;         ///< both sides go by positions alone
  bool skip_epoch_check = false;         ///< a replaced owner's frames count as the present one's
  bool keep_old_connections = false;     ///< late frames count as of the newest connection
  bool send_stale_exports = false;       ///< rows exported before a cut are sent after it
  bool skip_checksum = false;            ///< corrupt rows are imported
  bool forget_batch_shapes = false;      ///< standbys do not know how prompts are evaluated
  bool lose_ticks = false;               ///< nobody looks at the clock
};

struct world_options {
  std::uint64_t seed = 1;
  std::uint32_t steps = 1500;
  mutations wrong{};
};

/// Three nodes that own groups and stand by for each other, their engines, and the connections between them,
/// in one thread. Production `link_sender`s and `replica_set`s; an owner that does what `primary_table` and
/// the actors around it do. A row is a hash of the history up to its token and of the batch it was made in,
/// so that a wrong row shows.
class link_world {
 public:
  struct figures {
    std::uint64_t frames = 0, deltas = 0, late_frames = 0, disconnects = 0, owner_changes = 0,
                  corrupt_rows = 0;
    std::uint64_t no_staging = 0, cuts = 0, stalls = 0, fenced = 0, superseded = 0, dropped_sessions = 0;
    std::uint64_t healing_steps = 0, stale_exports = 0;

    void add(const figures& other);
  };

  explicit link_world(const world_options& how);

  /// Runs with faults, then heals. Nothing if every checker was content.
  std::optional<std::string> run();

  [[nodiscard]] const figures& counted() const { return figures_; }

 private:
  static constexpr std::size_t node_count = 3;
  static constexpr std::uint32_t chunk = 4;
  static constexpr std::size_t window = 3;
  static constexpr std::uint32_t delta_tokens = 5;
  static constexpr position context = 120;

  using row = std::uint64_t;

  struct delta_message {
    delta_descriptor rows;
    std::vector<row> content;
    std::uint64_t changes = 0;  ///< of the session's past, when it was sent
  };
  using forward_item = std::variant<link_frame, delta_message>;

  /// One way from a node to another; made anew at each reconnect.
  struct connection {
    std::uint64_t id = 0;  // grows; what the standby sees
    std::deque<forward_item> forward;
    std::deque<replica_ack> back;
    std::deque<delta_message> landing;  // admitted
  };
  struct late_item {
    std::size_t to = 0;
    std::uint64_t id = 0;
    forward_item item;
    bool landing = false;
  };
  struct link {
    protocol::link_sender sender;
    std::optional<connection> wire;
    std::deque<std::pair<session_id, protocol::standby_progress>> progress;  // on its way to the owner
  };
  struct unpack_item {
    protocol::import_rows rows;
    std::vector<row> content;
  };
  struct cut_item {
    session_id session{};
    position rows = 0;
  };
  struct drop_item {
    session_id session{};
  };
  using engine_item = std::variant<unpack_item, cut_item, drop_item>;

  struct owned_session {
    group_id group{};
    baton::epoch epoch{};
    session_log log;
    position exported = 0;
    std::uint64_t generation = 0;
    std::uint64_t cuts = 0;
    std::uint64_t changes = 0;
    /// What each standby has acknowledged of the present history, as the owner counts it.
    std::map<std::size_t, history_point> acknowledged{};
  };
  struct export_item {
    protocol::packed_rows rows;
    std::vector<row> content;
    std::optional<std::size_t> for_link;
  };
  struct wanted_item {
    std::size_t link = 0;
    protocol::want_rows rows;
  };
  struct node {
    protocol::replica_set replicas;
    std::map<std::size_t, link> links;
    std::map<session_id, std::vector<row>> engine;
    std::deque<unpack_item> unpacking;
    std::deque<engine_item> engine_queue;
    std::map<session_id, owned_session> owned;
    std::map<group_id, baton::epoch> owns;
    std::deque<export_item> exports;
    std::deque<wanted_item> wanted;
    /// Epoch of the last frame that the standby side has taken of a session.
    std::map<session_id, baton::epoch> taken_under;
  };

  // Owners.
  void owner_acts();
  void begin_session(std::size_t at, group_id group);
  void evaluate(std::size_t at, owned_session& session);
  void open_turn(std::size_t at, owned_session& session);
  void end_turn(std::size_t at, owned_session& session);
  void evaluate_again(std::size_t at, owned_session& session);
  void drop_session(std::size_t at, session_id session);
  void append(std::size_t at, owned_session& session, const std::vector<token_id>& tokens);
  void say(std::size_t at, owned_session& session, session_record record);
  void cut_engine(std::size_t at, owned_session& session, position rows);
  void export_fresh(std::size_t at, owned_session& session, bool all);
  void export_range(std::size_t at, owned_session& session, position first, position count,
                    std::optional<std::size_t> for_link);
  void export_moves(std::size_t at);
  void want_moves(std::size_t at);
  void change_owner();
  void promote(std::size_t at, group_id group, baton::epoch epoch);
  void demote(std::size_t at, group_id group);
  void demote_replaced();

  // Links.
  link& link_between(std::size_t from, std::size_t to) { return nodes_[from].links.at(to); }
  void connect(std::size_t from, std::size_t to);
  void disconnect(std::size_t from, std::size_t to);
  void carry_out(std::size_t from, std::size_t to, const protocol::link_effects& effects,
                 const std::vector<row>* content = nullptr);
  void sends(std::size_t from, std::size_t to, forward_item item);
  void deliver(std::size_t from, std::size_t to);
  void deliver_late();
  void acknowledge(std::size_t from, std::size_t to);
  void progress(std::size_t from, std::size_t to);
  void tick();

  // Standbys.
  void receive(std::size_t at, std::uint64_t by, const forward_item& item);
  void receive_frame(std::size_t at, std::uint64_t by, const link_frame& sent);
  void receive_delta(std::size_t at, std::uint64_t by, const delta_message& delta);
  void land(std::size_t from, std::size_t to);
  void landing_done(std::size_t at, std::uint64_t by, const delta_message& delta, bool success);
  void apply(std::size_t at, const protocol::replica_effects& effects,
             const std::vector<row>* content = nullptr);
  void unpack(std::size_t at);
  void engine_moves(std::size_t at);
  void import(std::size_t at, const unpack_item& item);

  // Faults.
  void fault();
  void mutate(std::size_t at, std::uint64_t& by, session_records& records);
  void mutate(std::size_t at, std::uint64_t& by, resync_frame& frame);

  // Time.
  bool moves();
  void step();
  void heal();
  [[nodiscard]] bool quiet() const;

  // Checkers.
  void check_node(std::size_t at);
  void check_rows(std::size_t at, const session_log& log, position rows, const char* where);
  void check_acknowledged(std::size_t at);
  void check_windows();
  void check_converged();
  void wrong(const std::string& what);
  [[nodiscard]] static row right_row(const session_log& log, position at);
  [[nodiscard]] bool owned_now(std::size_t at, group_id group) const;

  void remember(baton::epoch epoch, const session_log& log);

  world_options how_;
  dice random_;
  figures figures_;
  std::optional<std::string> wrong_;
  std::vector<node> nodes_;
  std::map<group_id, std::pair<std::size_t, baton::epoch>> owners_;   // as the store has it
  std::map<baton::epoch, std::unordered_set<chain_hash>> histories_;  // all that an owner ever had, by epoch
  std::deque<late_item> late_;
  std::uint64_t next_epoch_ = 1;
  std::uint64_t next_connection_ = 1;
  std::uint64_t next_generation_ = 1;
  std::uint64_t next_session_ = 1;
  std::uint64_t clock_ = 0;
  bool faulty_ = true;
  std::uint32_t fault_percent_ = 0;
  protocol::time_point now_{};
};

}  // namespace baton::test
