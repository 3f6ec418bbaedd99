#pragma once

#include <cstring>
#include <vector>

#include "actors/engines/engine.hpp"
#include "actors/engines/sampler.hpp"
#include "schemas/hash.hpp"

/// What the tests of engines share.
namespace baton::actors::engines::testing {

/// Seeded numbers, the same on every machine.
class numbers {
 public:
  explicit numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return state_ = mix64(state_); }
  std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

inline std::vector<token_id> random_tokens(numbers& from, std::size_t count, std::uint32_t vocabulary) {
  std::vector<token_id> tokens(count);
  for (auto& token : tokens)
    token = static_cast<token_id>(from.below(vocabulary));
  return tokens;
}

/// Evaluates the tokens at the end of the session, in chunks of at most `chunk`.
inline result<void> feed(engine& in, session_id session, std::span<const token_id> tokens,
                         std::uint32_t chunk = 0) {
  if (chunk == 0) chunk = in.prefill_chunk();
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min<std::size_t>(tokens.size(), chunk));
    const evaluation entry{.session = session, .first = in.length(session), .tokens = part};
    if (auto done = in.evaluate({&entry, 1}); !done) return done;
    tokens = tokens.subspan(part.size());
  }
  return {};
}

inline std::vector<float> copy_of_logits(const engine& in, std::size_t index = 0) {
  const auto held = in.logits(index);
  return {held.begin(), held.end()};
}

/// All bits, so that equal means identical.
inline std::uint64_t hash_of_logits(const engine& in, std::size_t index = 0) {
  return hash_bytes(std::as_bytes(in.logits(index)));
}

inline void copy_row(const gpu::kv_layout& layout, const gpu::kv_image& from, std::uint32_t from_row,
                     gpu::kv_image& to, std::uint32_t to_row) {
  for (std::size_t region = 0; region < layout.row_bytes.size(); ++region) {
    const auto& source = from.strips[region];
    const auto& target = to.strips[region];
    std::memcpy(to.bytes.data() + target.offset_bytes + to_row * target.stride_bytes,
                from.bytes.data() + source.offset_bytes + from_row * source.stride_bytes,
                layout.row_bytes[region]);
  }
}

/// The rows of an image one position after the other, as on the wire.
inline std::vector<std::byte> rows_of(const gpu::kv_layout& layout, const gpu::kv_image& image) {
  std::vector<std::byte> rows;
  for (std::uint32_t i = 0; i < image.count; ++i) {
    for (std::size_t region = 0; region < layout.row_bytes.size(); ++region) {
      const auto* from =
          image.bytes.data() + image.strips[region].offset_bytes + i * image.strips[region].stride_bytes;
      rows.insert(rows.end(), from, from + layout.row_bytes[region]);
    }
  }
  return rows;
}

/// Moves rows as a link does: out of one engine, row by row into an image that the other has prepared, and
/// in.
inline result<void> transfer(engine& from, session_id session, engine& to, session_id target, position first,
                             position end) {
  gpu::kv_image source;
  gpu::kv_image prepared;
  if (auto done = from.export_rows(session, first, end - first, source); !done) return done;
  if (auto done = to.prepare_image(first, end - first, prepared); !done) return done;
  for (std::uint32_t i = 0; i < source.count; ++i)
    copy_row(from.layout(), source, i, prepared, i);
  return to.import_rows(target, first, prepared);
}

/// Tokens that an engine says and the hashes of the logits that each came from.
struct generated {
  std::vector<token_id> tokens;
  std::vector<std::uint64_t> logits;

  friend bool operator==(const generated&, const generated&) = default;
};

/// Samples `count` tokens, each but the last evaluated in turn. `log` grows by them; the session holds rows
/// for all of the log when this begins and its last logits are those of `in.logits(0)`.
inline generated generate(engine& in, session_id session, const sampling_parameters& how,
                          std::vector<token_id>& log, std::size_t count) {
  generated out;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && !feed(in, session, std::span(log).last(1))) break;
    out.logits.push_back(hash_of_logits(in));
    const sampled next = sample(in.logits(0), how, static_cast<position>(log.size()), log);
    out.tokens.push_back(next.token);
    log.push_back(next.token);
  }
  return out;
}

inline sampling_parameters greedy() {
  sampling_parameters how;
  how.temperature = 0;
  return how;
}

}  // namespace baton::actors::engines::testing
