#include "apps/demo/conversation.hpp"

#include <array>
#include <unordered_map>
#include <utility>

namespace baton::apps::demo {
namespace {

using actors::engines::chat_message;

constexpr std::array ships{"the schooner", "a fishing boat", "the mail steamer", "an old brig",
                           "the pilot cutter"};
constexpr std::array acts{"passed the northern rocks",  "waited for the tide",
                          "lost a sail in the gale",    "answered our signal lamp",
                          "turned back before the fog", "brought oil and letters"};
constexpr std::array winds{
    "a light wind from the west", "heavy rain",     "a swell from the south", "clear stars",
    "snow over the cliffs",       "no wind at all", "thunder far out at sea"};

chat_message entry_of(std::uint32_t number) {
  return {"user", "Log entry " + std::to_string(number) + ": " + ships[number % ships.size()] + " " +
                      acts[number % acts.size()] + " with " + winds[number % winds.size()] +
                      ". Please note it."};
}

chat_message noted(std::uint32_t number) {
  return {"assistant", "Noted as entry " + std::to_string(number) + "."};
}

std::size_t count(const actors::engines::tokenizer& text, const std::vector<chat_message>& messages,
                  bool for_answer) {
  const auto whole = text.render(messages, for_answer);
  return whole.ok() ? text.tokenize(*whole, true).size() : 0;
}

}  // namespace

const std::string& last_question() {
  static const std::string question =
      "Tell me a story about a lighthouse keeper who finds a letter in a bottle. Take your time.";
  return question;
}

std::vector<chat_message> make_conversation(const actors::engines::tokenizer& text, std::uint32_t tokens) {
  const chat_message before{"system", "You are the assistant of a lighthouse keeper."};
  const chat_message question{"user", last_question()};
  std::vector<chat_message> messages{before};
  std::size_t length = count(text, {before, question}, true);
  // Templates may put something before the first message, so an exchange is counted as what it adds.
  const std::size_t alone = count(text, {before}, false);
  for (std::uint32_t number = 1;; ++number) {
    const auto entry = entry_of(number);
    const auto answer = noted(number);
    const std::size_t more = count(text, {before, entry, answer}, false) - alone;
    if (more == 0 || length + more > tokens) break;
    length += more;
    messages.push_back(entry);
    messages.push_back(answer);
  }
  messages.push_back(question);
  return messages;
}

result<std::vector<token_id>> prompt_of(const actors::engines::tokenizer& text,
                                        const std::vector<chat_message>& messages) {
  const auto whole = text.render(messages, true);
  if (!whole) return whole.failure();
  return text.tokenize(*whole, true);
}

std::optional<std::vector<token_id>> tokens_of(const actors::engines::tokenizer& text,
                                               const std::vector<std::string>& pieces) {
  std::unordered_map<std::string, token_id> known;
  for (std::uint32_t i = 0; i < text.vocabulary_size(); ++i) {
    const auto token = static_cast<token_id>(i);
    auto bytes = text.piece(token);
    // Control tokens all look the same; of those a model generates the ones that end an answer.
    if (bytes.empty() && !text.ends_generation(token)) continue;
    known.emplace(std::move(bytes), token);
  }
  std::vector<token_id> tokens;
  for (const auto& piece : pieces) {
    const auto found = known.find(piece);
    if (found == known.end()) return std::nullopt;
    tokens.push_back(found->second);
  }
  return tokens;
}

}  // namespace baton::apps::demo
