#pragma once

#include "actors/engines/engine.hpp"

namespace baton::actors::engines {

/// Passes everything on to another engine, which it does not own and which must outlive it. Base of
/// decorators: override what should differ, such as a fault, a count or a delay.
class wrapping_engine : public engine {
 public:
  explicit wrapping_engine(engine& inner) : inner_(inner) {}

  [[nodiscard]] const fingerprint& identity() const override { return inner().identity(); }
  [[nodiscard]] const gpu::kv_layout& layout() const override { return inner().layout(); }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return inner().vocabulary_size(); }
  [[nodiscard]] std::uint32_t context_tokens() const override { return inner().context_tokens(); }
  [[nodiscard]] std::uint32_t prefill_chunk() const override { return inner().prefill_chunk(); }
  [[nodiscard]] std::uint32_t max_batch() const override { return inner().max_batch(); }
  [[nodiscard]] bool can_export_rows() const override { return inner().can_export_rows(); }
  result<void> open(session_id session) override { return inner().open(session); }
  void close(session_id session) override { inner().close(session); }
  [[nodiscard]] bool holds(session_id session) const override { return inner().holds(session); }
  [[nodiscard]] position length(session_id session) const override { return inner().length(session); }
  result<void> truncate(session_id session, position length) override {
    return inner().truncate(session, length);
  }
  result<void> evaluate(std::span<const evaluation> batch) override { return inner().evaluate(batch); }
  [[nodiscard]] std::span<const float> logits(std::size_t index) const override {
    return inner().logits(index);
  }
  result<void> export_rows(session_id session, position first, std::uint32_t count,
                           gpu::kv_image& image) override {
    return inner().export_rows(session, first, count, image);
  }
  result<void> prepare_image(position first, std::uint32_t count, gpu::kv_image& image) const override {
    return inner().prepare_image(first, count, image);
  }
  result<void> import_rows(session_id session, position first, const gpu::kv_image& image) override {
    return inner().import_rows(session, first, image);
  }
  [[nodiscard]] const engine_counters& counters() const override { return inner().counters(); }

 protected:
  [[nodiscard]] engine& inner() const { return inner_; }

 private:
  engine& inner_;
};

}  // namespace baton::actors::engines
