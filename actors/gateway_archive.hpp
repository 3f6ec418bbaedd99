#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/completion_service.hpp"
#include "actors/gateway_sessions.hpp"
#include "schemas/archive.hpp"

namespace baton::actors {

/// Effect: read the conversation that is under the first of these keys that has one; report it, or that there
/// is none, by `gateway_core::on_recalled`.
struct recall_conversation {
  std::uint64_t ticket = 0;
  std::vector<std::string> keys;
};
/// Effect: write the conversation under each of `keys`, then remove what is under `obsolete`.
struct keep_conversation {
  archived_conversation what;
  std::vector<std::string> keys;
  std::vector<std::string> obsolete;
};

/// What a gateway has in an object store: under which keys its conversations are kept, and which requests
/// wait for what is there of theirs. Pure; not thread-safe.
class gateway_archive {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct waiting_request {
    turn_handle handle{};
    completion_request request;
    completion_service::receiver events;
    time_point since{};
  };

  /// Lets the request wait for its conversation. Nothing if it continues none, if `sessions` has it, or if
  /// too many wait: then it is not taken.
  std::optional<recall_conversation> recall(turn_handle handle, const completion_request& request,
                                            const completion_service::receiver& events,
                                            const gateway_sessions& sessions, time_point now);
  /// The request does not wait any longer; nothing if it has not.
  std::optional<waiting_request> take(std::uint64_t ticket);
  void forget(turn_handle handle);
  /// Those that have waited too long do not wait any longer.
  [[nodiscard]] std::vector<waiting_request> overdue(time_point now);
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

  /// Whether what was found is what the request asks for, and `sessions` still lacks it.
  [[nodiscard]] static bool continues(const archived_conversation& found, const completion_request& request,
                                      const gateway_sessions& sessions);
  /// The session as it is after a turn, to be written; nothing if no client could come back to it.
  [[nodiscard]] static std::optional<keep_conversation> keep(gateway_session& session,
                                                             const gateway_sessions& sessions);

 private:
  std::map<std::uint64_t, waiting_request> waiting_;  // by ticket, and so by time
  std::uint64_t next_ticket_ = 1;
};

}  // namespace baton::actors
