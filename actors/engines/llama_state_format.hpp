#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/kv_layout.hpp"
#include "schemas/ids.hpp"

namespace baton::actors::engines {

/// The state of one sequence as llama.cpp saves it, of a model whose KV cache is one unified stream with V
/// not transposed: magic, sequence, streams (1), cells; for each cell its position, the number of its
/// sequences (1) and the sequence; V transposed (0), layers; then for each region, first the K of all layers
/// and then their V, its type, the size of a row in 64 bits, and the rows in the order of the cells. All
/// little-endian; all else in 32 bits. Knows no more of the library than these bytes. Source:
/// llama-kv-cache.cpp, state_write_meta and state_write_data; not a documented format, so it is learned from
/// the library at start and checked at each use.
struct llama_state_format {
  std::uint32_t magic = 0;
  std::uint32_t sequence = 0;  ///< the one that is saved and restored
  std::uint32_t layers = 0;
  std::vector<std::uint32_t> types;  ///< by region
  gpu::kv_layout layout;

  /// Reads the format off a state of `count` positions from `first`; nothing if it is not of this form.
  static std::optional<llama_state_format> learn(std::span<const std::byte> state, position first,
                                                 std::uint32_t count);

  /// Size of a state of `count` positions.
  [[nodiscard]] std::size_t bytes(std::uint32_t count) const;

  /// Sizes the image and writes all of it but the rows.
  void prepare(position first, std::uint32_t count, gpu::kv_image& image) const;

  /// Whether the image has the size of its count, and all but the rows is as `prepare` would write it.
  [[nodiscard]] bool matches(position first, const gpu::kv_image& image) const;

  /// Puts the rows of a saved state into the order of positions: cells that were used before may come in any
  /// order. The image has been prepared for these positions. False if the state is of others.
  [[nodiscard]] bool sort_rows(position first, gpu::kv_image& image) const;
};

}  // namespace baton::actors::engines
