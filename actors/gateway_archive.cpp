#include "actors/gateway_archive.hpp"

#include <algorithm>
#include <utility>

#include "actors/archive/objects.hpp"
#include "schemas/limits.hpp"

namespace baton::actors {

namespace {

/// Where the conversation is kept; empty if it has neither a name nor messages.
std::string key_of(const archived_conversation& what) {
  if (!what.name.empty()) return archive::conversation_key(what.name);
  return what.ends.empty() ? std::string{} : archive::conversation_key(what.ends.back().messages_key);
}

/// Where what the request continues may be, the best first; nowhere if `sessions` has it.
std::vector<std::string> keys_of(const completion_request& request, const gateway_sessions& sessions) {
  std::vector<std::string> keys;
  if (!request.session.empty()) {
    if (sessions.find(request.session) == nullptr) keys.push_back(archive::conversation_key(request.session));
    return keys;
  }
  for (const std::uint64_t end : sessions.unknown_ends(request, limits::recall_keys))
    keys.push_back(archive::conversation_key(end));
  return keys;
}

}  // namespace

std::optional<recall_conversation> gateway_archive::recall(turn_handle handle,
                                                           const completion_request& request,
                                                           const completion_service::receiver& events,
                                                           const gateway_sessions& sessions, time_point now) {
  if (waiting_.size() >= limits::recalls_waiting) return std::nullopt;
  auto keys = keys_of(request, sessions);
  if (keys.empty()) return std::nullopt;
  const std::uint64_t ticket = next_ticket_++;
  waiting_.emplace(ticket, waiting_request{handle, request, events, now});
  return recall_conversation{ticket, std::move(keys)};
}

std::optional<gateway_archive::waiting_request> gateway_archive::take(std::uint64_t ticket) {
  auto found = waiting_.extract(ticket);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void gateway_archive::forget(turn_handle handle) {
  std::erase_if(waiting_, [&](const auto& it) { return it.second.handle == handle; });
}

std::vector<gateway_archive::waiting_request> gateway_archive::overdue(time_point now) {
  std::vector<waiting_request> out;
  while (!waiting_.empty() && now - waiting_.begin()->second.since >= limits::recall_deadline)
    out.push_back(std::move(waiting_.extract(waiting_.begin()).mapped()));
  return out;
}

bool gateway_archive::continues(const archived_conversation& found, const completion_request& request,
                                const gateway_sessions& sessions) {
  if (found.name != request.session) return false;  // another with the same hash
  if (!found.name.empty()) return sessions.find(found.name) == nullptr;
  const auto keys = keys_of(request, sessions);
  return std::find(keys.begin(), keys.end(), key_of(found)) != keys.end();
}

std::optional<keep_conversation> gateway_archive::keep(gateway_session& session,
                                                       const gateway_sessions& sessions) {
  archived_conversation what{session.name, session.fingerprint, {}, session.ends};
  std::string key = key_of(what);
  if (key.empty()) return std::nullopt;
  what.log = session.stream.log().piece_from(0);
  keep_conversation out{std::move(what), {std::move(key)}, {}};
  if (!session.name.empty()) return out;
  const std::uint64_t end = session.ends.back().messages_key;
  const std::uint64_t before = std::exchange(session.kept_under, end);
  // Not what another conversation of the same messages has been kept under meanwhile.
  if (before != 0 && before != end && sessions.find_end(before) == &session)
    out.obsolete.push_back(archive::conversation_key(before));
  return out;
}

}  // namespace baton::actors
