#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/engines/tokenizer.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"

namespace baton::apps::demo {

/// A chat that ends with a question, after a log that pads it to about as many tokens. The same for the same
/// arguments.
std::vector<actors::engines::chat_message> make_conversation(const actors::engines::tokenizer& text,
                                                             std::uint32_t tokens);

/// The question at its end.
const std::string& last_question();

/// The prompt that a gateway makes of it.
result<std::vector<token_id>> prompt_of(const actors::engines::tokenizer& text,
                                        const std::vector<actors::engines::chat_message>& messages);

/// The tokens that have these bytes, one each; nothing if there is one that no token has.
std::optional<std::vector<token_id>> tokens_of(const actors::engines::tokenizer& text,
                                               const std::vector<std::string>& pieces);

}  // namespace baton::apps::demo
