#include "actors/protocol/evaluation_plan.hpp"

#include <algorithm>

namespace baton::actors::protocol {

namespace {

/// The prompt batch that `at` falls into; empty if `at` is a generated token that is evaluated alone.
struct prompt_batch {
  position first = 0;
  position last = 0;
};

position prefill_begin(const turn_header& turn) { return std::max<position>(turn.base, 1) - 1; }

prompt_batch prompt_batch_around(const evaluation_plan& plan, position at) {
  // The last turn whose prefill begins at or before `at`.
  const auto begins_after = [](position where, const turn_header& turn) { return where < prefill_begin(turn); };
  const auto next = std::upper_bound(plan.turns.begin(), plan.turns.end(), at, begins_after);
  if (next == plan.turns.begin())
    return {};
  const turn_header& turn = *std::prev(next);
  if (at >= turn.prompt_end)
    return {};
  // A prompt that was cut ends where the prefill of the next turn begins.
  const position end = next == plan.turns.end() ? turn.prompt_end : std::min(turn.prompt_end, prefill_begin(*next));
  const position begin = prefill_begin(turn);
  const position first = begin + (at - begin) / plan.prefill_chunk * plan.prefill_chunk;
  return {first, std::min(end, first + plan.prefill_chunk)};
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

position evaluation_plan::rows_kept_at_last_turn() const noexcept {
  if (turns.empty())
    return 0;
  const evaluation_plan before{turns.first(turns.size() - 1), prefill_chunk};
  return before.resume_point(prefill_begin(turns.back()));
}

}  // namespace baton::actors::protocol
