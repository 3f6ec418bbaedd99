#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/ids.hpp"

namespace baton::actors::engines {

/// What spells a control token of a vocabulary, and how a client's text keeps from meaning one: `escape` puts
/// each spelling between two bytes that no UTF-8 text contains, and `tokenize_parts` takes what stands
/// between them as plain text. So messages can go through a model's chat template, which is text, and come
/// out with the template's control tokens and no others. Thread-safe after construction.
class control_text {
 public:
  /// `part_bytes`: what is tokenized at a time, about; a part ends where a control token begins.
  explicit control_text(std::vector<std::string> spellings, std::size_t part_bytes = std::string::npos);

  /// `text` must not contain the two bytes (`is_clean`).
  [[nodiscard]] std::string escape(std::string_view text) const;

  /// True if `text` has none of the bytes that an escape is made of.
  [[nodiscard]] static bool is_clean(std::string_view text);

  /// Calls `tokenize(part, special)` for the parts of a text in order and joins the tokens: `special` is
  /// false for what was escaped, true for the rest. An escape that is not closed runs to the end.
  template <typename Tokenize>
  [[nodiscard]] std::vector<token_id> tokenize_parts(std::string_view text, const Tokenize& tokenize) const {
    std::vector<token_id> all;
    const auto add = [&](std::string_view part, bool special) {
      const auto tokens = tokenize(part, special);
      all.insert(all.end(), tokens.begin(), tokens.end());
    };
    for (bool special = true; !text.empty(); special = !special) {
      const std::size_t end = text.find(special ? opening : closing);
      std::string_view part = text.substr(0, end);
      for (std::size_t size = 0; special && (size = first_part(part)) < part.size(); part.remove_prefix(size))
        add(part.substr(0, size), true);
      add(part, special);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
    return all;
  }

 private:
  static constexpr char opening = '\xFE';
  static constexpr char closing = '\xFF';

  /// The longest spelling that `text` begins with; empty if none.
  [[nodiscard]] std::string_view spelled_at_start_of(std::string_view text) const;

  /// Bytes of `text` up to the first control token that begins past `part_bytes`; all if none does.
  [[nodiscard]] std::size_t first_part(std::string_view text) const;

  std::array<std::vector<std::string>, 256> spellings_;  // by first byte, longest first
  std::size_t part_bytes_;
};

}  // namespace baton::actors::engines
