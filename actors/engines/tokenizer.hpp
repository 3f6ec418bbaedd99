#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/ids.hpp"

namespace baton::actors::engines {

struct chat_message {
  std::string role;
  std::string content;

  friend bool operator==(const chat_message&, const chat_message&) = default;
};

/// Text to tokens and back, and the model's own chat template. Thread-safe after construction.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Name shown to clients, e.g. the model file's general.name.
  [[nodiscard]] virtual const std::string& model_name() const = 0;
  [[nodiscard]] virtual std::uint32_t vocabulary_size() const = 0;

  /// `special`: control tokens written in the text (such as "<|im_end|>") become those tokens, except where
  /// `escape` has been; for what `render` gives, never for bare text of a client.
  [[nodiscard]] virtual std::vector<token_id> tokenize(std::string_view text, bool special) const = 0;

  /// The raw bytes of a token, maybe part of a character; empty for control tokens.
  [[nodiscard]] virtual std::string piece(token_id token) const = 0;

  /// True for tokens that end a generation.
  [[nodiscard]] virtual bool ends_generation(token_id token) const = 0;

  /// Tokens that a plain (non-chat) prompt begins with, usually none or one.
  [[nodiscard]] virtual std::vector<token_id> prefix() const = 0;

  /// The messages in the model's template, with the header of the assistant's answer at the end if
  /// `for_answer`. Roles and contents stand in it as `escape` gives them, so that `tokenize(…, true)` makes
  /// control tokens of the template's own only. `invalid_argument` without messages, or with one that has no
  /// role or is no UTF-8.
  [[nodiscard]] virtual result<std::string> render(std::vector<chat_message> messages,
                                                   bool for_answer) const = 0;

  /// A client's text as `render` puts it into the template.
  [[nodiscard]] virtual std::string escape(std::string_view client_text) const = 0;
};

}  // namespace baton::actors::engines
