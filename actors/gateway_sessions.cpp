#include "actors/gateway_sessions.hpp"

#include <algorithm>
#include <utility>

#include "schemas/hash.hpp"

namespace baton::actors {

namespace {

std::uint64_t extend_key(std::uint64_t key, const engines::chat_message& message) {
  return hash_text(message.content, hash_text(message.role, key));
}

/// Of all beginnings of the messages, by their number.
std::vector<std::uint64_t> keys_of(std::span<const engines::chat_message> messages) {
  std::vector<std::uint64_t> keys{0};
  for (const engines::chat_message& message : messages)
    keys.push_back(extend_key(keys.back(), message));
  return keys;
}

/// Of the turn that ended with so many messages of this hash; nullptr if there is none.
const conversation_end* find_end(std::span<const conversation_end> ends, std::size_t messages,
                                 std::uint64_t key) {
  const auto end = std::find_if(ends.begin(), ends.end(), [&](const conversation_end& it) {
    return it.messages == messages && it.messages_key == key;
  });
  return end == ends.end() ? nullptr : &*end;
}

std::size_t common_prefix(std::span<const token_id> a, std::span<const token_id> b) {
  const auto [end, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

gateway_session* gateway_sessions::find(session_id session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

const gateway_session* gateway_sessions::find(const std::string& name) const {
  const auto named = by_name_.find(name);
  return named == by_name_.end() ? nullptr : &sessions_.at(named->second);
}

gateway_sessions::count gateway_sessions::in_group(group_id group) const {
  count out;
  for (const auto& [id, session] : sessions_) {
    if (session.group != group) continue;
    ++out.all;
    if (session.busy) ++out.busy;
  }
  return out;
}

result<placed_prompt> gateway_sessions::place(const completion_request& request) {
  gateway_session* named = nullptr;
  if (const auto found = by_name_.find(request.session); !request.session.empty() && found != by_name_.end())
    named = find(found->second);
  if (named != nullptr && named->busy)
    return {errc::conflict, "session \"" + request.session + "\" has a turn in progress"};
  if (!request.messages.empty()) return place_chat(request, named);
  placed_prompt plain = place_plain(request, named);
  if (plain.tokens.empty()) return {errc::invalid_argument, "the prompt is empty"};
  return plain;
}

placed_prompt gateway_sessions::place_plain(const completion_request& request, gateway_session* named) const {
  placed_prompt out;
  out.tokens = request.prompt_tokens;
  if (out.tokens.empty()) {
    out.tokens = text_.prefix();
    const auto words = text_.tokenize(request.prompt_text, false);
    out.tokens.insert(out.tokens.end(), words.begin(), words.end());
  }
  if (named == nullptr || out.tokens.empty()) return out;
  out.session = named;
  // At least one token is left to evaluate.
  const std::size_t shared =
      std::min(common_prefix(named->stream.log().tokens(), out.tokens), out.tokens.size() - 1);
  out.base = static_cast<position>(shared);
  out.tokens.erase(out.tokens.begin(), out.tokens.begin() + static_cast<std::ptrdiff_t>(shared));
  return out;
}

result<placed_prompt> gateway_sessions::place_chat(const completion_request& request,
                                                   gateway_session* named) {
  const auto& messages = request.messages;
  auto whole = text_.render(messages, true);
  if (!whole) return whole.failure();
  placed_prompt out;
  out.session = named;
  // The longest beginning of the messages that a finished turn ended with.
  const std::vector<std::uint64_t> keys = keys_of(messages);
  for (std::size_t n = messages.size() - 1; n > 0; --n) {
    gateway_session* candidate = named;
    if (request.session.empty()) {
      const auto known = by_messages_.find(keys[n]);
      candidate = known == by_messages_.end() ? nullptr : find(known->second);
    }
    if (candidate == nullptr || candidate->busy || messages[n - 1].role != "assistant") continue;
    const conversation_end* end = actors::find_end(candidate->ends, n, keys[n]);
    if (end == nullptr) continue;
    const auto before =
        text_.render({messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n) - 1}, true);
    if (!before) continue;
    const std::string answered = *before + text_.escape(messages[n - 1].content);
    if (!whole->starts_with(answered)) continue;
    out.tokens = text_.tokenize(std::string_view(*whole).substr(answered.size()), true);
    // The template ends the answer with the token that the model has ended it with already.
    const auto log = candidate->stream.log().tokens();
    if (!out.tokens.empty() && text_.ends_generation(log[end->length - 1]) &&
        out.tokens.front() == log[end->length - 1])
      out.tokens.erase(out.tokens.begin());
    if (out.tokens.empty()) continue;
    out.session = candidate;
    out.base = end->length;
    return out;
  }
  out.tokens = text_.tokenize(*whole, true);
  if (out.tokens.empty()) return {errc::invalid_argument, "the prompt is empty"};
  return out;
}

const gateway_session* gateway_sessions::find_end(std::uint64_t messages_key) const {
  const auto known = by_messages_.find(messages_key);
  const auto found = known == by_messages_.end() ? sessions_.end() : sessions_.find(known->second);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::vector<std::uint64_t> gateway_sessions::unknown_ends(const completion_request& request,
                                                          std::size_t most) const {
  const auto& messages = request.messages;
  const std::vector<std::uint64_t> keys = keys_of(messages);
  std::vector<std::uint64_t> out;
  for (std::size_t n = messages.size(); n-- > 1;) {
    if (messages[n - 1].role != "assistant") continue;
    const gateway_session* known = find_end(keys[n]);
    if (known != nullptr && actors::find_end(known->ends, n, keys[n]) != nullptr) return {};
    if (out.size() < most) out.push_back(keys[n]);
  }
  return out;
}

session_id gateway_sessions::fresh_id() {
  session_id id{};
  do
    id = session_id{random_()};
  while (sessions_.contains(id));
  return id;
}

gateway_session& gateway_sessions::create(const std::string& name, group_id group, std::uint64_t fingerprint,
                                          time_point now) {
  const session_id id = fresh_id();
  gateway_session session{
      id, name, group, fingerprint, protocol::client_stream{protocol::session_log{id, fingerprint}}, {}};
  session.used_at = now;
  if (!name.empty()) by_name_[name] = id;
  return sessions_.emplace(id, std::move(session)).first->second;
}

bool gateway_sessions::revive(const archived_conversation& from, group_id group, time_point now) {
  protocol::session_log log{fresh_id(), from.fingerprint};
  session_piece piece = from.log;
  piece.session = log.session();
  piece.chain_before = log.chain();
  const auto is_outside = [&](const conversation_end& it) {
    return it.length == 0 || it.length > piece.end();
  };
  if (piece.tokens.empty() || std::any_of(from.ends.begin(), from.ends.end(), is_outside) ||
      !log.adopt(piece))
    return false;
  log.close_turn();
  const session_id id = log.session();
  gateway_session session{
      id, from.name, group, from.fingerprint, protocol::client_stream{std::move(log)}, from.ends};
  session.used_at = now;
  session.restore_from = from.log.session;
  if (!from.name.empty()) {
    by_name_[from.name] = id;
  } else if (!from.ends.empty()) {
    session.kept_under = from.ends.back().messages_key;
    for (const conversation_end& end : from.ends)
      by_messages_[end.messages_key] = id;
  }
  sessions_.emplace(id, std::move(session));
  return true;
}

void gateway_sessions::remember(gateway_session& session, const completion_request& request,
                                const std::string& answer) {
  if (request.messages.empty()) return;
  std::uint64_t key = 0;
  for (const engines::chat_message& message : request.messages)
    key = extend_key(key, message);
  key = extend_key(key, {"assistant", answer});
  const position length = session.stream.log().length();
  std::erase_if(session.ends, [&](const auto& it) { return it.length >= length; });
  session.ends.push_back({key, static_cast<std::uint32_t>(request.messages.size() + 1), length});
  if (session.name.empty()) by_messages_[key] = session.id;
}

void gateway_sessions::forget(session_id id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  by_name_.erase(found->second.name);
  for (const auto& end : found->second.ends)
    if (const auto known = by_messages_.find(end.messages_key);
        known != by_messages_.end() && known->second == id)
      by_messages_.erase(known);
  sessions_.erase(found);
}

void gateway_sessions::trim(std::size_t most) {
  while (sessions_.size() > most) {
    const gateway_session* oldest = nullptr;
    for (const auto& [id, session] : sessions_)
      if (!session.busy && (oldest == nullptr || session.used_at < oldest->used_at)) oldest = &session;
    if (oldest == nullptr) return;
    forget(oldest->id);
  }
}

}  // namespace baton::actors
