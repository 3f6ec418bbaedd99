#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/text/utf8.hpp"
#include "schemas/ids.hpp"

namespace baton::actors::text {

/// Text that may be shown now, and the tokens whose bytes it covers wholly.
struct text_piece {
  std::string text;
  std::size_t tokens = 0;  ///< fed tokens whose text is out with this piece, in order
  bool stopped = false;    ///< a stop string is complete: nothing of it is in `text`, nothing follows
};

/// From released tokens to text for a client: joins bytes to whole characters and holds back what may be the
/// beginning of a stop string. A function of the tokens fed and nothing else, so it can be rebuilt from a
/// token log anywhere. Pure.
class text_stream {
 public:
  /// Empty stop strings are ignored.
  explicit text_stream(std::vector<std::string> stops);

  /// Takes the bytes of the next token.
  text_piece feed(std::string_view bytes);
  /// No token follows: what is held back is text, up to a stop string that a broken character at the end
  /// completes.
  text_piece finish();

  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  /// Tokens fed up to the one that completed the stop string; all of them if none did.
  [[nodiscard]] std::size_t tokens_used() const noexcept { return fed_; }

 private:
  text_piece release(std::size_t bytes);
  /// The end of the last whole character within the first `bytes` held: a stop string may begin within a
  /// character, text may not end within one.
  [[nodiscard]] std::size_t whole(std::size_t bytes) const;
  /// The last piece, if a stop string is held.
  std::optional<text_piece> cut();

  std::vector<std::string> stops_;
  utf8_assembler characters_;
  std::string held_;                    // whole characters not yet shown
  std::size_t shown_bytes_ = 0;         // of all text
  std::deque<std::size_t> token_ends_;  // in bytes of all text, of tokens not yet covered
  std::size_t made_bytes_ = 0;          // of all text, shown or held
  std::size_t fed_ = 0;
  bool stopped_ = false;
};

}  // namespace baton::actors::text
