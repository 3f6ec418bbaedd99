#include "apps/demo/conversation.hpp"

#include <array>
#include <unordered_map>
#include <utility>

namespace baton::apps::demo {
namespace {

using actors::engines::chat_message;

constexpr std::array ships{"the schooner Alba", "a fishing boat", "the mail steamer", "an old brig",
                           "the pilot cutter"};
constexpr std::array acts{"passed the northern rocks",  "waited for the tide",
                          "lost a sail in the gale",    "answered our signal lamp",
                          "turned back before the fog", "brought oil and letters"};
constexpr std::array winds{
    "a light wind from the west", "heavy rain",     "a swell from the south", "clear stars",
    "snow over the cliffs",       "no wind at all", "thunder far out at sea"};

/// The numbers of words of the three lists have no common factor, so entries do not repeat soon.
std::string log_entry(std::uint32_t day) {
  return "Day " + std::to_string(day) + ": " + ships[day % ships.size()] + " " + acts[day % acts.size()] +
         "; " + winds[day % winds.size()] + ".\n";
}

std::vector<chat_message> ask(const std::string& log) {
  const std::string before = log.empty() ? "" : "Here is the log of a lighthouse.\n" + log + "\n";
  return {{"system", "You are a helpful assistant who tells stories."}, {"user", before + last_question()}};
}

}  // namespace

const std::string& last_question() {
  static const std::string question =
      "Tell me a long story about a lighthouse keeper who finds a letter in a bottle.";
  return question;
}

std::vector<chat_message> make_conversation(const actors::engines::tokenizer& text, std::uint32_t tokens) {
  const auto length_of = [&text](const std::vector<chat_message>& messages) {
    const auto prompt = prompt_of(text, messages);
    return prompt.ok() ? prompt->size() : 0;
  };
  std::string log;
  // The first entry brings its heading; from then on an entry adds about as many tokens as it has alone.
  std::size_t length = length_of(ask(log_entry(1)));
  for (std::uint32_t day = 1; length <= tokens; ++day) {
    log += log_entry(day);
    length += text.tokenize(log_entry(day + 1), false).size();
  }
  return ask(log);
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
