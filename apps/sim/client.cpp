#include "apps/sim/client.hpp"

#include <algorithm>
#include <utility>

namespace baton::apps::sim {

using namespace actors;

client::client(world& in, std::string name, std::function<std::shared_ptr<gateway>()> reach)
    : in_(in), name_(std::move(name)), reach_(std::move(reach)), oracle_(in.how), answer_(in, name_) {
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
  completion_request request;
  request.max_tokens = random.between<std::uint32_t>(1, random.chance(0.2) ? 90 : 30);
  const std::size_t length = random.between<std::size_t>(1, random.chance(0.2) ? 80 : 20);
  if (random.chance(0.08) && !history_.empty())
    history_.resize(random.between<std::size_t>(0, history_.size() - 1));  // edited
  if (history_.size() + length + request.max_tokens + 1 >= in_.how.context_tokens || random.chance(0.05)) {
    session_ = name_ + "/" + std::to_string(++conversation_);
    history_.clear();
  }
  request.session = session_;
  request.prompt_text = history_ + words(length);
  request.sampling.temperature = random.chance(0.5) ? 0.0F : 0.9F;
  request.sampling.seed = random.number();
  request.ignore_end = true;
  if (random.chance(0.2)) request.stop = {words(1)};
  cancel_after_.reset();
  if (!last_turns_ && random.chance(0.1)) cancel_after_ = random.between<std::size_t>(0, 20);
  ask(std::move(request));
}

void client::ask(completion_request request) {
  const auto at = reach_();
  if (!at) return rest();
  ++turn_;
  ++counted_.turns;
  in_.note(session_ + " asks " + std::to_string(turn_) + ": " + std::to_string(request.prompt_text.size()) +
           " known, " + std::to_string(request.max_tokens) + " wanted");
  open_ = true;
  at_ = at;
  answer_.begin(std::move(request));
  handle_ = at->submit(answer_.request(), [weak = weak_from_this(), turn = turn_](const turn_event& event) {
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
    if (answer_.on_finished(*finished)) ended(true);
  } else if (std::holds_alternative<turn_failed>(event)) {
    ++counted_.failed;
    ended(false);
  }
}

void client::on_text(const turn_text& text) {
  answer_.on_text(text);
  ++counted_.tokens;
  if (!cancel_after_ || answer_.text().size() < *cancel_after_) return;
  cancel_after_.reset();
  in_.time.after(0ns, [self = shared_from_this(), turn = turn_] {
    const auto at = self->at_.lock();
    if (!at || !self->open_ || self->turn_ != turn || self->answer_.finished()) return;
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
  history_ = answer_.request().prompt_text + answer_.text();
  session_ = name_ + "/" + std::to_string(++conversation_);  // nobody knows the old one any more
  rest();
}

void client::end_turn(bool whole) {
  if (!open_) return;
  in_.note(session_ + (whole ? " has its answer" : " has no whole answer") + ", " +
           std::to_string(answer_.text().size()) + " bytes");
  const auto& request = answer_.request();
  if (const auto& finished = answer_.finished(); whole && finished)
    in_.note("  reason " + std::to_string(static_cast<int>(finished->reason)) + ", " +
             std::to_string(finished->completion_tokens) + " tokens, failovers " +
             std::to_string(finished->failovers) + ", stop '" +
             (request.stop.empty() ? "" : request.stop.front()) + "'");
  answer_.check(oracle_, at_.lock(), whole);
  open_ = false;
  history_ = answer_.request().prompt_text + answer_.text();
  if (last_turns_ && *last_turns_ > 0 && whole) --*last_turns_;
  rest();
}

std::string client::describe() const {
  return session_ + (open_ ? " has a turn open, " + std::to_string(answer_.text().size()) + " of " +
                                 std::to_string(answer_.request().max_tokens) + " tokens"
                           : " rests");
}

}  // namespace baton::apps::sim
