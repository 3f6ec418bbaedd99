#include "actors/engines/toy_tokenizer.hpp"

#include <array>
#include <utility>

namespace baton::actors::engines {
namespace {

constexpr std::array<std::pair<std::string_view, token_id>, 3> control_texts{{
    {"<|endoftext|>", toy::end_of_text},
    {"<|im_start|>", toy::turn_start},
    {"<|im_end|>", toy::turn_end},
}};

std::vector<std::string> spellings() {
  std::vector<std::string> all;
  for (const auto& [text, token] : control_texts)
    all.emplace_back(text);
  return all;
}

std::vector<token_id> tokenize_part(std::string_view text, bool special) {
  std::vector<token_id> tokens;
  tokens.reserve(text.size());
  while (!text.empty()) {
    token_id token = static_cast<unsigned char>(text.front());
    std::size_t length = 1;
    for (const auto& [control_text, control] : control_texts) {
      if (!special || !text.starts_with(control_text)) continue;
      token = control;
      length = control_text.size();
    }
    tokens.push_back(token);
    text.remove_prefix(length);
  }
  return tokens;
}

}  // namespace

toy_tokenizer::toy_tokenizer(std::string model_name) : name_(std::move(model_name)), control_(spellings()) {}

std::vector<token_id> toy_tokenizer::tokenize(std::string_view text, bool special) const {
  return special ? control_.tokenize_parts(text, tokenize_part) : tokenize_part(text, false);
}

std::string toy_tokenizer::escape(std::string_view client_text) const {
  return control_.escape(client_text);
}

std::string toy_tokenizer::piece(token_id token) const {
  return token >= 0 && token < 256 ? std::string(1, static_cast<char>(token)) : std::string();
}

bool toy_tokenizer::ends_generation(token_id token) const {
  return token == toy::end_of_text || token == toy::turn_end;
}

result<std::string> toy_tokenizer::render(std::vector<chat_message> messages, bool for_answer) const {
  if (messages.empty()) return {errc::invalid_argument, "a chat needs at least one message"};
  std::string text;
  for (const auto& [role, content] : messages) {
    if (role.empty() || !control_text::is_clean(role) || !control_text::is_clean(content))
      return {errc::invalid_argument, "a chat message needs a role, and is UTF-8"};
    text.append("<|im_start|>").append(escape(role)).append("\n");
    text.append(escape(content)).append("<|im_end|>\n");
  }
  if (for_answer) text.append("<|im_start|>assistant\n");
  return text;
}

}  // namespace baton::actors::engines
