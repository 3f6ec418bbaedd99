#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "schemas/ids.hpp"
#include "schemas/session.hpp"

namespace baton::actors::protocol {

/// Whether nothing more is generated in `turn`, the last one of `log`: its last token ends it, or it has
/// `max_tokens`, or the context is used up. One rule for the engine that generates and for an owner that
/// finds the tokens there when it takes over.
[[nodiscard]] inline bool is_complete(const turn_header& turn, std::span<const token_id> log,
                                      std::uint32_t context_tokens) {
  if (log.size() <= turn.prompt_end) return false;
  const auto& ends = turn.parameters.end_tokens;
  return log.size() - turn.prompt_end >= turn.parameters.max_tokens || log.size() >= context_tokens ||
         std::find(ends.begin(), ends.end(), log.back()) != ends.end();
}

}  // namespace baton::actors::protocol
