#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/codec.hpp"
#include "schemas/errors.hpp"
#include "schemas/ids.hpp"
#include "transports/stores/object_store.hpp"

/// The names of an archive's objects, and messages as objects.
///
///   sessions/<session>/rows/<epoch>-<number>        rows, as `archived_rows` describes them
///   sessions/<session>/manifests/<epoch>-<number>   an `archive_manifest`
///   conversations/names/<hash>                      an `archived_conversation`, by the client's name
///   conversations/messages/<key>                    the same, by the messages it ends with
///
/// Numbers are 16 hexadecimal digits, so that their order is that of the names. Objects of sessions are never
/// replaced; the epoch in their names keeps owners apart without a word of the store.
namespace baton::actors::archive {

using transports::stores::bytes;
using transports::stores::object_store;

[[nodiscard]] std::string session_folder(session_id session);
[[nodiscard]] std::string manifest_folder(session_id session);
[[nodiscard]] std::string rows_key(session_id session, epoch under, std::uint64_t number);
[[nodiscard]] std::string manifest_key(session_id session, epoch under, std::uint64_t number);
/// Whether an object of a session was written before the one that has this epoch and number in its name.
[[nodiscard]] bool is_older(std::string_view key, epoch under, std::uint64_t number);
[[nodiscard]] std::string conversation_key(std::string_view name);
[[nodiscard]] std::string conversation_key(std::uint64_t messages_key);

/// A checksum, and `message` behind it.
[[nodiscard]] bytes sealed(std::span<const std::byte> message);
/// What is behind the checksum; `corrupt` if that does not fit.
[[nodiscard]] result<std::span<const std::byte>> unsealed(std::span<const std::byte> object);

/// Reads the message that is an object. `corrupt` or `malformed` if it is none.
template <class Message>
result<Message> read_message(object_store& store, const std::string& key) {
  const auto object = store.get(key, most_bytes<Message> + sizeof(std::uint64_t));
  if (!object) return object.failure();
  const auto message = unsealed(*object);
  if (!message) return message.failure();
  return decode<Message>(*message);
}

}  // namespace baton::actors::archive
