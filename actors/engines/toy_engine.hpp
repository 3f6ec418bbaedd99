#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <unordered_map>

#include "actors/engines/engine.hpp"

namespace baton::actors::engines {

/// A deterministic engine of microseconds per token, for tests that must notice any wrong byte.
///
/// The row of a position is pseudo-random bytes from (weights seed, all rows before it, its token, the shape
/// of its batch), and the logits are a function of all the rows held. So one wrong byte in any row, or a row
/// that is missing, repeated, out of order, or made anew in a batch of another shape, changes every later row
/// and every later logit, as a wrong KV row would in a real model, only always and at once.
///
/// The text is printable ASCII chosen by the hash and never ends by itself, unless the tokens held contain a
/// script: "say:" TEXT, ended by "\n" or a control token. Then the engine answers with the bytes of TEXT, one
/// per token, and the end of the turn. After a script that a control token ended (a chat), or that more text
/// follows, the answer begins after the next "<|im_start|>assistant\n". The latest script counts. A session
/// that holds a wrong row follows none.
class toy_engine final : public engine {
 public:
  struct options {
    std::uint64_t weights_seed = 1;       ///< another seed is another model
    std::uint32_t context_tokens = 4096;  ///< longest session
    std::uint32_t sessions = 64;          ///< most sessions open at a time
    std::uint32_t cache_tokens = 0;       ///< most rows of all sessions together; 0 is no such bound
    std::uint32_t prefill_chunk = 64;     ///< at most 1024
    std::uint32_t max_batch = 1;
    /// At least one region; the first of at least 4 bytes, which carry the token.
    gpu::kv_layout layout{{32, 16, 32, 16, 32, 16, 32, 16}};
    bool can_export_rows = true;  ///< false models a model that can only be replayed
    /// False models recurrent state: `truncate` is `unsupported`, but to 0 and to the length or more.
    bool can_truncate = true;
    /// To evaluate this token aborts the process, as a request may that meets a fault of a real engine.
    token_id poison = -1;
    token_id fault = -1;  ///< to evaluate this one is `engine_failed`
    /// What an evaluation takes: the sum goes to `wait`, which may spin, sleep, or move a simulated clock.
    std::chrono::microseconds delay_per_evaluation{0};
    std::chrono::microseconds delay_per_token{0};
    std::function<void(std::chrono::microseconds)> wait;  ///< absent: no time passes
  };

  toy_engine() : toy_engine(options{}) {}
  /// Asserts what `options` says of its members.
  explicit toy_engine(options how);

  [[nodiscard]] const fingerprint& identity() const override { return identity_; }
  [[nodiscard]] const gpu::kv_layout& layout() const override { return visible_layout_; }
  [[nodiscard]] std::uint32_t vocabulary_size() const override;
  [[nodiscard]] std::uint32_t context_tokens() const override { return how_.context_tokens; }
  [[nodiscard]] std::uint32_t prefill_chunk() const override { return how_.prefill_chunk; }
  [[nodiscard]] std::uint32_t max_batch() const override { return how_.max_batch; }
  [[nodiscard]] bool can_export_rows() const override { return how_.can_export_rows; }

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
  /// Follows the tokens of a session and knows the next one of its script.
  class script {
   public:
    void feed(token_id token);
    /// -1: no script is being answered now.
    [[nodiscard]] token_id next() const;

   private:
    enum class phase : std::uint8_t { idle, collecting, waiting, answering };
    void feed_byte(char byte);

    phase phase_ = phase::idle;
    std::string recent_;             // the last bytes since a control token, as many as the longest marker
    bool after_turn_start_ = false;  // the last control token was one
    std::string text_;
    std::size_t said_ = 0;
  };

  struct state {
    std::vector<std::byte> rows;  // position-major, as on the wire
    position length = 0;
    std::uint64_t fold = 0;  // over all rows held
    bool intact = true;      // every row held is the one that its token gives
    script following;
  };

  /// A token, and its place in the batch of its session that it was evaluated in.
  struct source {
    token_id token = 0;
    std::uint32_t index = 0;
    std::uint32_t batch = 1;  ///< tokens in it
  };

  [[nodiscard]] static std::uint32_t packed(const source& of);
  [[nodiscard]] std::optional<source> unpacked(std::uint32_t word) const;
  static void make_row(std::uint64_t fold, const source& of, std::span<std::byte> row);
  void append_token(state& to, const source& of) const;
  void append_row(state& to, std::span<const std::byte> row) const;
  void write_logits(const state& of, std::span<float> out) const;
  [[nodiscard]] result<void> check(std::span<const evaluation> batch) const;
  [[nodiscard]] result<void> check_room(std::size_t more_rows) const;

  options how_;
  gpu::kv_layout visible_layout_;
  std::size_t row_bytes_ = 0;
  fingerprint identity_;
  std::unordered_map<session_id, state> sessions_;
  std::vector<float> logits_;  // `vocabulary_size()` for each entry of the last evaluation
  std::vector<bool> wanted_;   // which of them are set
  engine_counters counters_;
};

}  // namespace baton::actors::engines
