#include "actors/protocol/client_stream.hpp"

#include <algorithm>

#include "schemas/limits.hpp"

namespace baton::actors::protocol {

result<void> client_stream::open(const turn_header& turn, std::span<const token_id> prompt) {
  if (turn.base > log_.length()) return {errc::gap, "a turn past the end of the log"};
  if (turn.prompt_end <= turn.base || prompt.size() != turn.prompt_end - turn.base)
    return {errc::invalid_argument, "the prompt does not fill the turn"};
  if (turn.prompt_end > limits::session_tokens) return {errc::no_room, "a prompt past the longest session"};
  std::size_t kept = 0;
  for (const turn_header& before : log_.turns()) {
    if (before.base >= turn.base) break;
    if (before.number >= turn.number) return {errc::invalid_argument, "turn numbers out of order"};
    ++kept;
  }
  if (kept >= limits::session_turns) return {errc::no_room, "too many turns"};
  log_.truncate(turn.base);
  if (auto begun = log_.begin_turn(turn); !begun) return begun;
  return log_.append(prompt);
}

client_stream::verdict client_stream::accept(const turn_tokens& tokens, epoch sealed, std::size_t& fresh) {
  fresh = 0;
  if (tokens.epoch < sealed) return verdict::stale;
  const turn_header* turn = log_.open_turn();
  if (turn == nullptr || turn->number != tokens.turn)
    return verdict::duplicate;  // of a turn that has ended here
  if (tokens.first > log_.length()) return verdict::gap;
  if (tokens.first < turn->prompt_end || log_.chain_at(tokens.first) != tokens.chain_before)
    return verdict::diverged;
  const std::size_t known = std::min<std::size_t>(log_.length() - tokens.first, tokens.tokens.size());
  const auto mine = log_.tokens().subspan(tokens.first, known);
  if (!std::equal(mine.begin(), mine.end(), tokens.tokens.begin())) return verdict::diverged;
  fresh = tokens.tokens.size() - known;
  if (fresh == 0) return verdict::duplicate;
  if (!log_.append(std::span{tokens.tokens}.subspan(known)))
    return verdict::diverged;  // past the longest session
  return verdict::accepted;
}

void client_stream::close(position keep) {
  log_.truncate(std::min(keep, log_.length()));
  log_.close_turn();
}

session_piece client_stream::piece_for(history_point have) const {
  if (have.length > log_.length()) return log_.piece_from(log_.length());
  return log_.piece_from(log_.contains(have) ? have.length : 0);
}

}  // namespace baton::actors::protocol
