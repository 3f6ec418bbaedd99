#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/sim/answer.hpp"
#include "apps/sim/cluster.hpp"
#include "apps/sim/scripts/postman.hpp"
#include "apps/sim/scripts/wording.hpp"

namespace baton::apps::sim::scripts {

/// Effects that a trace shows besides messages: swaps in the store, and what clients see.
const std::vector<std::string_view>& effect_kinds();

/// A cluster to which only that happens which a script says, and its clients. All checkers of the simulation
/// watch; what they find is in `world::fault`.
class stage {
 public:
  /// What a client has of a turn.
  struct turn {
    enum class state : std::uint8_t { open, finished, failed, cancelled, lost };
    turn(world& in, const std::string& name) : given(in, name) {}

    answer given;
    state now = state::open;
    bool started = false;
    actors::turn_handle handle{};
    std::weak_ptr<gateway> at;
    [[nodiscard]] std::size_t tokens() const;  ///< released to the client
  };

  /// A message to wait for; an empty name is anybody.
  struct pattern {
    std::string kind, from, to;
  };

  /// `without`: a rule to leave out, so that a checker must notice. `print` takes each line of the trace.
  /// Starts all processes.
  stage(settings how, left_out without, std::function<void(const std::string&)> print);

  [[nodiscard]] world& in() noexcept { return in_; }
  [[nodiscard]] cluster& all() noexcept { return all_; }
  [[nodiscard]] postman& post() noexcept { return post_; }
  [[nodiscard]] const std::string& fault() const noexcept { return in_.fault; }

  void start(cluster::member& who);
  /// Opens a turn whose request names its session; its `prompt_text` follows the first `keep` bytes of what
  /// the client has of that session. `invalid_argument` if the name is taken, `unavailable` if the gateway is
  /// not there.
  result<void> open(const std::string& name, const std::string& gateway, actors::completion_request request,
                    std::size_t keep);
  /// The client of an open turn leaves. There must be a turn of that name.
  void cancel(const std::string& name);
  /// nullptr if there is none of that name.
  [[nodiscard]] turn* find(const std::string& name);

  /// Time goes on. False if `met` has not become true within `most`, or a checker has found something.
  bool run(nanoseconds most, const std::function<bool()>& met);
  /// Until such a message has been received.
  bool run(nanoseconds most, const pattern& wanted);
  void run_for(nanoseconds time);
  /// Every in-sync set holds every node that runs, and every gateway knows of it.
  [[nodiscard]] bool whole();
  /// Every standby that runs holds the whole log of every session, and as many rows as the owner.
  [[nodiscard]] bool synced();

  /// What is shown, by kinds of messages and effects.
  std::set<std::string, std::less<>> shown;
  std::string shown_from;  ///< of messages only those that this process has sent; empty: all
  bool times = false;      ///< each line begins with the simulated time, in milliseconds

  /// Who owns and holds what, and what each client has been given.
  [[nodiscard]] std::vector<std::string> state();
  /// What a node has refused, or a gateway counted; nothing that is zero.
  [[nodiscard]] std::string counters(const cluster::member& who) const;

 private:
  void show(std::string_view kind, const std::string& line);
  void on_message(const std::string& from, const std::string& to, const any_message& what,
                  std::string_view done);
  void on_event(const std::string& name, const actors::turn_event& event);
  void on_end(const std::string& name, turn::state how);
  [[nodiscard]] std::vector<std::string> sessions() const;
  [[nodiscard]] std::optional<std::string> session_name(session_id which);
  [[nodiscard]] const actors::gateway_session* session_of(const std::string& name);

  std::function<void(const std::string&)> print_;
  world in_;
  cluster all_;
  wording wording_;
  postman post_;
  oracle oracle_;
  std::map<std::string, turn> turns_;
  std::vector<std::string> order_;                // of turns, as they were opened
  std::map<std::string, std::string> histories_;  // of sessions, as their clients know them
  std::map<session_id, std::string> names_;
  std::optional<pattern> wanted_;
};

}  // namespace baton::apps::sim::scripts
