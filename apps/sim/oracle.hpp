#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/engines/toy_engine.hpp"
#include "apps/sim/world.hpp"

namespace baton::apps::sim {

/// One conversation on an engine that nothing ever happens to. Each prompt goes through it in chunks that
/// begin with the last token before it, each answer token by token.
class oracle {
 public:
  explicit oracle(const settings& how);

  /// What follows `log`, which ends with the prompt of the last of `turns`: `count` tokens.
  std::vector<token_id> continuation(std::span<const token_id> log, std::span<const turn_header> turns,
                                     std::size_t count);

 private:
  using batch = std::vector<token_id>;

  void evaluate(const batch& next);

  actors::engines::toy_engine engine_;
  std::vector<batch> held_;  // what the engine has evaluated
};

}  // namespace baton::apps::sim
