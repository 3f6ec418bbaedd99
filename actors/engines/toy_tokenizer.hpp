#pragma once

#include "actors/engines/control_text.hpp"
#include "actors/engines/tokenizer.hpp"

/// The vocabulary of the toy engine: 256 bytes and a few control tokens.
namespace baton::actors::engines::toy {

inline constexpr token_id end_of_text = 256;      ///< "<|endoftext|>", ends a generation
inline constexpr token_id turn_start = 257;       ///< "<|im_start|>"
inline constexpr token_id turn_end = 258;         ///< "<|im_end|>", ends a generation
inline constexpr std::uint32_t vocabulary = 260;  ///< the rest is unused

}  // namespace baton::actors::engines::toy

namespace baton::actors::engines {

/// Bytes as tokens, with a template in the manner of ChatML. Thread-safe.
class toy_tokenizer final : public tokenizer {
 public:
  explicit toy_tokenizer(std::string model_name = "toy");

  [[nodiscard]] const std::string& model_name() const override { return name_; }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return toy::vocabulary; }
  [[nodiscard]] std::vector<token_id> tokenize(std::string_view text, bool special) const override;
  [[nodiscard]] std::string piece(token_id token) const override;
  [[nodiscard]] bool ends_generation(token_id token) const override;
  [[nodiscard]] std::vector<token_id> prefix() const override { return {}; }
  /// "<|im_start|>role\ncontent<|im_end|>\n" for each message.
  [[nodiscard]] result<std::string> render(std::vector<chat_message> messages,
                                           bool for_answer) const override;
  [[nodiscard]] std::string escape(std::string_view client_text) const override;

 private:
  std::string name_;
  control_text control_;
};

}  // namespace baton::actors::engines
