#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/sim/answer.hpp"

namespace baton::apps::sim {

/// Someone who has a conversation: turn after turn, sometimes cancelled, sometimes with an edited history,
/// and who checks every word against an engine that nothing ever happened to.
class client : public std::enable_shared_from_this<client> {
 public:
  struct figures {
    std::uint64_t turns = 0, finished = 0, failed = 0, cancelled = 0, broken = 0, tokens = 0, failovers = 0;
  };

  /// `reach`: the gateway as it runs now, or nothing.
  client(world& in, std::string name, std::function<std::shared_ptr<gateway>()> reach);

  /// Begins its conversation. Goes on with turns until told to finish.
  void start();
  /// One more whole turn, then rest.
  void finish() { last_turns_ = 2; }
  [[nodiscard]] bool done() const noexcept { return last_turns_ == 0 && !open_; }
  [[nodiscard]] bool open() const noexcept { return open_; }
  [[nodiscard]] const std::string& session() const noexcept { return session_; }
  [[nodiscard]] const figures& counted() const noexcept { return counted_; }
  [[nodiscard]] std::string describe() const;
  /// That gateway is gone, with all that was open on it.
  void lose(const std::shared_ptr<gateway>& gone);

 private:
  void begin_turn();
  void ask(actors::completion_request request);
  void on_event(std::uint64_t turn, const actors::turn_event& event);
  void on_text(const actors::turn_text& text);
  void end_turn(bool whole);
  void rest();
  std::string words(std::size_t length);

  world& in_;
  std::string name_;
  std::function<std::shared_ptr<gateway>()> reach_;
  oracle oracle_;
  answer answer_;
  figures counted_;
  std::uint64_t conversation_ = 0;
  std::string session_;
  std::string history_;  // as this client knows it
  std::optional<std::uint64_t> last_turns_;

  // The turn.
  bool open_ = false;
  std::uint64_t turn_ = 0;
  actors::turn_handle handle_{};
  std::weak_ptr<gateway> at_;
  std::optional<std::size_t> cancel_after_;
};

}  // namespace baton::apps::sim
