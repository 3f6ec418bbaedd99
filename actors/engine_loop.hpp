#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/engines/engine.hpp"
#include "actors/messages.hpp"

namespace baton::actors {

/// The batch loop of an engine, without its actor: which session is evaluated next, with which tokens, what
/// is sampled, which rows go out. Single-threaded, like the engine it drives.
class engine_loop {
 public:
  /// Where its reports go.
  struct outlets {
    std::function<void(protocol::engine_step)> step;
    std::function<void(engine_failed)> failed;
    std::function<void(import_done)> imported;
    std::function<void(exported_rows)> exported;
    /// The engine has failed by itself, not for what it was asked: it is not asked again.
    std::function<void(const error&)> broken;
  };

  engine_loop(engines::engine& engine, outlets out) : engine_(engine), out_(std::move(out)) {}

  void run(const protocol::run_engine& order);
  void allow(const protocol::allow_engine& order);
  /// Ends the run with all its rows exported, and reports it as paused.
  void pause(session_id session, protocol::run_number run);
  void stop(session_id session, protocol::run_number run);
  void cut(session_id session, position rows);
  /// The same by order: rows exported from now on carry its generation.
  void cut(const protocol::cut_engine& order);
  void drop(session_id session);
  void import(const import_order& order);
  void export_range(const export_order& order);
  void set_policy(const export_policy& policy) { policy_ = policy; }

  /// One evaluation, if any session has work. False if none has, or the engine is broken.
  bool step();
  [[nodiscard]] bool has_work() const;

 private:
  struct running {
    protocol::run_number run = 0;
    std::vector<token_id> tokens;
    std::vector<turn_header> turns;
    position allowed = 0;
    std::uint64_t evaluated = 0;
    bool finished = false;
  };

  [[nodiscard]] static bool runnable(const running& it);
  /// Tokens of the log that the engine has not evaluated; 1 while it generates.
  [[nodiscard]] position missing(session_id session, const running& it) const;
  [[nodiscard]] std::array<session_id, 2> choose_catching_up() const;
  [[nodiscard]] std::vector<session_id> choose() const;
  engines::evaluation plan(session_id session, const running& it) const;
  void after(session_id session, running& it, std::size_t index, const engines::evaluation& done);
  void fail(session_id session, const error& why);
  void export_fresh(session_id session, bool all);
  bool export_rows(session_id session, position first, std::uint32_t count);

  engines::engine& engine_;
  outlets out_;
  export_policy policy_;
  std::unordered_map<session_id, running> runs_;
  std::deque<session_id> order_;  // round robin
  std::unordered_map<session_id, position> exported_;
  std::unordered_map<session_id, std::uint64_t> generations_;
  bool broken_ = false;
};

}  // namespace baton::actors
