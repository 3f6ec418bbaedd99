#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "apps/sim/client.hpp"
#include "apps/sim/cluster.hpp"

namespace baton::apps::sim {

/// What is done to a cluster. Each kind is counted.
enum class fault_kind : std::uint8_t {
  kill_node,
  power_off_node,  ///< no connection closes
  stop_node,       ///< like SIGSTOP, for a while
  kill_orchestrator,
  stop_orchestrator,
  kill_gateway,
  stop_gateway,
  cut,  ///< between two processes
  cut_one_way,
  isolate,    ///< one process from all others
  reset,      ///< the connections between two processes break
  slow_path,  ///< delay and little bandwidth
  clock_jump,
  store_fails,
  store_lies,
  store_lags,
  rows_flipped,
  doubled_messages,
  drain_node,  ///< a planned move of all it owns, while everything else goes on
};
inline constexpr std::size_t fault_kinds = 19;
std::string_view name_of(fault_kind kind) noexcept;

/// What a run came to.
struct outcome {
  std::string violation;  ///< empty: none
  std::uint64_t events = 0;
  std::uint64_t failovers = 0;
  std::uint64_t turns = 0, finished = 0, failed = 0, cancelled = 0, broken = 0, tokens = 0;
  std::uint64_t survived = 0;  ///< changes of owner within turns that finished
  std::array<std::uint64_t, fault_kinds> faults{};
  std::uint64_t flipped_rows = 0, doubled_messages = 0, stale = 0, corrupt = 0;
  double simulated_seconds = 0;

  [[nodiscard]] std::uint64_t all_faults() const noexcept;
  void add(const outcome& other);
};

/// One seeded run: a cluster, its clients, faults for a while, then peace, in which everything must come
/// right.
class simulation {
 public:
  explicit simulation(std::uint64_t seed, left_out without = left_out::nothing, bool traced = false);
  outcome run();

 private:
  using member = cluster::member;

  // The cluster.
  void shape();
  void start(member& who);
  void return_after(member& who, nanoseconds delay);
  void stop_for(member& who, nanoseconds time);

  // Faults.
  void plan_fault();
  void inflict(fault_kind kind);
  void isolate(const std::string& who, nanoseconds time);
  void slow_down(network::path& path, nanoseconds time);
  void heal();

  // What it comes to.
  void explain() const;
  [[nodiscard]] std::string unrest() const;
  bool run_until(nanoseconds until, const std::function<bool()>& met);

  world in_;
  cluster all_;
  std::vector<std::shared_ptr<client>> clients_;
  nanoseconds fault_gap_{};
  bool peace_ = false;
  outcome out_;
};

}  // namespace baton::apps::sim
