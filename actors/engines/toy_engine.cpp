#include "actors/engines/toy_engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "actors/engines/toy_tokenizer.hpp"
#include "schemas/hash.hpp"

namespace baton::actors::engines {
namespace {

constexpr std::string_view script_marker = "say:";
constexpr std::string_view answer_header = "assistant\n";

/// Begins an image: an import checks that it is one of ours, of these positions.
struct image_header {
  std::uint64_t magic = 0x746f79206b762031;  // "toy kv 1"
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Independent streams of the one hash.
enum purpose : std::uint64_t { for_token = 1, for_row, for_logits };

/// Of the word that a row begins with: what is left of 32 bits goes to the token.
constexpr std::uint32_t place_bits = 10;
constexpr std::uint32_t most_in_batch = 1U << place_bits;
constexpr std::uint32_t place_mask = most_in_batch - 1;

std::uint64_t start_fold(std::uint64_t weights_seed) {
  return hash_text("toy engine", weights_seed);
}

/// The mask over the first word of the row that follows `fold`.
std::uint32_t word_mask(std::uint64_t fold) {
  return static_cast<std::uint32_t>(hash_step(fold, for_token));
}

std::size_t image_bytes(const gpu::kv_layout& layout, std::uint32_t count) {
  return sizeof(image_header) + layout.bytes_per_token() * count;
}

}  // namespace

// --- scripts -----------------------------------------------------------------------------------------------

void toy_engine::script::feed(token_id token) {
  if (token < 256) {
    feed_byte(static_cast<char>(token));
    return;
  }
  const bool finished = phase_ == phase::answering && said_ == text_.size() && token == toy::turn_end;
  if (finished) {
    phase_ = phase::idle;
  } else if (phase_ != phase::idle) {
    phase_ = phase::waiting;
  }
  recent_.clear();
  after_turn_start_ = token == toy::turn_start;
}

void toy_engine::script::feed_byte(char byte) {
  recent_ += byte;
  if (recent_.size() > answer_header.size() + 1) recent_.erase(0, 1);
  if (recent_.ends_with(script_marker)) {
    phase_ = phase::collecting;
    text_.clear();
    return;
  }
  switch (phase_) {
    case phase::idle:
      return;
    case phase::collecting:
      if (byte != '\n') {
        text_ += byte;
        return;
      }
      break;
    case phase::waiting:
      if (!after_turn_start_ || recent_ != answer_header) return;
      break;
    case phase::answering:
      if (said_ < text_.size() && text_[said_] == byte) {
        ++said_;
      } else {
        phase_ = phase::waiting;
      }
      return;
  }
  phase_ = phase::answering;
  said_ = 0;
}

token_id toy_engine::script::next() const {
  if (phase_ != phase::answering) return -1;
  return said_ < text_.size() ? static_cast<unsigned char>(text_[said_]) : toy::turn_end;
}

// --- the engine --------------------------------------------------------------------------------------------

toy_engine::toy_engine(options how) : how_(std::move(how)), row_bytes_(how_.layout.bytes_per_token()) {
  BATON_ASSERT(!how_.layout.row_bytes.empty() && how_.layout.row_bytes.front() >= 4 && row_bytes_ >= 16);
  BATON_ASSERT(how_.context_tokens > 0 && how_.sessions > 0 && how_.max_batch > 0);
  BATON_ASSERT(how_.prefill_chunk > 0 && how_.prefill_chunk <= most_in_batch);
  if (how_.can_export_rows) visible_layout_ = how_.layout;
  std::string layout;
  for (const std::uint32_t bytes : how_.layout.row_bytes)
    layout += (layout.empty() ? "" : ",") + std::to_string(bytes);
  identity_.fields = {
      {"engine", "toy 2"},
      {"weights_seed", std::to_string(how_.weights_seed)},
      {"context_tokens", std::to_string(how_.context_tokens)},
      {"prefill_chunk", std::to_string(how_.prefill_chunk)},
      {"max_batch", std::to_string(how_.max_batch)},
      {"row_bytes", layout},
      {"rows", how_.can_export_rows ? "exported" : "kept"},
      {"truncate", how_.can_truncate ? "any" : "none"},
  };
}

std::uint32_t toy_engine::vocabulary_size() const {
  return toy::vocabulary;
}

result<void> toy_engine::open(session_id session) {
  if (sessions_.contains(session)) return {errc::invalid_argument, "the session is open already"};
  if (sessions_.size() >= how_.sessions) {
    return {errc::no_room, "all " + std::to_string(how_.sessions) + " sessions of the engine are taken"};
  }
  sessions_[session].fold = start_fold(how_.weights_seed);
  return {};
}

void toy_engine::close(session_id session) {
  sessions_.erase(session);
}

position toy_engine::length(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.length;
}

result<void> toy_engine::truncate(session_id session, position length) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {errc::unknown_session, "no such session in the engine"};
  state& held = found->second;
  if (length >= held.length) return {};
  if (!how_.can_truncate && length > 0)
    return {errc::unsupported, "this engine cannot forget a part of a session"};
  state kept;
  kept.fold = start_fold(how_.weights_seed);
  const std::span<const std::byte> rows = held.rows;
  for (position p = 0; p < length; ++p)
    append_row(kept, rows.subspan(p * row_bytes_, row_bytes_));
  held = std::move(kept);
  return {};
}

std::uint32_t toy_engine::packed(const source& of) {
  return (static_cast<std::uint32_t>(of.token) << (2 * place_bits)) | (of.index << place_bits) |
         (of.batch - 1);
}

/// Nothing if no evaluation of this engine makes such a row.
std::optional<toy_engine::source> toy_engine::unpacked(std::uint32_t word) const {
  const source of{static_cast<token_id>(word >> (2 * place_bits)), (word >> place_bits) & place_mask,
                  (word & place_mask) + 1};
  const bool possible = static_cast<std::uint32_t>(of.token) < toy::vocabulary && of.index < of.batch &&
                        of.batch <= how_.prefill_chunk;
  return possible ? std::optional(of) : std::nullopt;
}

/// The row that follows `fold`: where it comes from, under a mask, then bytes that depend on both.
void toy_engine::make_row(std::uint64_t fold, const source& of, std::span<std::byte> row) {
  const std::uint32_t word = packed(of);
  const std::uint64_t key = hash_step(hash_step(fold, for_row), word);
  for (std::size_t at = 0; at < row.size(); at += sizeof key) {
    const std::uint64_t filling = mix64(key + at);
    std::memcpy(row.data() + at, &filling, std::min(sizeof filling, row.size() - at));
  }
  const std::uint32_t masked = word ^ word_mask(fold);
  std::memcpy(row.data(), &masked, sizeof masked);
}

void toy_engine::append_token(state& to, const source& of) const {
  to.rows.resize(to.rows.size() + row_bytes_);
  const auto row = std::span(to.rows).last(row_bytes_);
  make_row(to.fold, of, row);
  to.fold = hash_step(to.fold, hash_bytes(row));
  to.following.feed(of.token);
  ++to.length;
}

/// Appends whatever bytes came. The session stays intact only if they are a row that may follow those held.
void toy_engine::append_row(state& to, std::span<const std::byte> row) const {
  std::uint32_t masked = 0;
  std::memcpy(&masked, row.data(), sizeof masked);
  const std::optional<source> of = unpacked(masked ^ word_mask(to.fold));
  bool right = of.has_value();
  if (right) {
    std::vector<std::byte> expected(row_bytes_);
    make_row(to.fold, *of, expected);
    right = std::equal(expected.begin(), expected.end(), row.begin());
  }
  to.intact = to.intact && right;
  if (right) to.following.feed(of->token);
  to.rows.insert(to.rows.end(), row.begin(), row.end());
  to.fold = hash_step(to.fold, hash_bytes(row));
  ++to.length;
}

/// Printable ASCII between 0 and 8, all else far below, and the next token of a script far above.
void toy_engine::write_logits(const state& of, std::span<float> out) const {
  const std::uint64_t key = hash_step(of.fold, for_logits);
  for (std::size_t token = 0; token < out.size(); ++token) {
    const auto unit = static_cast<float>(mix64(key + token) >> 40) * 0x1p-24F;
    const bool printable = token >= 32 && token < 127;
    const float base = token >= 256 ? -30.0F : -20.0F;
    out[token] = printable ? 8 * unit : base + unit;
  }
  const token_id scripted = of.intact ? of.following.next() : -1;
  if (scripted >= 0) out[static_cast<std::size_t>(scripted)] = 60.0F;
}

result<void> toy_engine::check_room(std::size_t more_rows) const {
  if (how_.cache_tokens == 0) return {};
  for (const auto& [session, held] : sessions_)
    more_rows += held.length;
  if (more_rows <= how_.cache_tokens) return {};
  return {errc::no_room, "the cache of " + std::to_string(how_.cache_tokens) + " tokens is full"};
}

result<void> toy_engine::check(std::span<const evaluation> batch) const {
  if (batch.empty() || batch.size() > how_.max_batch) {
    return {errc::invalid_argument, "a batch of " + std::to_string(batch.size()) + " sessions, not 1 to " +
                                        std::to_string(how_.max_batch)};
  }
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const evaluation& entry = batch[i];
    const auto found = sessions_.find(entry.session);
    if (found == sessions_.end()) return {errc::unknown_session, "no such session in the engine"};
    if (std::any_of(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const evaluation& other) { return other.session == entry.session; })) {
      return {errc::invalid_argument, "a session twice in one batch"};
    }
    if (entry.tokens.empty() || entry.tokens.size() > how_.prefill_chunk) {
      return {errc::invalid_argument, std::to_string(entry.tokens.size()) +
                                          " tokens in one evaluation, not 1 to " +
                                          std::to_string(how_.prefill_chunk)};
    }
    if (entry.first != found->second.length) {
      return {errc::gap, "tokens from position " + std::to_string(entry.first) + " for a session of length " +
                             std::to_string(found->second.length)};
    }
    if (entry.tokens.size() > how_.context_tokens - found->second.length) {
      return {errc::context_full,
              "the context of " + std::to_string(how_.context_tokens) + " tokens is used up"};
    }
    for (const token_id token : entry.tokens) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= toy::vocabulary) {
        return {errc::invalid_argument,
                "a token outside the vocabulary of " + std::to_string(toy::vocabulary)};
      }
    }
    tokens += entry.tokens.size();
  }
  return check_room(tokens);
}

result<void> toy_engine::evaluate(std::span<const evaluation> batch) {
  if (auto fit = check(batch); !fit) return fit;
  for (const evaluation& entry : batch)
    if (std::ranges::count(entry.tokens, how_.fault) > 0) return {errc::engine_failed, "the device is lost"};
  logits_.resize(batch.size() * toy::vocabulary);
  wanted_.assign(batch.size(), false);
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    state& held = sessions_.at(batch[i].session);
    const auto count = static_cast<std::uint32_t>(batch[i].tokens.size());
    for (std::uint32_t at = 0; at < count; ++at) {
      const token_id token = batch[i].tokens[at];
      if (token == how_.poison) std::abort();
      append_token(held, {token, at, count});
    }
    tokens += count;
    wanted_[i] = batch[i].want_logits;
    if (wanted_[i]) write_logits(held, std::span(logits_).subspan(i * toy::vocabulary, toy::vocabulary));
  }
  counters_.evaluated_tokens += tokens;
  ++counters_.evaluations;
  const auto taken = how_.delay_per_evaluation + how_.delay_per_token * tokens;
  if (how_.wait && taken.count() > 0) how_.wait(taken);
  return {};
}

std::span<const float> toy_engine::logits(std::size_t index) const {
  if (index >= wanted_.size() || !wanted_[index]) return {};
  return std::span(logits_).subspan(index * toy::vocabulary, toy::vocabulary);
}

// --- rows --------------------------------------------------------------------------------------------------

result<void> toy_engine::prepare_image(position first, std::uint32_t count, gpu::kv_image& image) const {
  if (!how_.can_export_rows) return {errc::unsupported, "this engine does not carry rows"};
  if (count == 0 || count > how_.context_tokens || first > how_.context_tokens - count) {
    return {errc::invalid_argument,
            "an image of " + std::to_string(count) + " positions from " + std::to_string(first)};
  }
  image.bytes.resize(image_bytes(how_.layout, count));
  image.count = count;
  const image_header header{.first = first, .count = count};
  std::memcpy(image.bytes.data(), &header, sizeof header);
  image.strips.clear();
  std::size_t offset = sizeof header;  // one region after the other, as real engines lay them out
  for (const std::uint32_t bytes : how_.layout.row_bytes) {
    image.strips.push_back({.offset_bytes = offset, .stride_bytes = bytes});
    offset += std::size_t{bytes} * count;
  }
  return {};
}

result<void> toy_engine::export_rows(session_id session, position first, std::uint32_t count,
                                     gpu::kv_image& image) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {errc::unknown_session, "no such session in the engine"};
  const state& held = found->second;
  if (how_.can_export_rows && (first > held.length || count > held.length - first)) {
    return {errc::invalid_argument, "rows [" + std::to_string(first) + ", +" + std::to_string(count) +
                                        ") of a session of length " + std::to_string(held.length)};
  }
  if (auto prepared = prepare_image(first, count, image); !prepared) return prepared;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::byte* from = held.rows.data() + (first + i) * row_bytes_;
    for (std::size_t region = 0; region < image.strips.size(); ++region) {
      const auto& [offset, stride] = image.strips[region];
      std::memcpy(image.bytes.data() + offset + i * stride, from, how_.layout.row_bytes[region]);
      from += how_.layout.row_bytes[region];
    }
  }
  counters_.exported_rows += count;
  return {};
}

result<void> toy_engine::import_rows(session_id session, position first, const gpu::kv_image& image) {
  if (!how_.can_export_rows) return {errc::unsupported, "this engine does not carry rows"};
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {errc::unknown_session, "no such session in the engine"};
  state& held = found->second;
  if (first != held.length) {
    return {errc::gap, "rows from position " + std::to_string(first) + " for a session of length " +
                           std::to_string(held.length)};
  }
  image_header header{.magic = 0};
  if (image.bytes.size() >= sizeof header) std::memcpy(&header, image.bytes.data(), sizeof header);
  if (header.magic != image_header{}.magic || header.first != first || header.count != image.count ||
      image.count == 0 || image.bytes.size() != image_bytes(how_.layout, image.count)) {
    return {errc::invalid_argument, "an image that this engine has not prepared for these positions"};
  }
  if (image.count > how_.context_tokens - held.length) {
    return {errc::context_full,
            "the context of " + std::to_string(how_.context_tokens) + " tokens is used up"};
  }
  if (auto room = check_room(image.count); !room) return room;
  std::vector<std::byte> row(row_bytes_);
  for (std::uint32_t i = 0; i < image.count; ++i) {
    std::byte* to = row.data();
    const std::byte* region = image.bytes.data() + sizeof header;
    for (const std::uint32_t bytes : how_.layout.row_bytes) {
      std::memcpy(to, region + std::size_t{i} * bytes, bytes);
      to += bytes;
      region += std::size_t{bytes} * image.count;
    }
    append_row(held, row);
  }
  counters_.imported_rows += image.count;
  return {};
}

}  // namespace baton::actors::engines
