#include "actors/protocol/evaluation_plan.hpp"

#include <algorithm>

namespace baton::actors::protocol {

namespace {

/// The prompt batch that `at` falls into; empty if `at` is a generated token that is evaluated alone.
struct prompt_batch {
  position first = 0;
  position last = 0;
};

prompt_batch prompt_batch_around(const evaluation_plan& plan, position at) {
  // The last turn whose prefill begins at or before `at`.
  const auto begins_after = [](position where, const turn_header& turn) { return where + 1 < std::max<position>(turn.base, 1); };
  const auto next = std::upper_bound(plan.turns.begin(), plan.turns.end(), at, begins_after);
  if (next == plan.turns.begin())
    return {};
  const turn_header& turn = *std::prev(next);
  const position begin = std::max<position>(turn.base, 1) - 1;
  if (at >= turn.prompt_end)
    return {};
  const position first = begin + (at - begin) / plan.prefill_chunk * plan.prefill_chunk;
  return {first, std::min(turn.prompt_end, first + plan.prefill_chunk)};
}

}  // namespace

std::uint32_t evaluation_plan::batch_at(position at, position end) const noexcept {
  const prompt_batch batch = prompt_batch_around(*this, at);
  return batch.last == 0 ? 1 : std::min(batch.last, end) - at;
}

position evaluation_plan::resume_point(position rows) const noexcept {
  const prompt_batch batch = prompt_batch_around(*this, rows);
  return batch.last == 0 ? rows : batch.first;
}

}  // namespace baton::actors::protocol
