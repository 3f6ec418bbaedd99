#pragma once

#include <optional>
#include <unordered_map>

#include "actors/engines/engine.hpp"
#include "actors/engines/llama_library.hpp"
#include "actors/engines/llama_state_format.hpp"

namespace baton::actors::engines {

/// Models in GGUF files, run by llama.cpp on the CPU through its public interface.
///
/// Rows travel as llama.cpp's own state of one sequence: a scratch sequence borrows the cells of the
/// positions, is saved or restored, and is dropped again. The bytes of that state are taken apart here, so
/// that rows can be moved one by one; what this file believes of their format is checked against the library
/// at start, and if it does not hold (sliding windows, recurrent state, flash attention off) the engine says
/// `can_export_rows() == false`.
///
/// `exact`: each session has a context of its own and is decoded alone, so its bits depend on nothing but its
/// tokens. `throughput`: the sessions share one context and are decoded in one batch, whose shape rounds into
/// the bits.
class llama_engine final : public engine {
 public:
  enum class batching : std::uint8_t { exact, throughput };

  struct options {
    std::string model_path;
    std::uint32_t context_tokens = 4096;  ///< longest session; 0 is what the model was trained for
    std::uint32_t sessions = 4;           ///< most sessions open at a time
    std::uint32_t threads = 1;  ///< more round differently beyond 512 tokens: the same number on every node
    std::uint32_t prefill_chunk = 64;  ///< also the largest batch of the library ("ubatch")
    batching mode = batching::exact;
    std::string kv_type = "f16";  ///< of K and V: f32, f16, q8_0 or q4_0
    bool flash_attention = true;
    std::uint32_t prepared_lanes = 2;  ///< `exact`: contexts made at start; the others when needed, then kept
    std::uint32_t cache_tokens =
        0;  ///< `throughput`: rows of all sessions together; 0 is `sessions * context_tokens`
  };

  /// Opens the model and prepares contexts. `invalid_argument` for options that cannot be, `io_failed` or
  /// `malformed` for the file, `unsupported` for models that do not generate text, `engine_failed` if a
  /// context cannot be made.
  static result<std::unique_ptr<llama_engine>> load(options how);
  ~llama_engine() override;

  [[nodiscard]] const fingerprint& identity() const override { return identity_; }
  [[nodiscard]] const gpu::kv_layout& layout() const override { return layout_; }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return vocabulary_size_; }
  [[nodiscard]] std::uint32_t context_tokens() const override { return how_.context_tokens; }
  [[nodiscard]] std::uint32_t prefill_chunk() const override { return how_.prefill_chunk; }
  [[nodiscard]] std::uint32_t max_batch() const override;
  [[nodiscard]] bool can_export_rows() const override { return format_.has_value(); }

  result<void> open(session_id session) override;
  void close(session_id session) override;
  [[nodiscard]] bool holds(session_id session) const override { return sessions_.contains(session); }
  [[nodiscard]] position length(session_id session) const override;
  result<void> truncate(session_id session, position length) override;

  result<void> evaluate(std::span<const evaluation> batch) override;
  [[nodiscard]] std::span<const float> logits(std::size_t index) const override;

  result<void> export_rows(session_id session, position first, std::uint32_t count,
                           gpu::kv_image& image) override;
  result<void> prepare_image(position first, std::uint32_t count, gpu::kv_image& image) const override;
  result<void> import_rows(session_id session, position first, const gpu::kv_image& image) override;

  [[nodiscard]] const engine_counters& counters() const override { return counters_; }

 private:
  struct lane;
  struct batch_buffer;

  struct place {
    lane* in = nullptr;
    std::int32_t sequence = 0;
    position length = 0;
  };

  explicit llama_engine(options how);
  result<void> start();
  result<void> check_options() const;
  result<void> check_model() const;
  result<lane*> make_lane();
  result<void> learn_format();
  result<void> describe();
  [[nodiscard]] std::uint32_t lane_cells() const;

  [[nodiscard]] result<void> check(std::span<const evaluation> batch) const;
  [[nodiscard]] result<void> check_room(const place& held, std::size_t more_rows) const;
  result<void> save_state(const place& held, position first, std::uint32_t count, gpu::kv_image& image);
  result<void> decode(lane& in, std::span<const evaluation> batch);
  static bool forget_from(const place& held, position length);

  options how_;
  llama_model_handle model_;
  std::vector<std::unique_ptr<lane>> lanes_;  // after the model, which they use
  std::unique_ptr<batch_buffer> batch_;
  std::unordered_map<session_id, place> sessions_;
  std::optional<llama_state_format> format_;
  gpu::kv_layout layout_;
  fingerprint identity_;
  std::uint32_t vocabulary_size_ = 0;
  lane* evaluated_ = nullptr;  // that holds the logits of the last evaluation
  std::vector<std::int32_t>
      logits_index_;  // by entry of the last evaluation: its last token in the batch, -1 without logits
  engine_counters counters_;
};

}  // namespace baton::actors::engines
