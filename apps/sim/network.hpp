#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/sim/scheduler.hpp"
#include "apps/sim/tap.hpp"

namespace baton::apps::sim {

class network;

/// A TCP-like connection between two processes: frames arrive whole, in order, once. What a cut holds back
/// arrives after it; what a break catches under way is lost, and each side learns of the break in its own
/// time, so one may already have connected anew while the other still reads what was sent before.
class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(network& of, const std::shared_ptr<host>& opener, const std::shared_ptr<host>& listener);

  /// False if this side knows that the connection is gone. `arrives` runs at the other side; `seen` is what a
  /// tap sees of it.
  bool send(int from, std::size_t bytes, std::function<void()> arrives, contents seen = {});
  void on_lost(int side, std::function<void()> handler) { ends_[side].lost = std::move(handler); }
  [[nodiscard]] bool open(int side) const { return !ends_[side].gone; }
  /// This side closes: it knows at once, the other learns of it.
  void close(int side);
  /// A middlebox or a reset ends it for both.
  void reset();

  // From the network.
  void host_died(const host& which, bool silent);
  void release(const std::string& from, const std::string& to);
  void break_stale(const std::string& name);
  /// `deaf` has heard nothing of `mute` for so long that it gives the connection up.
  void give_up(const std::string& deaf, const std::string& mute);
  [[nodiscard]] bool links(const std::string& a, const std::string& b) const {
    return (ends_[0].name == a && ends_[1].name == b) || (ends_[0].name == b && ends_[1].name == a);
  }
  /// Lets go of what waits in it, which may hold this very connection.
  void forget();
  [[nodiscard]] bool dead() const { return ends_[0].gone && ends_[1].gone; }

 private:
  struct frame {
    std::size_t bytes = 0;
    std::function<void()> arrives;
    contents seen;
  };
  struct end {
    std::weak_ptr<host> at;
    std::string name;
    bool gone = false;
    bool losing = false;
    nanoseconds last_arrival{};
    std::deque<frame> held;  // by a cut, on their way to this end
    std::function<void()> lost;
  };

  void carry(int to, frame what);
  void arrive(int to, const frame& what);
  void lose(int side, nanoseconds after);

  network& network_;
  std::array<end, 2> ends_;
};

/// Delays, cuts and the list of who listens where. One direction of a pair of names is a path.
class network {
 public:
  struct path {
    bool cut = false;
    nanoseconds delay{50us};
    nanoseconds jitter{20us};
    double bytes_per_us = 1000;  ///< 1 GB/s
    nanoseconds busy_until{};
    std::uint64_t cuts = 0;  ///< so far
  };

  network(scheduler& time, dice& random) : time_(time), random_(random) {}
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  path& between(const std::string& from, const std::string& to) { return paths_[{from, to}]; }
  void cut(const std::string& from, const std::string& to);
  void heal(const std::string& from, const std::string& to);
  void heal_all();

  void listen(const std::string& address, const std::shared_ptr<host>& who) { listening_[address] = who; }
  [[nodiscard]] std::shared_ptr<host> at(const std::string& address) const;

  /// Connects to whoever listens there when the attempt arrives. One of the two runs at the opener, later.
  void connect(const std::shared_ptr<host>& from, const std::string& address,
               std::function<void(std::shared_ptr<connection>)> up, std::function<void()> failed);

  /// Ends all connections of a process. `silent`: as if its machine lost power; peers hear nothing until
  /// something runs there again.
  void died(const host& which, bool silent);
  /// Something runs under that name again: what peers still send to the one before is answered by a reset.
  void restarted(const std::string& name);
  /// Breaks the connections between two names.
  void reset(const std::string& a, const std::string& b);

  /// From now on it sees every message; nullptr: nobody does. It must outlive the network or be taken away.
  void watch(tap* by) noexcept { tap_ = by; }

  [[nodiscard]] scheduler& time() noexcept { return time_; }
  [[nodiscard]] dice& random() noexcept { return random_; }

 private:
  friend class connection;
  template <class Do>
  void each(Do what);

  scheduler& time_;
  dice& random_;
  tap* tap_ = nullptr;
  std::map<std::pair<std::string, std::string>, path> paths_;
  std::map<std::string, std::weak_ptr<host>> listening_;
  std::vector<std::weak_ptr<connection>> connections_;
  std::vector<std::weak_ptr<connection>> made_;  // all there ever were
};

}  // namespace baton::apps::sim
