#include "actors/engines/llama_state_format.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace baton::actors::engines {
namespace {

constexpr std::size_t cell_bytes = 12;           // position, sequences, sequence
constexpr std::size_t cells_offset = 16;         // magic, sequence, streams, cells
constexpr std::size_t region_header_bytes = 12;  // type, row size as 64 bits

std::size_t regions_offset(std::uint32_t count) {
  return cells_offset + cell_bytes * count + 8;
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

/// Calls `visit(offset, bytes)` for each piece of a state that is not rows; false once one call says so.
template <class Visit>
bool for_each_header(const llama_state_format& format, position first, std::uint32_t count, Visit visit) {
  std::vector<std::uint32_t> head{format.magic, format.sequence, 1, count};
  head.reserve(regions_offset(count) / 4);
  for (std::uint32_t i = 0; i < count; ++i)
    head.insert(head.end(), {first + i, 1, format.sequence});
  head.insert(head.end(), {0, format.layers});
  if (!visit(std::size_t{0}, std::as_bytes(std::span(head)))) return false;
  std::size_t offset = regions_offset(count);
  for (std::size_t region = 0; region < format.types.size(); ++region) {
    const std::uint32_t row_bytes = format.layout.row_bytes[region];
    const std::array<std::uint32_t, 3> words{format.types[region], row_bytes, 0};
    if (!visit(offset, std::as_bytes(std::span(words)))) return false;
    offset += region_header_bytes + std::size_t{row_bytes} * count;
  }
  return true;
}

}  // namespace

std::optional<llama_state_format> llama_state_format::learn(std::span<const std::byte> state, position first,
                                                            std::uint32_t count) {
  const std::size_t start = regions_offset(count);
  if (state.size() < start) return std::nullopt;
  llama_state_format format;
  format.magic = word_at(state, 0);
  format.sequence = word_at(state, 4);
  format.layers = word_at(state, start - 4);
  for (std::size_t at = start; at < state.size();) {
    if (state.size() - at < region_header_bytes) return std::nullopt;
    const std::uint32_t row_bytes = word_at(state, at + 4);
    if (row_bytes == 0 || (state.size() - at - region_header_bytes) / count < row_bytes) return std::nullopt;
    format.types.push_back(word_at(state, at));
    format.layout.row_bytes.push_back(row_bytes);
    at += region_header_bytes + std::size_t{row_bytes} * count;
  }
  if (format.layers == 0 || format.types.size() < format.layers ||
      format.types.size() > std::size_t{2} * format.layers) {
    return std::nullopt;
  }
  const bool same =
      for_each_header(format, first, count, [&](std::size_t offset, std::span<const std::byte> bytes) {
        return std::equal(bytes.begin(), bytes.end(), state.begin() + static_cast<std::ptrdiff_t>(offset));
      });
  return same ? std::optional(std::move(format)) : std::nullopt;
}

std::size_t llama_state_format::bytes(std::uint32_t count) const {
  return regions_offset(count) + region_header_bytes * types.size() + layout.bytes_per_token() * count;
}

void llama_state_format::prepare(position first, std::uint32_t count, gpu::kv_image& image) const {
  image.bytes.resize(bytes(count));
  image.count = count;
  for_each_header(*this, first, count, [&](std::size_t offset, std::span<const std::byte> header) {
    std::memcpy(image.bytes.data() + offset, header.data(), header.size());
    return true;
  });
  image.strips.resize(types.size());
  std::size_t offset = regions_offset(count);
  for (std::size_t region = 0; region < types.size(); ++region) {
    image.strips[region] = {.offset_bytes = offset + region_header_bytes,
                            .stride_bytes = layout.row_bytes[region]};
    offset += region_header_bytes + std::size_t{layout.row_bytes[region]} * count;
  }
}

bool llama_state_format::matches(position first, const gpu::kv_image& image) const {
  return image.count > 0 && image.bytes.size() == bytes(image.count) &&
         for_each_header(*this, first, image.count,
                         [&](std::size_t offset, std::span<const std::byte> header) {
                           return std::memcmp(image.bytes.data() + offset, header.data(), header.size()) == 0;
                         });
}

bool llama_state_format::sort_rows(position first, gpu::kv_image& image) const {
  std::vector<std::uint32_t> cell_of(image.count, image.count);  // by position from `first`
  bool sorted = true;
  for (std::uint32_t cell = 0; cell < image.count; ++cell) {
    const std::uint32_t at = word_at(image.bytes, cells_offset + cell_bytes * cell) - first;
    if (at >= image.count || cell_of[at] != image.count) return false;
    cell_of[at] = cell;
    sorted = sorted && at == cell;
  }
  if (sorted) return true;
  std::vector<std::byte> rows;
  for (std::size_t region = 0; region < types.size(); ++region) {
    const std::size_t row_bytes = layout.row_bytes[region];
    std::byte* to = image.bytes.data() + image.strips[region].offset_bytes;
    rows.assign(to, to + row_bytes * image.count);
    for (std::uint32_t at = 0; at < image.count; ++at) {
      std::memcpy(to + at * row_bytes, rows.data() + cell_of[at] * row_bytes, row_bytes);
    }
  }
  prepare(first, image.count, image);
  return true;
}

}  // namespace baton::actors::engines
