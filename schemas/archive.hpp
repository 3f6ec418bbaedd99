#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/ids.hpp"
#include "schemas/session.hpp"

/// What an object store keeps of conversations, so that they outlive every node and gateway.
namespace baton {

/// The KV rows of positions [first, first + count), in one object.
struct archived_rows {
  std::string object;  ///< its key
  position first = 0;
  std::uint32_t count = 0;     ///< good ones: what the object has beyond is of a history that was cut
  std::uint32_t stored = 0;    ///< rows in the object, in wire order (gpu/kv_layout.hpp); >= count
  std::uint64_t checksum = 0;  ///< XXH3-64 of the whole object

  friend bool operator==(const archived_rows&, const archived_rows&) = default;
};

/// What an archive has of one session, as its owner under `epoch` knew it. Written after the rows that it
/// names, so what it says is there.
struct archive_manifest {
  baton::epoch epoch{};
  std::uint64_t fingerprint = 0;  ///< of the engine that made the rows
  std::uint64_t bytes_per_token = 0;
  session_piece log;                ///< from position 0
  std::vector<archived_rows> rows;  ///< in order, the first from 0, without a gap

  friend bool operator==(const archive_manifest&, const archive_manifest&) = default;
};

/// The end of a finished chat turn: how a client comes back to it.
struct conversation_end {
  std::uint64_t messages_key = 0;  ///< hash over the messages, the answer among them
  std::uint32_t messages = 0;
  position length = 0;  ///< of the log

  friend bool operator==(const conversation_end&, const conversation_end&) = default;
};

/// A conversation as its gateway knew it when a turn had ended.
struct archived_conversation {
  std::string name;               ///< by the client; empty if it gave none
  std::uint64_t fingerprint = 0;  ///< of the engine whose tokens these are
  session_piece log;              ///< from position 0; its session names the rows in the archive
  std::vector<conversation_end> ends;

  friend bool operator==(const archived_conversation&, const archived_conversation&) = default;
};

}  // namespace baton
