#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "schemas/ids.hpp"

/// A whole cluster in one thread, under simulated time and seeded faults.
namespace baton::apps::sim {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using time_point = std::chrono::steady_clock::time_point;

/// How chance is settled.
enum class luck : std::uint8_t {
  drawn,  ///< by the seed
  even    ///< every number is the middle of its range, and only what is certain happens
};

/// All randomness of a run: the seed decides everything.
class dice {
 public:
  explicit dice(std::uint64_t seed, luck how = luck::drawn) : engine_(seed), even_(how == luck::even) {}

  /// Uniform in [low, high].
  template <class Number>
  Number between(Number low, Number high) {
    if (even_) return static_cast<Number>(low + (high - low) / 2);
    return static_cast<Number>(std::uniform_int_distribution<std::int64_t>(
        static_cast<std::int64_t>(low), static_cast<std::int64_t>(high))(engine_));
  }
  nanoseconds time(nanoseconds low, nanoseconds high) {
    return nanoseconds{between(low.count(), high.count())};
  }
  bool chance(double probability) {
    return even_ ? probability >= 1 : std::uniform_real_distribution<>(0, 1)(engine_) < probability;
  }
  double real(double low, double high) {
    return even_ ? (low + high) / 2 : std::uniform_real_distribution<>(low, high)(engine_);
  }
  template <class List>
  auto& pick(List& list) {
    return list[between<std::size_t>(0, list.size() - 1)];
  }
  /// Any number; drawn in either case.
  std::uint64_t number() { return engine_(); }

 private:
  std::mt19937_64 engine_;
  bool even_;
};

/// Simulated time: what is due next runs next; of two at the same instant, the one that was asked for first.
class scheduler {
 public:
  [[nodiscard]] nanoseconds now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return done_; }
  void at(nanoseconds when, std::function<void()> what);
  void after(nanoseconds delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  /// Runs what is due next. False if nothing ever is.
  bool step();

 private:
  struct event {
    nanoseconds when{};
    std::uint64_t number = 0;
    std::function<void()> what;
  };
  static bool later(const event& a, const event& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  nanoseconds now_{};
  std::uint64_t asked_ = 0;
  std::uint64_t done_ = 0;
  std::vector<event> heap_;
};

/// A simulated process: a clock of its own that may drift and jump, and may be stopped like by SIGSTOP. What
/// becomes due meanwhile runs, in order, when it goes on. Once dead, nothing of it runs any more.
class host : public std::enable_shared_from_this<host> {
 public:
  /// `rate`: how fast its clock runs, 1 is true.
  host(scheduler& time, process_id self, double rate, nanoseconds offset)
      : time_(time), self_(std::move(self)), rate_(rate), offset_(offset) {}

  [[nodiscard]] const process_id& self() const noexcept { return self_; }
  [[nodiscard]] time_point now() const;
  [[nodiscard]] scheduler& time() const noexcept { return time_; }
  [[nodiscard]] bool alive() const noexcept { return alive_; }
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

  /// Now if it runs, later if it is stopped, never if it is dead.
  void run(std::function<void()> what);
  /// After a delay on its own clock.
  void after(nanoseconds delay, std::function<void()> what);
  /// Again and again, as long as it lives.
  void every(nanoseconds period, const std::function<void()>& what);

  void stop() noexcept { stopped_ = true; }
  void go_on();
  void die() noexcept;
  /// Its clock jumps forward: CLOCK_MONOTONIC never goes back.
  void jump(nanoseconds by) noexcept { offset_ += by; }

 private:
  scheduler& time_;
  process_id self_;
  double rate_;
  nanoseconds offset_;
  bool alive_ = true;
  bool stopped_ = false;
  std::vector<std::function<void()>> backlog_;
};

/// The inbox of an actor: what is posted runs in order, each a random moment later.
class mailbox {
 public:
  mailbox(std::shared_ptr<host> of, dice& random) : host_(std::move(of)), random_(random) {}
  void post(std::function<void()> what);

 private:
  std::shared_ptr<host> host_;
  dice& random_;
  nanoseconds last_{};
};

}  // namespace baton::apps::sim
