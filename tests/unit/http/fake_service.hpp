#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/completion_service.hpp"

namespace baton::apps::http {

/// Every wait of these tests ends here at the latest; none of them is a plain sleep.
inline constexpr std::chrono::seconds patience{20};

class fake_tokenizer final : public actors::engines::tokenizer {
 public:
  [[nodiscard]] const std::string& model_name() const override { return name_; }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return 1000; }
  [[nodiscard]] std::vector<token_id> tokenize(std::string_view, bool) const override { return {}; }
  [[nodiscard]] std::string piece(token_id) const override { return {}; }
  [[nodiscard]] bool ends_generation(token_id) const override { return false; }
  [[nodiscard]] std::vector<token_id> prefix() const override { return {}; }
  result<std::string> render(std::vector<actors::engines::chat_message>, bool) const override {
    return std::string();
  }
  [[nodiscard]] std::string escape(std::string_view) const override { return {}; }

 private:
  std::string name_ = "toy";
};

/// A service whose turns do what the test says, when it says so. Keeps receivers for ever, as a real one may
/// for a while.
class fake_service final : public actors::completion_service {
 public:
  using handle = actors::turn_handle;

  handle submit(actors::completion_request request, receiver events) override {
    std::unique_lock lock(mutex_);
    const handle mine{turns_.size() + 1};
    turns_.push_back({std::move(request), std::move(events)});
    const receiver& to = turns_.back().events;
    const std::vector<actors::turn_event> at_once = scripted_;
    const receiver copy = to;
    changed_.notify_all();
    lock.unlock();
    for (const auto& event : at_once)
      copy(event);
    return mine;
  }

  void cancel(handle which) override {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(raw(which));
    changed_.notify_all();
  }

  [[nodiscard]] const actors::engines::tokenizer& text() const override { return tokenizer_; }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::string status_json() const override { return R"({"nodes":[]})"; }
  [[nodiscard]] std::string metrics_text() const override { return "baton_fake 1\n"; }

  // For the test.

  /// Events that each turn gets from within `submit`.
  void script(std::vector<actors::turn_event> events) {
    const std::lock_guard lock(mutex_);
    scripted_ = std::move(events);
  }

  void set_ready(bool ready) { ready_ = ready; }

  /// Waits for the `number`th turn, counted from 1.
  handle turn(std::size_t number) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return turns_.size() >= number; }))
      throw std::runtime_error("no such turn was submitted");
    return handle{number};
  }

  void emit(handle which, const actors::turn_event& event) {
    std::unique_lock lock(mutex_);
    const receiver to = turns_[raw(which) - 1].events;
    lock.unlock();
    to(event);
  }

  [[nodiscard]] actors::completion_request request(handle which) {
    const std::lock_guard lock(mutex_);
    return turns_[raw(which) - 1].request;
  }

  [[nodiscard]] bool is_cancelled(handle which) {
    const std::lock_guard lock(mutex_);
    return cancelled_.count(raw(which)) > 0;
  }

  /// Waits for the turn to be cancelled; false if it is not.
  [[nodiscard]] bool wait_cancelled(handle which) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return cancelled_.count(raw(which)) > 0; });
  }

  [[nodiscard]] std::size_t turns() {
    const std::lock_guard lock(mutex_);
    return turns_.size();
  }

  [[nodiscard]] std::size_t cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_.size();
  }

 private:
  struct one_turn {
    actors::completion_request request;
    receiver events;
  };

  fake_tokenizer tokenizer_;
  std::atomic<bool> ready_{true};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<one_turn> turns_;
  std::vector<actors::turn_event> scripted_;
  std::set<std::uint64_t> cancelled_;
};

inline actors::turn_event text_event(const std::string& text, position last) {
  actors::turn_text event;
  event.text = text;
  event.last = last;
  event.node = "n1";
  event.epoch = epoch{2};
  return event;
}

inline actors::turn_event started_event() {
  return actors::turn_started{session_id{1}, 3, 0};
}

inline actors::turn_event finished_event(std::uint32_t completion_tokens = 1) {
  actors::turn_finished event;
  event.prompt_tokens = 3;
  event.completion_tokens = completion_tokens;
  return event;
}

inline actors::turn_event failed_event(errc code) {
  return actors::turn_failed{{code, "it broke"}};
}

}  // namespace baton::apps::http
