#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/completion_service.hpp"

namespace baton::actors {

/// The answers of requests that carry an idempotency key: who sends one again, because a connection broke or
/// an answer took too long, gets what there is of the first one's answer, and the rest as it comes. An answer
/// whose readers have all left goes on for a while; one that failed is forgotten at once, for to try again is
/// what a key is for. Pure; not thread-safe. Events are delivered from within the calls: a receiver must not
/// call back.
class kept_answers {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::chrono::seconds detached_for{30};      ///< without a reader a turn is cancelled after this
    std::chrono::seconds kept_for{600};         ///< from the end of an answer on
    std::size_t bytes = std::size_t{64} << 20;  ///< of all ended answers together; the oldest go first
  };

  explicit kept_answers(options how) : how_(how) {}

  enum class verdict : std::uint8_t {
    fresh,     ///< run it as turn `reader`, with `recorder(key)` for its receiver
    attached,  ///< `events` has been given all there is, and gets the rest
    conflict   ///< that key is another request's
  };
  verdict ask(const std::string& key, std::uint64_t request_hash, turn_handle reader,
              completion_service::receiver events, time_point now);

  /// Takes the events of the turn that is behind the key. Must not be called after this object is gone.
  [[nodiscard]] completion_service::receiver recorder(const std::string& key);

  /// The reader wants no more. False if it is none of these; otherwise the turn goes on.
  bool leave(turn_handle reader, time_point now);

  /// Forgets what is due; turns that nobody has come back for are to be cancelled.
  [[nodiscard]] std::vector<turn_handle> on_tick(time_point now);

  [[nodiscard]] std::size_t size() const noexcept { return by_key_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct answer {
    std::string key;
    std::uint64_t request_hash = 0;
    turn_handle turn{};
    std::vector<turn_event> events;  // as one reader would be told now: at most one of each kind
    std::map<turn_handle, completion_service::receiver> readers;
    bool ended = false;
    time_point since{};  // it has no reader, or it has ended
    std::size_t bytes = 0;
  };
  using answer_ptr = std::shared_ptr<answer>;

  void record(const answer_ptr& to, const turn_event& event);
  void forget(const answer_ptr& which);

  options how_;
  time_point now_{};
  std::unordered_map<std::string, answer_ptr> by_key_;
  std::map<turn_handle, answer_ptr> readers_;
  std::vector<answer_ptr> detached_;
  std::deque<answer_ptr> ended_;  // by time
  std::size_t bytes_ = 0;         // of those
};

}  // namespace baton::actors
