#pragma once

#include <cstdint>
#include <span>

#include "schemas/ids.hpp"
#include "schemas/session.hpp"

namespace baton::actors::protocol {

/// How a history is evaluated, as a pure function of its turns: the same tokens always go through the engine
/// in batches of the same shape, on the first evaluation and on every later one, so that rows made anew equal
/// the rows lost, bit for bit (design section 3, `exact` mode).
///
/// The prompt of a turn is evaluated in chunks of `prefill_chunk`, counted from the last token before the
/// turn (which was sampled but never evaluated); each generated token is evaluated alone.
struct evaluation_plan {
  std::span<const turn_header> turns;
  std::uint32_t prefill_chunk = 1;

  /// Tokens in the batch that begins at `at`; `at` must be a point where a batch begins, and `end` is the
  /// length of the log.
  [[nodiscard]] std::uint32_t batch_at(position at, position end) const noexcept;

  /// The last point <= `rows` where a batch begins: with rows [0, rows) at hand, evaluation goes on from
  /// here.
  [[nodiscard]] position resume_point(position rows) const noexcept;

  /// Rows [0, n) that stay as they would be made anew when another turn begins at `base`: it evaluates the
  /// token before its prompt again, and where it cuts an earlier prompt short, the last batch of that one
  /// gets another shape.
  [[nodiscard]] position rows_kept_at_begin(position base) const noexcept;

  /// The same when the log is cut to [0, length), and with it the turns from there on.
  [[nodiscard]] position rows_kept_at_cut(position length) const noexcept;

  /// The same when a log with these turns applies `record`, whatever it is.
  [[nodiscard]] position rows_kept_after(const session_record& record) const noexcept;
};

/// Rows [0, n) of a history with turns `before` that are also those of one with turns `after`, with which it
/// has [0, kept) in common.
[[nodiscard]] position rows_kept_in(std::span<const turn_header> after, std::span<const turn_header> before,
                                    position kept, std::uint32_t prefill_chunk) noexcept;

}  // namespace baton::actors::protocol
