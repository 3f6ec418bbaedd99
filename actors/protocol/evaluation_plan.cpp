#include "actors/protocol/evaluation_plan.hpp"

#include <algorithm>
#include <limits>
#include <variant>

namespace baton::actors::protocol {

namespace {

/// The prompt batch that `at` falls into; empty if `at` is a generated token that is evaluated alone.
struct prompt_batch {
  position first = 0;
  position last = 0;
};

position prefill_begin(const turn_header& turn) {
  return std::max<position>(turn.base, 1) - 1;
}

prompt_batch prompt_batch_around(const evaluation_plan& plan, position at) {
  // The last turn whose prefill begins at or before `at`.
  const auto begins_after = [](position where, const turn_header& turn) {
    return where < prefill_begin(turn);
  };
  const auto next = std::upper_bound(plan.turns.begin(), plan.turns.end(), at, begins_after);
  if (next == plan.turns.begin()) return {};
  const turn_header& turn = *std::prev(next);
  if (at >= turn.prompt_end) return {};
  // A prompt that was cut ends where the prefill of the next turn begins.
  const position end =
      next == plan.turns.end() ? turn.prompt_end : std::min(turn.prompt_end, prefill_begin(*next));
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

position evaluation_plan::rows_kept_at_begin(position base) const noexcept {
  return resume_point(std::max<position>(base, 1) - 1);
}

position evaluation_plan::rows_kept_at_cut(position length) const noexcept {
  // The turn that goes first makes the difference: without it, rows before it would be made as if it had
  // never begun.
  const auto gone = std::lower_bound(turns.begin(), turns.end(), length,
                                     [](const turn_header& turn, position at) { return turn.base < at; });
  if (gone == turns.end()) return length;
  const evaluation_plan left{turns.first(static_cast<std::size_t>(gone - turns.begin())), prefill_chunk};
  return std::min(length, left.rows_kept_at_begin(gone->base));
}

position evaluation_plan::rows_kept_after(const session_record& record) const noexcept {
  constexpr position all = std::numeric_limits<position>::max();
  if (const auto* cut = std::get_if<truncate_record>(&record)) return rows_kept_at_cut(cut->length);
  if (std::holds_alternative<drop_record>(record)) return 0;
  const auto* open = std::get_if<open_record>(&record);
  // A turn that has begun here already is said again, or takes the place of one that has no token.
  const bool begins = open != nullptr && (turns.empty() || turns.back().base < open->turn.base);
  return begins ? rows_kept_at_begin(open->turn.base) : all;
}

position rows_kept_in(std::span<const turn_header> after, std::span<const turn_header> before, position kept,
                      std::uint32_t prefill_chunk) noexcept {
  const position rows = std::min(kept, evaluation_plan{before, prefill_chunk}.rows_kept_at_cut(kept));
  const auto begun =
      std::find_if(after.begin(), after.end(), [&](const turn_header& turn) { return turn.base >= kept; });
  if (begun == after.end()) return rows;
  const evaluation_plan plan{after.first(static_cast<std::size_t>(begun - after.begin())), prefill_chunk};
  return std::min(rows, plan.rows_kept_at_begin(begun->base));
}

}  // namespace baton::actors::protocol
