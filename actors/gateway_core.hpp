#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/completion_service.hpp"
#include "actors/engines/tokenizer.hpp"
#include "actors/gateway_archive.hpp"
#include "actors/gateway_routes.hpp"
#include "actors/gateway_sessions.hpp"
#include "actors/gateway_turn.hpp"
#include "actors/kept_answers.hpp"
#include "schemas/control.hpp"
#include "schemas/limits.hpp"

namespace baton::actors {

// --- effects -----------------------------------------------------------------------------------------------

/// Send the request; report the answer, or its absence, by `on_open_reply`.
struct ask_owner {
  std::uint64_t ticket = 0;
  process_id owner;
  open_turn request;
};
/// Send it, if the owner can be reached now; there is no answer.
struct tell_owner {
  process_id owner;
  end_turn what;
};
/// For the log: a turn has ended with an error.
struct note_failed {
  session_id session{};
  errc code = errc::engine_failed;
};
/// For the log: what an owner sent contradicts what was released. The turn's `note_failed` follows.
struct note_diverged {
  session_id session{};
  baton::epoch epoch{};
};
/// Tell the orchestrator which nodes cannot be reached: register again, with `gateway_core::unreachable`.
struct report_unreachable {};
using gateway_effect = std::variant<ask_owner, tell_owner, note_failed, note_diverged, report_unreachable,
                                    recall_conversation, keep_conversation>;
using gateway_effects = std::vector<gateway_effect>;

/// The gateway without its actor: finds or makes the session of a request, opens the turn at its owner,
/// judges what owners send (docs/protocol.md section O), and is sealed by each new owner. With an archive
/// conversations are kept there after each turn, and recalled from it when they go on. Free of CAF, of clocks
/// and of logs; not thread-safe. Events of turns are delivered from within the calls: a receiver must not
/// call back.
class gateway_core {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    process_id self;
    std::chrono::milliseconds lease = limits::lease;  ///< a turn that nobody serves fails after three
    std::uint64_t seed = 0;                           ///< of the ids of sessions
    /// A turn fails when so many nodes have died of it (`poison_watch`), and its prompt is remembered for
    /// `poison_remembered`: it is refused while any node is missing, may kill one more when all are back, and
    /// is refused from then on; 0: never.
    std::uint32_t poison_after = 2;
    std::chrono::milliseconds poison_remembered{600'000};
    kept_answers::options answers{};
    bool archive = false;  ///< there is an object store: `recall_conversation` and `keep_conversation` go out
  };

  struct counters {
    std::uint64_t turns = 0, refused = 0, finished = 0, failed = 0, cancelled = 0, tokens = 0, duplicates = 0,
                  stale = 0, diverged = 0, seals = 0, reopened = 0, poisoned = 0, attached = 0, kept = 0,
                  recalled = 0;
  };

  gateway_core(options how, std::shared_ptr<const engines::tokenizer> text);

  // From clients.
  gateway_effects on_submit(turn_handle handle, const completion_request& request,
                            completion_service::receiver events, time_point now);
  gateway_effects on_cancel(turn_handle handle, time_point now);

  // From the archive.
  /// `found`: nothing if there is nothing, or it cannot be read. What comes too late is ignored.
  gateway_effects on_recalled(std::uint64_t ticket, const std::optional<archived_conversation>& found,
                              time_point now);

  // From owners.
  gateway_effects on_open_reply(std::uint64_t ticket, const result<open_turn_reply>& reply, time_point now);
  gateway_effects on_tokens(const turn_tokens& tokens, time_point now);
  gateway_effects on_failure(const turn_failure& failure, time_point now);
  seal_reply on_seal(const seal& order, time_point now);

  // The cluster.
  /// Ignored if it is older than the one known.
  void on_view(cluster_view view, time_point now);
  /// The node has taken our hello: turns may be opened there, until it is lost or leaves the view.
  void on_node_known(const process_id& node) { routes_.on_node_known(node); }
  void on_node_lost(const process_id& node, time_point now);
  /// Turns that nobody serves are asked for again, or fail.
  gateway_effects on_tick(time_point now);

  /// The newest view, with what seals have said since.
  [[nodiscard]] const cluster_view& view() const noexcept { return routes_.view(); }
  /// A node can take a turn.
  [[nodiscard]] bool ready() const;
  [[nodiscard]] bool reaches(const process_id& node) const { return routes_.known(node); }
  /// Nodes that the orchestrator calls alive and that have not been reached for a lease.
  [[nodiscard]] const std::vector<process_id>& unreachable() const noexcept { return unreachable_; }
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }
  [[nodiscard]] std::size_t open_turns() const noexcept { return turns_.size(); }
  [[nodiscard]] std::size_t sessions() const noexcept { return sessions_.size(); }
  /// Requests that wait for the archive.
  [[nodiscard]] std::size_t recalling() const noexcept { return archive_.waiting(); }
  /// Tokens of the group under a lower epoch are refused.
  [[nodiscard]] epoch sealed(group_id group) const;
  /// By the client's name; nullptr if there is none.
  [[nodiscard]] const gateway_session* find_session(const std::string& name) const {
    return sessions_.find(name);
  }

 private:
  /// An open_turn under way.
  struct question {
    session_id session{};
    turn_handle handle{};
    epoch asked{};
  };

  gateway_effects run(turn_handle handle, const completion_request& request,
                      completion_service::receiver events, time_point now);
  /// Finds or makes the request's session, and begins its turn there.
  void place(turn_handle handle, const completion_request& request, completion_service::receiver events,
             time_point now, gateway_effects& effects);
  /// Makes the session that the request continues, if what was found is that and the node that would serve it
  /// can go on with it.
  void revive(const archived_conversation& found, const completion_request& request, time_point now);
  void cancel(turn_handle handle, time_point now, gateway_effects& effects);
  /// Begins the turn in the session's log.
  result<turn_header> open(const completion_request& request, gateway_session& session,
                           const placed_prompt& placed) const;
  void begin(std::unique_ptr<gateway_turn> turn, const turn_header& header, time_point now,
             gateway_effects& effects);
  void refuse(const completion_service::receiver& events, const error& why);
  /// Asks the owner of the turn's group to run it, given the part of its history that the owner is thought to
  /// lack.
  void ask(gateway_turn& turn, session_piece piece, time_point now, gateway_effects& effects);
  static bool may_pass(const error& refusal, gateway_turn& turn);
  void go_elsewhere(gateway_turn& turn) const;
  void note_deaths(time_point now);
  [[nodiscard]] bool is_poisoned(const gateway_turn& turn) const;
  [[nodiscard]] const gateway_turn* suspect_at(const process_id& node, const gateway_turn& turn) const;
  [[nodiscard]] bool waits_for_a_suspect(gateway_turn& turn, time_point now) const;
  [[nodiscard]] bool is_held_back(const gateway_turn& turn, const process_id& owner) const;
  [[nodiscard]] bool is_refused_as_poison(gateway_turn& turn, time_point now);
  void note_progress(gateway_turn& turn);
  void fail_poisoned(gateway_turn& turn, time_point now, gateway_effects& effects);
  void tell_of_end(const gateway_turn& turn, position keep, gateway_effects& effects) const;
  void on_reply(gateway_turn& turn, const open_turn_reply& reply, epoch asked, time_point now,
                gateway_effects& effects);
  void fail(gateway_turn& turn, const error& why, time_point now, gateway_effects& effects);
  void finish(gateway_turn& turn, const turn_tokens& tokens, time_point now, gateway_effects& effects);
  void end(gateway_turn& turn, position keep, time_point now);

  options how_;
  std::shared_ptr<const engines::tokenizer> text_;
  std::vector<token_id> end_tokens_;
  counters counters_;

  kept_answers answers_;
  gateway_sessions sessions_;
  gateway_archive archive_;
  std::map<session_id, std::unique_ptr<gateway_turn>> turns_;
  std::map<turn_handle, session_id> handles_;
  std::map<std::uint64_t, question> questions_;
  std::uint64_t next_ticket_ = 1;

  gateway_routes routes_;
  std::vector<process_id> unreachable_;
  std::map<group_id, epoch> sealed_;
  protocol::poison_list poison_;
};

}  // namespace baton::actors
