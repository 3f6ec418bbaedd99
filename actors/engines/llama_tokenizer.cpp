#include "actors/engines/llama_tokenizer.hpp"

#include <llama.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace baton::actors::engines {
namespace {

/// What llama.cpp makes a token of only where special tokens are asked for.
std::vector<std::string> control_spellings(const llama_vocab* vocabulary) {
  std::vector<std::string> all;
  for (token_id token = 0; token < llama_vocab_n_tokens(vocabulary); ++token)
    if ((llama_vocab_get_attr(vocabulary, token) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) !=
        0)
      all.emplace_back(llama_vocab_get_text(vocabulary, token));
  return all;
}

/// llama.cpp looks for each special token through all that is left of a text, again behind each one it finds:
/// a text of many messages takes it seconds. In parts it does not; where a token swallows blanks before it, a
/// part must not end there.
std::size_t part_bytes(const llama_vocab* vocabulary) {
  for (token_id token = 0; token < llama_vocab_n_tokens(vocabulary); ++token)
    if ((llama_vocab_get_attr(vocabulary, token) & LLAMA_TOKEN_ATTR_LSTRIP) != 0) return std::string::npos;
  return 4096;
}

}  // namespace

result<std::unique_ptr<llama_tokenizer>> llama_tokenizer::load(const std::string& model_path) {
  auto model = load_llama_model(model_path, true);
  if (!model) return model.failure();
  if (llama_vocab_type(llama_model_get_vocab(model->get())) == LLAMA_VOCAB_TYPE_NONE) {
    return {errc::unsupported, "the model file has no vocabulary: " + model_path};
  }
  std::string name = llama_metadata(**model, "general.name");
  if (name.empty()) name = std::filesystem::path(model_path).stem().string();
  return std::unique_ptr<llama_tokenizer>(new llama_tokenizer(std::move(*model), std::move(name)));
}

llama_tokenizer::llama_tokenizer(llama_model_handle model, std::string name)
    : model_(std::move(model)),
      vocabulary_(llama_model_get_vocab(model_.get())),
      vocabulary_size_(static_cast<std::uint32_t>(llama_vocab_n_tokens(vocabulary_))),
      name_(std::move(name)),
      control_(control_spellings(vocabulary_), part_bytes(vocabulary_)) {}

std::vector<token_id> llama_tokenizer::tokenize(std::string_view text, bool special) const {
  if (!special) return tokenize_part(text, false);
  return control_.tokenize_parts(
      text, [this](std::string_view part, bool of_template) { return tokenize_part(part, of_template); });
}

std::string llama_tokenizer::escape(std::string_view client_text) const {
  return control_.escape(client_text);
}

std::vector<token_id> llama_tokenizer::tokenize_part(std::string_view text, bool special) const {
  // Longer texts cannot come in: `limits::http_body_bytes` is far below.
  BATON_ASSERT(text.size() < std::numeric_limits<std::int32_t>::max() / 4);
  std::vector<token_id> tokens(text.size() + 8);
  const auto run = [&] {
    return llama_tokenize(vocabulary_, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                          static_cast<std::int32_t>(tokens.size()), false, special);
  };
  std::int32_t count = run();
  if (count < 0 && count != std::numeric_limits<std::int32_t>::min()) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = run();
  }
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  return tokens;
}

std::string llama_tokenizer::piece(token_id token) const {
  if (!known(token) || llama_vocab_is_control(vocabulary_, token)) return {};
  std::string bytes(64, '\0');
  const auto run = [&] {
    return llama_token_to_piece(vocabulary_, token, bytes.data(), static_cast<std::int32_t>(bytes.size()), 0,
                                false);
  };
  std::int32_t length = run();
  if (length < 0) {
    bytes.resize(static_cast<std::size_t>(-length));
    length = run();
  }
  bytes.resize(static_cast<std::size_t>(std::max(length, 0)));
  return bytes;
}

bool llama_tokenizer::ends_generation(token_id token) const {
  return known(token) && llama_vocab_is_eog(vocabulary_, token);
}

std::vector<token_id> llama_tokenizer::prefix() const {
  const token_id begin = llama_vocab_bos(vocabulary_);
  if (!llama_vocab_get_add_bos(vocabulary_) || !known(begin)) return {};
  return {begin};
}

result<std::string> llama_tokenizer::render(std::vector<chat_message> messages, bool for_answer) const {
  if (messages.empty()) return {errc::invalid_argument, "a chat needs at least one message"};
  const char* chat_template = llama_model_chat_template(model_.get(), nullptr);
  if (chat_template == nullptr) return {errc::unsupported, "the model " + name_ + " has no chat template"};
  std::vector<llama_chat_message> views;
  std::size_t bytes = 256;
  for (auto& [role, content] : messages) {
    // The library takes C strings, which would end at a zero byte.
    if (role.empty() || role.find('\0') != std::string::npos || content.find('\0') != std::string::npos ||
        !control_text::is_clean(role) || !control_text::is_clean(content)) {
      return {errc::invalid_argument, "a chat message needs a role, is UTF-8, and has no zero bytes"};
    }
    role = escape(role);
    content = escape(content);
    views.push_back({role.c_str(), content.c_str()});
    bytes += 2 * (role.size() + content.size()) + 64;
  }
  std::string text(bytes, '\0');
  const auto run = [&] {
    return llama_chat_apply_template(chat_template, views.data(), views.size(), for_answer, text.data(),
                                     static_cast<std::int32_t>(text.size()));
  };
  std::int32_t length = run();
  if (length > static_cast<std::int32_t>(text.size())) {
    text.resize(static_cast<std::size_t>(length));
    length = run();
  }
  if (length < 0) return {errc::unsupported, "llama.cpp does not know the chat template of " + name_};
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace baton::actors::engines
