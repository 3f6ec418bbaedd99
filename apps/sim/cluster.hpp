#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/sim/gateway.hpp"
#include "apps/sim/node.hpp"
#include "apps/sim/orchestrator.hpp"

namespace baton::apps::sim {

/// The processes of a simulated deployment, and the checkers that look at all of them: INV3, 4, 6, 7, 9 and
/// places. What happens to the processes, and what clients do, is decided by whoever holds it.
class cluster {
 public:
  /// A process by name: as it runs now, or as it last ran.
  struct member {
    std::string name;
    std::shared_ptr<host> at;
    std::shared_ptr<node> as_node;
    std::shared_ptr<gateway> as_gateway;
    std::shared_ptr<orchestrator> as_orchestrator;
    bool returning = false;  ///< a restart is due
  };

  /// What a cluster asks of whoever holds it.
  struct outlets {
    std::function<std::vector<std::string>()> sessions;  ///< names that clients use now, for checkers
    std::function<void(const std::shared_ptr<gateway>&)> gateway_lost;  ///< with all that was open on it
  };

  /// What dead processes have counted.
  struct figures {
    std::uint64_t failovers = 0, stale = 0, corrupt = 0;
  };

  cluster(world& in, outlets out) : in_(in), out_(std::move(out)) {}
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  /// Names the processes that the settings of the world ask for (nodes a, b, c, gateways edge0, edge1, one
  /// orchestrator). None runs yet.
  void name_members();

  /// A process begins under that name. False if it is dead again: the store refuses the orchestrator.
  bool start(member& who);
  /// SIGKILL; `silent`: its machine has lost power, no connection closes. Nothing if it is dead already.
  void die(member& who, bool silent);
  /// nullptr if nobody has that name.
  [[nodiscard]] member* at(const std::string& name);

  /// Looks at everything now and every 10 ms; blames the world for what is wrong.
  void sweep();

  /// Who owns what, and for each session in use, a line for each gateway that knows it: which nodes hold how
  /// much, as tokens/verified rows/rows in the engine. The owner is marked *, a log that lacks what has been
  /// released !.
  /// Every node that runs is in the in-sync set of every group that it does not own.
  [[nodiscard]] bool sets_are_full() const;
  [[nodiscard]] std::vector<std::string> state() const;

  [[nodiscard]] std::map<std::string, member>& members() noexcept { return members_; }
  [[nodiscard]] const std::vector<std::string>& node_names() const noexcept { return node_names_; }
  [[nodiscard]] const std::vector<std::string>& gateway_names() const noexcept { return gateway_names_; }
  [[nodiscard]] const figures& counted() const noexcept { return counted_; }

 private:
  void on_released(gateway& at, const turn_tokens& tokens, const process_id& from);
  void check_commit(session_id session, const history_point& released, const turn_tokens& tokens);
  void check_member(member& who);
  [[nodiscard]] std::string holders(const actors::gateway_session& session) const;

  world& in_;
  outlets out_;
  std::map<std::string, member> members_;
  std::vector<std::string> node_names_, gateway_names_;
  std::map<std::pair<process_id, group_id>, epoch> seen_;  // highest epoch at a sink
  std::map<session_id, position> released_;
  std::vector<std::shared_ptr<void>> graves_;  // dead processes: frames under way may still refer to them
  figures counted_;
};

}  // namespace baton::apps::sim
