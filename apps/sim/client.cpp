#include "apps/sim/client.hpp"

#include <algorithm>
#include <utility>

namespace baton::apps::sim {

using namespace actors;

client::client(world& in, std::string name, std::function<std::shared_ptr<gateway>()> reach)
    : in_(in), name_(std::move(name)), reach_(std::move(reach)), oracle_(in.how) {
  session_ = name_ + "/0";
}

std::string client::words(std::size_t length) {
  std::string out;
  for (std::size_t i = 0; i < length; ++i)
    out += static_cast<char>('a' + in_.random.between(0, 25));
  return out;
}

void client::start() {
  rest();
}

void client::rest() {
  const auto pause = in_.random.chance(0.5) ? in_.random.time(1ms, 30ms) : in_.random.time(30ms, 400ms);
  in_.time.after(pause, [self = shared_from_this()] {
    if (!self->open_ && self->last_turns_.value_or(1) > 0) self->begin_turn();
  });
}

void client::begin_turn() {
  auto& random = in_.random;
  request_ = {};
  request_.max_tokens = random.between<std::uint32_t>(1, random.chance(0.2) ? 90 : 30);
  const std::size_t length = random.between<std::size_t>(1, random.chance(0.2) ? 80 : 20);
  if (random.chance(0.08) && !history_.empty())
    history_.resize(random.between<std::size_t>(0, history_.size() - 1));  // edited
  if (history_.size() + length + request_.max_tokens + 1 >= in_.how.context_tokens || random.chance(0.05)) {
    session_ = name_ + "/" + std::to_string(++conversation_);
    history_.clear();
  }
  request_.session = session_;
  request_.prompt_text = history_ + words(length);
  request_.sampling.temperature = random.chance(0.5) ? 0.0F : 0.9F;
  request_.sampling.seed = random.number();
  request_.ignore_end = true;
  if (random.chance(0.2)) request_.stop = {words(1)};
  cancel_after_.reset();
  if (!last_turns_ && random.chance(0.1)) cancel_after_ = random.between<std::size_t>(0, 20);
  ask();
}

void client::ask() {
  const auto at = reach_();
  if (!at) return rest();
  ++turn_;
  ++counted_.turns;
  in_.note(session_ + " asks " + std::to_string(turn_) + ": " + std::to_string(request_.prompt_text.size()) +
           " known, " + std::to_string(request_.max_tokens) + " wanted");
  open_ = true;
  at_ = at;
  text_.clear();
  finished_.reset();
  last_position_ = 0;
  handle_ = at->submit(request_, [weak = weak_from_this(), turn = turn_](const turn_event& event) {
    if (const auto self = weak.lock()) self->on_event(turn, event);
  });
}

void client::on_event(std::uint64_t turn, const turn_event& event) {
  if (turn != turn_ || !open_) return in_.blame("INV2: " + name_ + " hears of a turn that is over");
  if (const auto* text = std::get_if<turn_text>(&event)) return on_text(*text);
  const auto ended = [this](bool whole) {
    // From within a call of the gateway: what follows waits until that is over.
    in_.time.after(0ns, [self = shared_from_this(), whole] { self->end_turn(whole); });
  };
  if (const auto* finished = std::get_if<turn_finished>(&event)) {
    ++counted_.finished;
    counted_.failovers += finished->failovers;
    if (finished_) return in_.blame("INV2: a turn of " + name_ + " ends twice");
    finished_ = *finished;
    ended(true);
  } else if (std::holds_alternative<turn_failed>(event)) {
    ++counted_.failed;
    ended(false);
  }
}

void client::on_text(const turn_text& text) {
  if (text.last < last_position_) in_.blame("INV2: positions of " + name_ + " fall");
  last_position_ = text.last;
  text_ += text.text;
  ++counted_.tokens;
  if (!cancel_after_ || text_.size() < *cancel_after_) return;
  cancel_after_.reset();
  in_.time.after(0ns, [self = shared_from_this(), turn = turn_] {
    const auto at = self->at_.lock();
    if (!at || !self->open_ || self->turn_ != turn || self->finished_) return;
    ++self->counted_.cancelled;
    at->cancel(self->handle_);
    self->end_turn(false);
  });
}

void client::lose(const std::shared_ptr<gateway>& gone) {
  if (!open_ || at_.lock() != gone) return;
  ++counted_.broken;
  open_ = false;
  ++turn_;
  history_ = request_.prompt_text + text_;
  session_ = name_ + "/" + std::to_string(++conversation_);  // nobody knows the old one any more
  rest();
}

void client::end_turn(bool whole) {
  if (!open_) return;
  in_.note(session_ + (whole ? " has its answer" : " has no whole answer") + ", " +
           std::to_string(text_.size()) + " bytes");
  if (whole)
    in_.note("  reason " + std::to_string(static_cast<int>(finished_->reason)) + ", " +
             std::to_string(finished_->completion_tokens) + " tokens, failovers " +
             std::to_string(finished_->failovers) + ", stop '" +
             (request_.stop.empty() ? "" : request_.stop.front()) + "'");
  check(whole);
  open_ = false;
  history_ = request_.prompt_text + text_;
  if (last_turns_ && *last_turns_ > 0 && whole) --*last_turns_;
  rest();
}

void client::check(bool whole) {
  const auto at = at_.lock();
  const gateway_session* session = at ? at->core().find_session(session_) : nullptr;
  if (session == nullptr) {
    if (whole) in_.blame("INV1: the session of a finished turn is unknown, " + session_);
    return;
  }
  const auto& log = session->stream.log();
  const turn_header* turn = log.last_turn();
  std::vector<token_id> prompt = in_.text->prefix();
  const auto words = in_.text->tokenize(request_.prompt_text, false);
  prompt.insert(prompt.end(), words.begin(), words.end());
  if (turn == nullptr || turn->prompt_end != prompt.size()) {
    if (whole) in_.blame("INV1: the log of " + session_ + " is not what was asked");
    return;  // refused before it began
  }
  const auto tokens = log.tokens();
  if (!std::equal(prompt.begin(), prompt.end(), tokens.begin()))
    return in_.blame("INV1: the log of " + session_ + " has another prompt");
  const auto given = tokens.subspan(prompt.size());
  const std::size_t most = whole ? request_.max_tokens : std::max<std::size_t>(given.size(), text_.size());
  const auto expected = oracle_.continuation(prompt, turn->parameters, most);
  if (given.size() > expected.size() || !std::equal(given.begin(), given.end(), expected.begin()))
    return in_.blame(
        "INV15: a wrong token in " + session_ + " after " +
        std::to_string(std::mismatch(given.begin(), given.end(), expected.begin(), expected.end()).first -
                       given.begin()));
  std::string words_expected;
  for (const token_id token : expected)
    words_expected += in_.text->piece(token);
  const auto stop = request_.stop.empty() ? std::string::npos : words_expected.find(request_.stop.front());
  if (stop != std::string::npos) words_expected.resize(stop);
  if (whole ? text_ != words_expected : !words_expected.starts_with(text_))
    return in_.blame("INV15: wrong text in " + session_ + " (" + std::to_string(text_.size()) + " of " +
                     std::to_string(words_expected.size()) + " bytes)");
  if (!whole) return;
  const auto reason = stop == std::string::npos ? finish_reason::length : finish_reason::stop;
  if (finished_->reason != reason) in_.blame("INV2: " + session_ + " ended for another reason");
  if (reason == finish_reason::length && finished_->completion_tokens != request_.max_tokens)
    in_.blame("INV2: " + session_ + " counts " + std::to_string(finished_->completion_tokens) +
              " tokens of " + std::to_string(request_.max_tokens));
}

std::string client::describe() const {
  return session_ + (open_ ? " has a turn open, " + std::to_string(text_.size()) + " of " +
                                 std::to_string(request_.max_tokens) + " tokens"
                           : " rests");
}

}  // namespace baton::apps::sim
