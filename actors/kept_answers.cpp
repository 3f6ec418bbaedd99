#include "actors/kept_answers.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors {

namespace {

std::size_t bytes_of(const turn_event& event) {
  const auto* text = std::get_if<turn_text>(&event);
  if (text == nullptr) return sizeof event;
  std::size_t bytes = sizeof event + text->text.size();
  for (const released_token& token : text->tokens)
    bytes += sizeof token + token.bytes.size() +
             token.alternatives.size() * (sizeof(engines::token_logprob) + sizeof(std::string));
  return bytes;
}

/// As if both had been released in one step.
void append(turn_text& to, const turn_text& more) {
  to.text += more.text;
  to.tokens.insert(to.tokens.end(), more.tokens.begin(), more.tokens.end());
  to.last = more.last;
  to.node = more.node;
  to.epoch = more.epoch;
  to.lag_tokens = more.lag_tokens;
}

}  // namespace

kept_answers::verdict kept_answers::ask(const std::string& key, std::uint64_t request_hash,
                                        turn_handle reader, completion_service::receiver events,
                                        time_point now) {
  now_ = now;
  const auto [found, fresh] = by_key_.try_emplace(key);
  answer_ptr& it = found->second;
  if (fresh) {
    it = std::make_shared<answer>();
    it->key = key;
    it->request_hash = request_hash;
    it->turn = reader;
  } else if (it->request_hash != request_hash) {
    return verdict::conflict;
  }
  for (const turn_event& event : it->events)
    events(event);
  if (!it->ended) {
    std::erase(detached_, it);
    it->readers.emplace(reader, std::move(events));
    readers_.emplace(reader, it);
  }
  return fresh ? verdict::fresh : verdict::attached;
}

completion_service::receiver kept_answers::recorder(const std::string& key) {
  return [this, to = by_key_.at(key)](const turn_event& event) { record(to, event); };
}

void kept_answers::record(const answer_ptr& to, const turn_event& event) {
  const auto* more = std::get_if<turn_text>(&event);
  auto* text = to->events.empty() ? nullptr : std::get_if<turn_text>(&to->events.back());
  if (more != nullptr && text != nullptr)
    append(*text, *more);
  else
    to->events.push_back(event);
  for (const auto& [reader, events] : to->readers)
    events(event);
  const bool failed = std::holds_alternative<turn_failed>(event);
  if (!failed && !std::holds_alternative<turn_finished>(event)) return;
  for (const auto& [reader, events] : to->readers)
    readers_.erase(reader);
  to->readers.clear();
  std::erase(detached_, to);
  to->ended = true;
  to->since = now_;
  if (failed) return forget(to);
  for (const turn_event& kept : to->events)
    to->bytes += bytes_of(kept);
  bytes_ += to->bytes;
  ended_.push_back(to);
}

void kept_answers::forget(const answer_ptr& which) {
  by_key_.erase(which->key);
}

bool kept_answers::leave(turn_handle reader, time_point now) {
  now_ = now;
  const auto found = readers_.extract(reader);
  if (found.empty()) return false;
  const answer_ptr& it = found.mapped();
  it->readers.erase(reader);
  if (it->readers.empty()) {
    it->since = now;
    detached_.push_back(it);
  }
  return true;
}

std::vector<turn_handle> kept_answers::on_tick(time_point now) {
  now_ = now;
  while (!ended_.empty() && (bytes_ > how_.bytes || now - ended_.front()->since > how_.kept_for)) {
    bytes_ -= ended_.front()->bytes;
    forget(ended_.front());
    ended_.pop_front();
  }
  std::vector<turn_handle> out;
  std::erase_if(detached_, [&](const answer_ptr& it) {
    if (now - it->since <= how_.detached_for) return false;
    out.push_back(it->turn);
    forget(it);
    return true;
  });
  return out;
}

}  // namespace baton::actors
