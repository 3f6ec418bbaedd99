#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/engines/toy_engine.hpp"
#include "apps/sim/world.hpp"

namespace baton::apps::sim {

/// One conversation on an engine that nothing ever happens to.
class oracle {
 public:
  explicit oracle(const settings& how);

  /// What follows `log` under these parameters: `count` tokens.
  std::vector<token_id> continuation(std::span<const token_id> log, const turn_parameters& parameters,
                                     std::size_t count);

 private:
  void evaluate(std::span<const token_id> log);

  actors::engines::toy_engine engine_;
  std::vector<token_id> held_;  // what the engine has rows of
};

}  // namespace baton::apps::sim
