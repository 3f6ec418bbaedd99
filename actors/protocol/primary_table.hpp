#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "actors/protocol/commit_rule.hpp"
#include "actors/protocol/engine_places.hpp"
#include "actors/protocol/evaluation_plan.hpp"
#include "actors/protocol/link_sender.hpp"
#include "actors/protocol/replica_set.hpp"
#include "actors/protocol/session_log.hpp"
#include "schemas/control.hpp"

namespace baton::actors::protocol {

/// Names an open request between this object and whoever holds its reply.
using request_ticket = std::uint64_t;

/// Counts the runs of sessions, so that what an engine says of an older run is ignored.
using run_number = std::uint64_t;

// --- effects -----------------------------------------------------------------------------------------------

/// Take the replicas of the group from this node's standby side and report them by `on_replicas`.
struct take_replicas {
  group_id group{};
  baton::epoch epoch{};
};
/// This node owns the group no more: hand the sessions back to its standby side.
struct return_replicas {
  group_id group{};
  std::vector<held_replica> sessions;
};
struct seal_gateway {
  process_id gateway;
  seal order;
};
struct reply_open {
  request_ticket to = 0;
  open_turn_reply reply;
};
struct emit_tokens {
  process_id gateway;
  turn_tokens tokens;
};
struct emit_failure {
  process_id gateway;
  turn_failure failure;
};
struct ask_in_sync {
  in_sync_change change;
};
/// The group comes to rest, to move to `change.to`; report the answer by `on_hand_over_reply`.
struct ask_hand_over {
  hand_over change;
};
/// Tell the standby, behind all that has been said to it, that it owns the group under this epoch.
struct appoint {
  std::string standby;
  appointment_frame what;
};
/// A session begins to be replicated to these standbys (or begins anew under this epoch).
struct begin_replication {
  group_id group{};
  baton::epoch epoch{};
  session_log log;
  position rows = 0;
  std::uint64_t cuts = 0;             ///< truncate records so far, see `standby_progress`
  std::vector<std::string> standbys;  ///< empty: all that are linked
};
/// The same towards this node's archive, which is told of all that concerns all links.
struct begin_archiving {
  begin_replication what;
};
struct replicate_records {
  std::vector<session_records> step;
};
struct end_replication {
  session_id session{};
  bool drop = false;
  std::vector<std::string> standbys;  ///< empty: all that are linked
};
/// The engine holds rows [0, rows) of the session from now on: cut it there. Rows that it exports from then
/// on carry `generation`; those of an older one are of a history that is no more.
struct cut_engine {
  session_id session{};
  position rows = 0;
  std::uint64_t generation = 0;
};
/// The engine has nothing of the session, and an archive may have rows of this history under session `from`:
/// bring them in as long as `exports_current` under `generation`, then report by `on_restored`, always.
struct restore_rows {
  session_id session{};
  session_id from{};
  std::uint64_t generation = 0;
  session_log log;
};
/// Evaluate what the log has and the engine lacks, then generate. `turns` and `tokens` are the whole log.
struct run_engine {
  session_id session{};
  run_number run = 0;
  std::vector<token_id> tokens;
  std::vector<turn_header> turns;
  position rows = 0;     ///< the engine's rows when the run begins
  position allowed = 0;  ///< the log may grow to this length before `allow_engine` says more
};
struct allow_engine {
  session_id session{};
  run_number run = 0;
  position allowed = 0;
};
struct stop_engine {
  session_id session{};
  run_number run = 0;
};
/// End the run at the next boundary of a step, with all rows exported; then report it as `paused`.
struct pause_engine {
  session_id session{};
  run_number run = 0;
};
/// Free the session in the engine. Its place is given back after that, unless another session has it already.
struct drop_engine {
  session_id session{};
  bool place_unused = false;
};

using primary_effect =
    std::variant<take_replicas, return_replicas, seal_gateway, reply_open, emit_tokens, emit_failure,
                 ask_in_sync, ask_hand_over, appoint, begin_replication, begin_archiving, replicate_records,
                 end_replication, cut_engine, restore_rows, run_engine, allow_engine, stop_engine,
                 pause_engine, drop_engine>;
using primary_effects = std::vector<primary_effect>;

/// What the engine reports of a run, in order. `token` is set when one has been sampled for position `at`.
struct engine_step {
  session_id session{};
  run_number run = 0;
  position rows = 0;  ///< rows the engine holds now
  bool has_token = false;
  position at = 0;
  token_id token = 0;
  token_report report;
  bool finished = false;        ///< nothing more comes of this run: end token, max_tokens or context
  std::uint64_t evaluated = 0;  ///< tokens evaluated since the run began
  bool paused = false;          ///< the run has ended because it was asked to, see `pause_engine`
};

/// The sessions that one node runs, and the groups it owns: opens turns, ships what the engine generates,
/// releases what is committed, keeps the in-sync set, takes groups over and gives them up (docs/protocol.md
/// sections O, P, I, L5). Pure; not thread-safe.
class primary_table {
 public:
  struct options {
    process_id self;
    std::uint64_t fingerprint = 0;
    std::uint32_t prefill_chunk = 64;
    std::uint32_t context_tokens = 0;
    bool exact = true;         ///< batch shapes are a function of the log
    std::size_t sessions = 0;  ///< begun here at most; idle ones make room, least recently used first
    std::shared_ptr<engine_places> places;  ///< of this node's engine; must be set
    commit_rule commit;
    bool wait_for_standbys = true;  ///< false: no links are configured, nothing ever joins an in-sync set
    bool rows_move = true;          ///< standbys are sent rows; otherwise tokens only
    bool archive = false;           ///< this node has one, to send rows to and to restore them from
    std::chrono::milliseconds pause_at_most{2000};  ///< for a planned move, which is given up then
    std::size_t replicas = 0;                       ///< standbys of each group; 0: all that are linked
    std::chrono::milliseconds replace_after = limits::lease;  ///< a lost standby, if there is another
  };

  struct counters {
    std::uint64_t turns = 0, tokens = 0, released = 0, promotions = 0, demotions = 0, refused = 0,
                  recomputed = 0, restored = 0;
  };

  explicit primary_table(options how) : how_(std::move(how)) {}

  // Ownership.
  primary_effects on_view(const cluster_view& view, time_point now);
  primary_effects on_replicas(group_id group, baton::epoch epoch,
                              std::optional<std::vector<held_replica>> replicas, time_point now);
  primary_effects on_seal_reply(const process_id& gateway, group_id group, baton::epoch epoch,
                                const result<seal_reply>& reply, time_point now);
  primary_effects on_in_sync_reply(group_id group, const result<in_sync_reply>& reply, time_point now);
  primary_effects on_hand_over_reply(group_id group, const result<in_sync_reply>& reply, time_point now);
  /// The former owner of a group says that it is ours now, before a view does.
  primary_effects on_appointed(const appointed& what);
  /// A sink refused us: a higher epoch owns the group.
  primary_effects on_fenced(group_id group, baton::epoch epoch);

  // Turns.
  primary_effects on_open_turn(request_ticket ticket, const open_turn& request, bool lease_valid,
                               time_point now);
  primary_effects on_end_turn(const end_turn& request);
  primary_effects on_gateway_lost(const process_id& gateway);

  // Engine.
  primary_effects on_step(const engine_step& step, bool lease_valid, time_point now);
  primary_effects on_engine_failure(session_id session, run_number run, const error& why);
  /// The engine holds rows [0, rows) of the session, out of an archive. Of an older generation: nothing of it
  /// counts.
  primary_effects on_restored(session_id session, std::uint64_t generation, position rows, bool lease_valid);

  // Links.
  primary_effects on_link_up(const std::string& standby, const process_id& who, time_point now);
  primary_effects on_link_down(const std::string& standby, time_point now);
  primary_effects on_progress(const std::string& standby, const standby_progress& progress, bool lease_valid,
                              time_point now);
  primary_effects on_unprotected(const std::string& standby, session_id session, time_point now);

  /// False if the history was cut since these rows were exported: they must not be sent.
  [[nodiscard]] bool exports_current(session_id session, std::uint64_t generation) const;

  /// Releases what only a lapsed lease held back, and asks again for changes of in-sync sets that got no
  /// answer.
  primary_effects on_tick(bool lease_valid, time_point now);

  [[nodiscard]] std::vector<group_status> statuses() const;
  /// What the engine holds of each session run here: a link that comes up is told, so that idle sessions are
  /// backfilled.
  [[nodiscard]] std::vector<std::pair<session_id, position>> rows_held() const;
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }
  [[nodiscard]] std::size_t sessions() const noexcept { return sessions_.size(); }
  [[nodiscard]] bool owns(group_id group) const { return groups_.contains(group); }
  /// For checkers: the log of a session run here, or nullptr; and the names of the standbys whose
  /// acknowledgement is waited for now, none if the group is not owned.
  [[nodiscard]] const session_log* log_of(session_id session) const;
  [[nodiscard]] std::vector<std::string> waits_for(group_id group) const;
  /// Under which it owns the group here; 0 if it does not.
  [[nodiscard]] baton::epoch epoch_of(group_id group) const;

 private:
  enum class phase : std::uint8_t {
    taking,   ///< waiting for the replicas of this node's standby side
    sealing,  ///< gateways are being sealed; each one's turns resume as it answers
    serving
  };
  struct standby_state {
    bool joining = false;  ///< waited for already, compare-and-swap under way
    bool leaving = false;  ///< still waited for until the compare-and-swap has taken it out
    time_point asked_at{};
    process_id who{};         ///< for whom to join was asked last
    std::uint64_t guard = 0;  ///< revision under which that was asked: a later record is past it
  };
  struct owned_group {
    group_record record;
    phase state = phase::taking;
    std::set<process_id> unsealed;
    std::map<std::string, standby_state> standbys;
    std::set<std::string> chosen;  // its standbys, if not all that are linked
    process_id wanted{};           // where the last view wants it to move; name empty: nowhere
    process_id move_to{};          // where it is about to move
    bool at_rest = false;          // for it: no turn begins, and runs are paused
    time_point rest_since{};
    time_point move_again_at{};  // after one that came to nothing
    bool move_asked = false;
    time_point move_asked_at{};
    std::optional<baton::epoch> given{};  // under which the record names `move_to` the owner already
  };
  struct served {
    group_id group{};
    session_log log;
    position rows = 0;             // in the engine
    position released = 0;         // to the gateway; grows, and falls only with the log
    run_number run = 0;            // 0: none
    std::uint64_t generation = 0;  // of the engine's rows
    std::uint64_t restoring = 0;   // the generation under which an archive is asked for rows; 0: it is not
    std::uint64_t cuts = 0;        // truncate records since the session began to be replicated
    position allowed = 0;
    bool live = false;      // a turn is open towards `gateway`
    bool finished = false;  // the engine has generated the last token of it
    process_id gateway{};
    std::map<position, token_report> reports{};  // of tokens not yet released
    std::uint64_t evaluated = 0;                 // for this turn
    std::uint64_t evaluated_before = 0;          // by earlier runs of it
    std::uint64_t recomputed = 0;
    position cached = 0;                                          // of the prompt
    std::map<std::string, commit_rule::standby_position> held{};  // by standby
    time_point used_at{};
  };
  struct past_log {
    position length = 0;
    std::vector<turn_header> turns;
  };
  struct link {
    process_id who;
    bool up = false;
    time_point lost_at{};
  };

  void demote(owned_group& group, primary_effects& effects);
  void begin_promotion(const group_record& record, primary_effects& effects);
  void update_record(owned_group& group, const group_record& record, primary_effects& effects,
                     time_point now);
  open_turn_reply open(const open_turn& request, time_point now, primary_effects& effects);
  [[nodiscard]] std::optional<open_turn_reply> refusal_of(const open_turn& request) const;
  std::vector<session_record> follow(served& session, const session_piece& history, const past_log& before,
                                     position kept);
  served* place_for(group_id group, const session_piece& history, primary_effects& effects);
  void begin_restoring(served& session, session_id from, primary_effects& effects);
  [[nodiscard]] static bool is_restoring(const served& session) {
    return session.restoring != 0 && session.restoring == session.generation;
  }
  void start_run(served& session, primary_effects& effects);
  void replicate(served& session, baton::epoch epoch, std::vector<session_record> records,
                 primary_effects& effects);
  void cut_engine_to(served& session, position rows, primary_effects& effects);
  [[nodiscard]] turn_tokens message_of(const owned_group& group, const served& session, position upto) const;
  void release(served& session, primary_effects& effects);
  void release_group(group_id group, primary_effects& effects);
  void pause_turn(served& session, primary_effects& effects);
  void stop_turn(served& session, position keep, primary_effects& effects);
  void consider_joining(owned_group& group, const std::string& standby, time_point now,
                        primary_effects& effects);
  void ask(owned_group& group, const process_id& standby, bool add, primary_effects& effects);
  void ask_to_join(owned_group& group, standby_state& state, const process_id& who, time_point now,
                   primary_effects& effects);
  [[nodiscard]] bool is_standby(const owned_group& group, const std::string& name) const;
  [[nodiscard]] static std::uint64_t place_in_order(group_id group, const std::string& name);
  [[nodiscard]] const std::string* next_standby(const owned_group& group) const;
  /// For those that hold every session: the links, if there is no choice among them, and the archive.
  void begin_with_all(begin_replication order, primary_effects& effects) const;
  void begin_with(owned_group& group, const std::string& standby, primary_effects& effects);
  void choose_standbys(owned_group& group, time_point now, primary_effects& effects);
  void want_moves(const cluster_view& view, time_point now, primary_effects& effects);
  [[nodiscard]] bool holds_all(const owned_group& group, position short_by) const;
  void consider_moving(owned_group& group, time_point now, primary_effects& effects);
  void hand_on(owned_group& group, primary_effects& effects);
  [[nodiscard]] bool runs_any(const owned_group& group) const;
  void on_paused(served& session, time_point now, primary_effects& effects);
  void resume(owned_group& group, time_point now, primary_effects& effects);
  void leave(owned_group& group, const std::string& standby, time_point now, primary_effects& effects);
  bool find_place(primary_effects& effects);
  bool evict_idle(bool place_unused, primary_effects& effects);
  [[nodiscard]] std::vector<commit_rule::standby_position> waited_for(const served& session) const;
  [[nodiscard]] std::uint32_t lag_of(const served& session) const;
  static const process_id* find_by_name(const std::vector<process_id>& list, const std::string& name);
  owned_group* find_group(group_id group);
  served* find_session(session_id session);

  options how_;
  counters counters_;
  bool lease_valid_ = false;  // as last heard
  std::map<group_id, owned_group> groups_;
  std::unordered_map<session_id, served> sessions_;
  std::map<std::string, link> links_;
  std::map<group_id, baton::epoch>
      highest_;  // known of groups that were taken from us: a late view gives none of them back
  std::vector<process_id> gateways_;
  std::uint64_t view_term_ = 0;
  std::uint64_t view_version_ = 0;
  run_number next_run_ = 1;
};

}  // namespace baton::actors::protocol
