#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "schemas/errors.hpp"
#include "schemas/ids.hpp"

namespace baton::actors::protocol {

/// After what a token may be released to the client (docs/protocol.md section O).
struct commit_rule {
  enum class mode : std::uint8_t {
    async,      ///< at once; the gateway's released log is the second copy
    semi_sync,  ///< after every in-sync standby has logged it
    quorum,     ///< after `quorum` in-sync standbys have logged it
    strict      ///< after every in-sync standby has it in KV too
  };
  mode how = mode::semi_sync;
  std::uint32_t quorum = 0;

  /// What one standby that is waited for holds of a session.
  struct standby_position {
    position logged = 0;
    position synced = 0;
  };

  /// How much of a log of `length` tokens may be released, given what the waited-for standbys hold. Without
  /// any, all of it: the group is then marked unprotected elsewhere.
  [[nodiscard]] position committed(position length, std::span<const standby_position> standbys) const;
};

/// "async", "semi-sync", "quorum:2", "strict".
result<commit_rule> parse_commit_rule(std::string_view text);

}  // namespace baton::actors::protocol
