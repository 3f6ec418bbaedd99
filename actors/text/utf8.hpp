#pragma once

#include <string>
#include <string_view>

namespace baton::actors::text {

/// Cuts a byte stream into whole UTF-8 characters. Bytes that cannot belong to any character become U+FFFD,
/// one per maximal ill-formed part (Unicode 15, section 3.9, table 3-7); a character that has only begun is
/// held back.
class utf8_assembler {
 public:
  /// Takes the next bytes and returns the text that is complete now.
  std::string feed(std::string_view bytes);
  /// The stream has ended: what is held back will not be completed.
  std::string finish();
  [[nodiscard]] std::size_t held_bytes() const noexcept { return tail_.size(); }

 private:
  std::string tail_;  // a valid beginning of one character
};

}  // namespace baton::actors::text
