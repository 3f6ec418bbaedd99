#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/sim/gateway.hpp"
#include "apps/sim/oracle.hpp"

namespace baton::apps::sim {

/// One request and what its client has been given: judges every word against an engine that nothing ever
/// happened to. Blames the world for INV1, 2 and 15.
class answer {
 public:
  /// `whose`: for people.
  answer(world& in, std::string whose) : in_(in), whose_(std::move(whose)) {}

  /// Another request: nothing has been given yet. It must name its session and have a `prompt_text`.
  void begin(actors::completion_request request);

  void on_text(const actors::turn_text& text);
  /// False if it has ended before.
  bool on_finished(const actors::turn_finished& finished);

  /// Compares with the oracle. `whole`: the turn has finished; else what there is must be a beginning of it.
  /// `at`: the gateway that was asked; nothing if it is gone.
  void check(oracle& undisturbed, const std::shared_ptr<gateway>& at, bool whole);

  [[nodiscard]] const actors::completion_request& request() const noexcept { return request_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] const std::optional<actors::turn_finished>& finished() const noexcept { return finished_; }
  /// Of the last token released; 0 before the first.
  [[nodiscard]] position last() const noexcept { return last_; }

 private:
  void compare_text(const std::vector<token_id>& expected, bool whole);

  world& in_;
  std::string whose_;
  actors::completion_request request_;
  std::string text_;
  std::optional<actors::turn_finished> finished_;
  position last_ = 0;
};

}  // namespace baton::apps::sim
