#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/engines/fingerprint.hpp"
#include "gpu/kv_layout.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"

/// The model, behind one interface. An engine holds sessions; a session is a run of KV rows at positions [0,
/// length). It evaluates tokens, which appends rows and yields logits, and it exports and imports rows. It
/// does not sample, batch over time, or know turns: that is the engine actor's work.
namespace baton::actors::engines {

/// How a session's state can be carried to another engine; decided by the start-up self-test.
enum class replication_mode : std::uint8_t {
  rows,   ///< by KV rows of any range of positions
  replay  ///< only by evaluating its tokens again
};

/// Tokens of one session to evaluate: position `first` must equal the session's length.
struct evaluation {
  session_id session{};
  position first = 0;
  std::span<const token_id> tokens;
  bool want_logits = true;  ///< of the last token
};

/// What the engine has really done since it started; the tests of "nothing is computed twice" rest on it.
struct engine_counters {
  std::uint64_t evaluated_tokens = 0;
  std::uint64_t evaluations = 0;
  std::uint64_t exported_rows = 0;
  std::uint64_t imported_rows = 0;
};

/// Not thread-safe: one owner thread, the same for the whole life of the engine. Errors leave the session as
/// it was, unless a member says otherwise.
class engine {
 public:
  virtual ~engine() = default;

  // What it is. Constant over its life.
  [[nodiscard]] virtual const fingerprint& identity() const = 0;
  [[nodiscard]] virtual const gpu::kv_layout& layout() const = 0;
  [[nodiscard]] virtual std::uint32_t vocabulary_size() const = 0;
  /// Longest session in tokens.
  [[nodiscard]] virtual std::uint32_t context_tokens() const = 0;
  /// Most tokens of one session in one evaluation. Prompts are evaluated in chunks of exactly this size, so
  /// that every node rounds alike.
  [[nodiscard]] virtual std::uint32_t prefill_chunk() const = 0;
  /// Most sessions in one evaluation: 1 in `exact` mode, where each session is decoded in a batch of its own.
  [[nodiscard]] virtual std::uint32_t max_batch() const = 0;
  /// False if an engine of this model cannot carry its state by rows (the self-test then need not try).
  [[nodiscard]] virtual bool can_export_rows() const = 0;

  // Sessions.
  /// Makes room for a session of length 0. `no_room` when all places are taken, or memory for one is not to
  /// be had.
  virtual result<void> open(session_id session) = 0;
  /// Forgets a session; unknown ones are ignored.
  virtual void close(session_id session) = 0;
  [[nodiscard]] virtual bool holds(session_id session) const = 0;
  /// Rows held: positions [0, length). 0 for unknown sessions.
  [[nodiscard]] virtual position length(session_id session) const = 0;
  /// Forgets the rows of positions >= `length`. `unsupported` where a model cannot (recurrent state): close
  /// it and replay.
  virtual result<void> truncate(session_id session, position length) = 0;

  // Work.
  /// Evaluates the entries in one batch: at most `max_batch()` entries of distinct sessions, each of at most
  /// `prefill_chunk()` tokens. Appends a row per token. `gap` if an entry does not start at its session's
  /// length, `context_full` past the context, `no_room` if the cache is full, `engine_failed` if the engine
  /// itself cannot go on; then the lengths are as before.
  virtual result<void> evaluate(std::span<const evaluation> batch) = 0;
  /// Logits of entry `index` of the last evaluation, `vocabulary_size()` floats; valid until the next
  /// evaluation.
  [[nodiscard]] virtual std::span<const float> logits(std::size_t index) const = 0;

  // Rows.
  /// Copies the rows of positions [first, first + count) out. The image's buffer is reused where large
  /// enough.
  virtual result<void> export_rows(session_id session, position first, std::uint32_t count,
                                   gpu::kv_image& image) = 0;
  /// Thread-safe, unlike the others: the gpu actor calls it while the engine works. Prepares an image of
  /// `count` positions from `first` on whose strips a caller fills with rows before `import_rows`.
  virtual result<void> prepare_image(position first, std::uint32_t count, gpu::kv_image& image) const = 0;
  /// Appends the rows of a filled image: `first` must equal the session's length (`gap` otherwise). The
  /// caller has verified the rows: an engine cannot tell wrong ones.
  virtual result<void> import_rows(session_id session, position first, const gpu::kv_image& image) = 0;

  [[nodiscard]] virtual const engine_counters& counters() const = 0;
};

}  // namespace baton::actors::engines
