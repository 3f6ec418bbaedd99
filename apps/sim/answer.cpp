#include "apps/sim/answer.hpp"

#include <algorithm>
#include <vector>

namespace baton::apps::sim {

using namespace actors;

void answer::begin(completion_request request) {
  request_ = std::move(request);
  text_.clear();
  finished_.reset();
  last_ = 0;
}

void answer::on_text(const turn_text& text) {
  if (text.last < last_) in_.blame("INV2: positions of " + whose_ + " fall");
  last_ = text.last;
  text_ += text.text;
}

bool answer::on_finished(const turn_finished& finished) {
  if (finished_) {
    in_.blame("INV2: a turn of " + whose_ + " ends twice");
    return false;
  }
  finished_ = finished;
  return true;
}

void answer::check(oracle& undisturbed, const std::shared_ptr<gateway>& at, bool whole) {
  const gateway_session* session = at ? at->core().find_session(request_.session) : nullptr;
  if (session == nullptr) {
    if (whole) in_.blame("INV1: the session of a finished turn is unknown, " + request_.session);
    return;
  }
  const auto& log = session->stream.log();
  const turn_header* turn = log.last_turn();
  std::vector<token_id> prompt = in_.text->prefix();
  const auto words = in_.text->tokenize(request_.prompt_text, false);
  prompt.insert(prompt.end(), words.begin(), words.end());
  if (turn == nullptr || turn->prompt_end != prompt.size()) {
    if (whole) in_.blame("INV1: the log of " + request_.session + " is not what was asked");
    return;  // refused before it began
  }
  const auto tokens = log.tokens();
  if (!std::equal(prompt.begin(), prompt.end(), tokens.begin()))
    return in_.blame("INV1: the log of " + request_.session + " has another prompt");
  const auto given = tokens.subspan(prompt.size());
  const std::size_t most = whole ? request_.max_tokens : std::max<std::size_t>(given.size(), text_.size());
  const auto expected = undisturbed.continuation(prompt, log.turns(), most);
  if (given.size() > expected.size() || !std::equal(given.begin(), given.end(), expected.begin()))
    return in_.blame(
        "INV15: a wrong token in " + request_.session + " after " +
        std::to_string(std::mismatch(given.begin(), given.end(), expected.begin(), expected.end()).first -
                       given.begin()));
  compare_text(expected, whole);
}

void answer::compare_text(const std::vector<token_id>& expected, bool whole) {
  std::string words;
  for (const token_id token : expected)
    words += in_.text->piece(token);
  const auto stop = request_.stop.empty() ? std::string::npos : words.find(request_.stop.front());
  if (stop != std::string::npos) words.resize(stop);
  if (whole ? text_ != words : !words.starts_with(text_))
    return in_.blame("INV15: wrong text in " + request_.session + " (" + std::to_string(text_.size()) +
                     " of " + std::to_string(words.size()) + " bytes)");
  if (!whole) return;
  const auto reason = stop == std::string::npos ? finish_reason::length : finish_reason::stop;
  if (finished_->reason != reason) in_.blame("INV2: " + request_.session + " ended for another reason");
  if (reason == finish_reason::length && finished_->completion_tokens != request_.max_tokens)
    in_.blame("INV2: " + request_.session + " counts " + std::to_string(finished_->completion_tokens) +
              " tokens of " + std::to_string(request_.max_tokens));
}

}  // namespace baton::apps::sim
