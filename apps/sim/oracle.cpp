#include "apps/sim/oracle.hpp"

#include <algorithm>

#include "actors/engines/sampler.hpp"
#include "apps/sim/node.hpp"

namespace baton::apps::sim {

namespace {

constexpr session_id only{1};

}  // namespace

oracle::oracle(const settings& how) : engine_(engine_options(how)) {
  BATON_ASSERT(engine_.open(only).ok());
}

void oracle::evaluate(std::span<const token_id> log) {
  const auto same = std::mismatch(held_.begin(), held_.end(), log.begin(), log.end()).first - held_.begin();
  // The last one is evaluated again in any case: its logits are what is wanted.
  held_.resize(std::min(static_cast<std::size_t>(same), log.size() - 1));
  BATON_ASSERT(engine_.truncate(only, static_cast<position>(held_.size())).ok());
  while (held_.size() < log.size()) {
    const auto count = std::min<std::size_t>(engine_.prefill_chunk(), log.size() - held_.size());
    const auto piece = log.subspan(held_.size(), count);
    const actors::engines::evaluation step{only, static_cast<position>(held_.size()), piece,
                                           held_.size() + count == log.size()};
    BATON_ASSERT(engine_.evaluate({&step, 1}).ok());
    held_.insert(held_.end(), piece.begin(), piece.end());
  }
}

std::vector<token_id> oracle::continuation(std::span<const token_id> log, const turn_parameters& parameters,
                                           std::size_t count) {
  std::vector<token_id> all{log.begin(), log.end()};
  while (all.size() < log.size() + count) {
    evaluate(all);
    all.push_back(actors::engines::sample(engine_.logits(0), parameters.sampling,
                                          static_cast<position>(all.size()), all)
                      .token);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(log.size()), all.end()};
}

}  // namespace baton::apps::sim
