#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/completion_service.hpp"

namespace baton::apps::http {

/// The way from the service's threads to the one connection that answers a turn. The service may keep its end
/// as long as it likes, past the life of the connection and of the server: after `close` it is inert.
class turn_inbox {
 public:
  /// Holds at most about `bound_bytes`, or one event. `wake` is called from the pushing thread, under the
  /// lock, when the first event of a batch arrives. It must neither block nor come back here.
  turn_inbox(std::size_t bound_bytes, std::function<void()> wake)
      : bound_bytes_(bound_bytes), wake_(std::move(wake)) {}

  /// Any thread. Past the bound the event is lost, and with it the turn: see `overflowed`.
  void push(const actors::turn_event& event) {
    const std::lock_guard lock(mutex_);
    if (!wake_ || overflowed_) return;
    held_bytes_ += bytes_of(event);
    if (held_bytes_ > bound_bytes_ && !events_.empty()) {
      overflowed_ = true;
      return;
    }
    events_.push_back(event);
    if (events_.size() == 1) wake_();
  }

  /// All events since the last call. Any thread.
  [[nodiscard]] std::vector<actors::turn_event> take() {
    const std::lock_guard lock(mutex_);
    held_bytes_ = 0;
    return std::exchange(events_, {});
  }

  /// True once an event was lost: the reader has not kept up. Any thread.
  [[nodiscard]] bool overflowed() const {
    const std::lock_guard lock(mutex_);
    return overflowed_;
  }

  /// Drops what is there and what will come. When it returns, `wake` is destroyed and never called again. Any
  /// thread.
  void close() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    events_.clear();
  }

 private:
  static std::size_t bytes_of(const actors::turn_event& event) {
    const auto* text = std::get_if<actors::turn_text>(&event);
    if (text == nullptr) return sizeof event;
    std::size_t bytes = sizeof event + text->text.size();
    for (const auto& token : text->tokens)
      bytes += sizeof token +
               token.alternatives.size() * (sizeof(actors::engines::token_logprob) + sizeof(std::string));
    return bytes;
  }

  const std::size_t bound_bytes_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;  ///< empty: closed
  std::vector<actors::turn_event> events_;
  std::size_t held_bytes_ = 0;
  bool overflowed_ = false;
};

}  // namespace baton::apps::http
