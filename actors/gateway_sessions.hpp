#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/completion_service.hpp"
#include "actors/engines/tokenizer.hpp"
#include "actors/protocol/client_stream.hpp"
#include "schemas/archive.hpp"

namespace baton::actors {

/// A conversation as its gateway knows it.
struct gateway_session {
  session_id id{};
  std::string name;  ///< by the client; empty if it gave none
  group_id group{};
  std::uint64_t fingerprint = 0;  ///< of the engine whose tokens these are
  protocol::client_stream stream;
  std::vector<conversation_end> ends;  ///< of finished chat turns, in order
  bool busy = false;                   ///< a turn is open
  std::chrono::steady_clock::time_point used_at{};
  session_id restore_from{};     ///< under which an archive may have rows of it; 0: none has
  std::uint64_t kept_under = 0;  ///< the end by which an archive has it, if it has no name; 0: it has not
};

/// Where a request goes on: the session, the length of its log that stays, and the prompt tokens after it.
struct placed_prompt {
  gateway_session* session = nullptr;  ///< nullptr: make a new one
  position base = 0;
  std::vector<token_id> tokens;  ///< at least one
};

/// The sessions of a gateway, and how a request finds its own: by the client's name for it, or by the longest
/// prefix of its messages that a session is known to end with, so that only what is new is prefilled. Not
/// thread-safe.
class gateway_sessions {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  gateway_sessions(const engines::tokenizer& text, std::uint64_t seed) : text_(text), random_(seed) {}

  /// `conflict` if the named session has a turn open, `invalid_argument` for an empty prompt.
  result<placed_prompt> place(const completion_request& request);

  gateway_session& create(const std::string& name, group_id group, std::uint64_t fingerprint, time_point now);
  /// A session that goes on where an archived one ended, under an id of its own: others may do the same.
  /// False if what was archived is no conversation.
  bool revive(const archived_conversation& from, group_id group, time_point now);
  gateway_session* find(session_id session);
  /// By the client's name; nullptr if there is none.
  [[nodiscard]] const gateway_session* find(const std::string& name) const;
  /// By messages that a turn has ended with: the one that was there last; nullptr if there is none.
  [[nodiscard]] const gateway_session* find_end(std::uint64_t messages_key) const;
  /// The beginnings of the request's messages that end with an answer, by hash, the longest first, at most
  /// `most`. None if a session has ended with any of them.
  [[nodiscard]] std::vector<std::uint64_t> unknown_ends(const completion_request& request,
                                                        std::size_t most) const;

  /// Remembers the end of a chat turn: the next request whose messages begin with these and the answer goes
  /// on here.
  void remember(gateway_session& session, const completion_request& request, const std::string& answer);

  /// Idle sessions beyond `most` are forgotten, least recently used first.
  void trim(std::size_t most);

  [[nodiscard]] std::size_t size() const noexcept { return sessions_.size(); }
  struct count {
    std::size_t all = 0, busy = 0;
  };
  [[nodiscard]] count in_group(group_id group) const;

 private:
  result<placed_prompt> place_chat(const completion_request& request, gateway_session* named);
  placed_prompt place_plain(const completion_request& request, gateway_session* named) const;
  void forget(session_id session);
  session_id fresh_id();

  const engines::tokenizer& text_;
  std::mt19937_64 random_;
  std::unordered_map<session_id, gateway_session> sessions_;
  std::map<std::string, session_id> by_name_;
  std::unordered_map<std::uint64_t, session_id> by_messages_;
};

}  // namespace baton::actors
