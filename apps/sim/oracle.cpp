#include "apps/sim/oracle.hpp"

#include <algorithm>

#include "actors/engines/sampler.hpp"
#include "apps/sim/node.hpp"

namespace baton::apps::sim {

namespace {

constexpr session_id only{1};

using tokens = std::vector<token_id>;

/// What is evaluated together of a log with these turns. A turn that cuts a prompt short begins a batch
/// there.
std::vector<tokens> batches_of(std::span<const token_id> log, std::span<const turn_header> turns,
                               std::uint32_t chunk) {
  std::vector<tokens> out;
  const auto add = [&](std::size_t from, std::size_t to, std::size_t most) {
    for (; from < to; from += most) {
      const auto piece = log.subspan(from, std::min(most, to - from));
      out.emplace_back(piece.begin(), piece.end());
    }
  };
  const auto begin_of = [](const turn_header& turn) { return std::max<std::size_t>(turn.base, 1) - 1; };
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::size_t next = i + 1 < turns.size() ? begin_of(turns[i + 1]) : log.size();
    const std::size_t prompt_end = std::min<std::size_t>(turns[i].prompt_end, next);
    add(begin_of(turns[i]), prompt_end, chunk);
    add(prompt_end, next, 1);
  }
  return out;
}

}  // namespace

oracle::oracle(const settings& how) : engine_(engine_options(how)) {
  BATON_ASSERT(engine_.open(only).ok());
}

void oracle::evaluate(const batch& next) {
  const actors::engines::evaluation step{only, engine_.length(only), next, true};
  BATON_ASSERT(engine_.evaluate({&step, 1}).ok());
  held_.push_back(next);
}

std::vector<token_id> oracle::continuation(std::span<const token_id> log, std::span<const turn_header> turns,
                                           std::size_t count) {
  const std::vector<batch> wanted = batches_of(log, turns, engine_.prefill_chunk());
  // The last one is evaluated again in any case: its logits are what is wanted.
  const auto same = std::mismatch(held_.begin(), held_.end(), wanted.begin(), std::prev(wanted.end())).second;
  held_.assign(wanted.begin(), same);
  position rows = 0;
  for (const batch& kept : held_)
    rows += static_cast<position>(kept.size());
  BATON_ASSERT(engine_.truncate(only, rows).ok());
  for (auto next = same; next != wanted.end(); ++next)
    evaluate(*next);

  std::vector<token_id> all{log.begin(), log.end()};
  while (all.size() < log.size() + count) {
    if (all.size() > log.size()) evaluate({all.back()});
    all.push_back(actors::engines::sample(engine_.logits(0), turns.back().parameters.sampling,
                                          static_cast<position>(all.size()), all)
                      .token);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(log.size()), all.end()};
}

}  // namespace baton::apps::sim
