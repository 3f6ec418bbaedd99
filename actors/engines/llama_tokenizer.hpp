#pragma once

#include "actors/engines/control_text.hpp"
#include "actors/engines/llama_library.hpp"
#include "actors/engines/tokenizer.hpp"

struct llama_vocab;

namespace baton::actors::engines {

/// The tokenizer and the chat template of a GGUF file, without its weights: cheap enough for a gateway.
class llama_tokenizer final : public tokenizer {
 public:
  /// `io_failed` or `malformed` if the file cannot be used, `unsupported` if it has no vocabulary. All name
  /// the file.
  static result<std::unique_ptr<llama_tokenizer>> load(const std::string& model_path);

  [[nodiscard]] const std::string& model_name() const override { return name_; }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return vocabulary_size_; }
  /// Bytes that are not UTF-8 become replacement characters where the vocabulary cannot express them.
  [[nodiscard]] std::vector<token_id> tokenize(std::string_view text, bool special) const override;
  [[nodiscard]] std::string piece(token_id token) const override;
  [[nodiscard]] bool ends_generation(token_id token) const override;
  [[nodiscard]] std::vector<token_id> prefix() const override;
  /// `unsupported` if the model has no template or one that llama.cpp does not know, `invalid_argument` also
  /// with a zero byte in a message.
  [[nodiscard]] result<std::string> render(std::vector<chat_message> messages,
                                           bool for_answer) const override;
  [[nodiscard]] std::string escape(std::string_view client_text) const override;

 private:
  explicit llama_tokenizer(llama_model_handle model, std::string name);
  [[nodiscard]] std::vector<token_id> tokenize_part(std::string_view text, bool special) const;
  [[nodiscard]] bool known(token_id token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocabulary_size_;
  }

  llama_model_handle model_;
  const llama_vocab* vocabulary_ = nullptr;  // of `model_`
  std::uint32_t vocabulary_size_ = 0;
  std::string name_;
  control_text control_;
};

}  // namespace baton::actors::engines
