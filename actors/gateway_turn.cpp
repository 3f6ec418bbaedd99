#include "actors/gateway_turn.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors {

gateway_turn::gateway_turn(turn_handle handle, completion_request request,
                           completion_service::receiver events, gateway_session& session,
                           const turn_header& header)
    : handle_(handle),
      request_(std::move(request)),
      events_(std::move(events)),
      session_(&session),
      number_(header.number),
      prompt_end_(header.prompt_end),
      end_tokens_(header.parameters.end_tokens),
      text_(request_.stop) {}

void gateway_turn::taken(epoch under) {
  if (under == taken_under_) return;
  if (taken_under_ != epoch{}) ++failovers_;
  taken_under_ = under;
  recomputed_before_ += std::exchange(recomputed_, 0);
}

void gateway_turn::started(std::uint32_t cached_tokens) {
  if (said_started_) return;
  said_started_ = true;
  cached_ = cached_tokens;
  events_(turn_started{session_->id, prompt_end_, cached_});
}

released_token gateway_turn::describe(const turn_tokens& tokens, std::size_t index,
                                      const engines::tokenizer& text) const {
  released_token out;
  out.token = tokens.tokens[index];
  out.bytes = text.piece(out.token);
  if (index < tokens.reports.size()) {
    out.logprob = tokens.reports[index].logprob;
    out.alternatives = tokens.reports[index].alternatives;
    for (const token_logprob& it : out.alternatives)
      out.alternative_bytes.push_back(text.piece(it.token));
  }
  return out;
}

void gateway_turn::show(text::text_piece piece, const turn_tokens& tokens, const std::string& node) {
  turn_text out;
  out.text = std::move(piece.text);
  answer_ += out.text;
  out.last = session_->stream.log().length() - 1;
  out.node = node;
  out.epoch = tokens.epoch;
  out.lag_tokens = tokens.lag_tokens;
  for (; piece.tokens > 0 && !undescribed_.empty(); --piece.tokens) {
    out.tokens.push_back(std::move(undescribed_.front()));
    undescribed_.pop_front();
  }
  events_(out);
}

void gateway_turn::finish(const turn_tokens& tokens, finish_reason reason) {
  turn_finished out;
  out.reason = reason;
  out.prompt_tokens = prompt_end_;
  out.cached_tokens = cached_;
  out.completion_tokens = keep_ - prompt_end_;
  out.evaluated_tokens = tokens.evaluated_tokens;
  out.recomputed_tokens = recomputed_before_ + recomputed_;
  out.failovers = failovers_;
  events_(out);
}

bool gateway_turn::released(const turn_tokens& tokens, std::size_t fresh, const std::string& node,
                            const engines::tokenizer& text) {
  started(tokens.cached_tokens);
  taken(tokens.epoch);
  recomputed_ = tokens.recomputed_tokens;
  const position length = session_->stream.log().length();
  // Its first owner may have restored rows since it took the turn.
  if (session_->restore_from != session_id{} && failovers_ == 0 && length - fresh == prompt_end_)
    cached_ = std::max(cached_, tokens.cached_tokens);
  text::text_piece shown;
  bool ended = false;
  for (std::size_t i = tokens.tokens.size() - fresh; i < tokens.tokens.size() && !text_.stopped(); ++i) {
    const token_id token = tokens.tokens[i];
    ended = std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
    if (ended) break;
    if (request_.sampling.logprobs) undescribed_.push_back(describe(tokens, i, text));
    text::text_piece piece = text_.feed(text.piece(token));
    shown.text += piece.text;
    shown.tokens += piece.tokens;
  }
  if (text_.stopped()) {
    keep_ = prompt_end_ + static_cast<position>(text_.tokens_used());
    show(std::move(shown), tokens, node);
    finish(tokens, finish_reason::stop);
    return true;
  }
  if (tokens.last) {
    text::text_piece rest = text_.finish();
    shown.text += rest.text;
    shown.tokens += rest.tokens;
    const token_id last = session_->stream.log().tokens().back();
    ended = std::find(end_tokens_.begin(), end_tokens_.end(), last) != end_tokens_.end();
  }
  if (fresh > 0 || !shown.text.empty()) show(std::move(shown), tokens, node);
  if (!tokens.last) return false;
  keep_ = length;
  finish(tokens, ended ? finish_reason::stop : finish_reason::length);
  return true;
}

void gateway_turn::unserve(time_point now) {
  if (served != epoch{}) waiting_since = now;
  served = epoch{};
  asking = false;
}

void gateway_turn::failed(const error& why) {
  keep_ = session_->stream.log().length();
  events_(turn_failed{why});
}

}  // namespace baton::actors
