#include "actors/archive/objects.hpp"

#include <cstring>

#include "schemas/hash.hpp"

namespace baton::actors::archive {

namespace {

std::string hex(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4)
    out += digits[number >> shift & 15];
  return out;
}

}  // namespace

std::string session_folder(session_id session) {
  return "sessions/" + hex(raw(session));
}

std::string manifest_folder(session_id session) {
  return session_folder(session) + "/manifests";
}

std::string rows_key(session_id session, epoch under, std::uint64_t number) {
  return session_folder(session) + "/rows/" + hex(raw(under)) + "-" + hex(number);
}

std::string manifest_key(session_id session, epoch under, std::uint64_t number) {
  return manifest_folder(session) + "/" + hex(raw(under)) + "-" + hex(number);
}

bool is_older(std::string_view key, epoch under, std::uint64_t number) {
  return key.substr(key.rfind('/') + 1) < hex(raw(under)) + "-" + hex(number);
}

std::string conversation_key(std::string_view name) {
  return "conversations/names/" + hex(hash_text(name));
}

std::string conversation_key(std::uint64_t messages_key) {
  return "conversations/messages/" + hex(messages_key);
}

bytes sealed(std::span<const std::byte> message) {
  const std::uint64_t checksum = hash_bytes(message);
  bytes out(sizeof checksum + message.size());
  std::memcpy(out.data(), &checksum, sizeof checksum);
  if (!message.empty()) std::memcpy(out.data() + sizeof checksum, message.data(), message.size());
  return out;
}

result<std::span<const std::byte>> unsealed(std::span<const std::byte> object) {
  std::uint64_t checksum = 0;
  if (object.size() < sizeof checksum) return {errc::corrupt, "an object too short for its checksum"};
  std::memcpy(&checksum, object.data(), sizeof checksum);
  const auto message = object.subspan(sizeof checksum);
  if (hash_bytes(message) != checksum) return {errc::corrupt, "an object whose checksum does not match"};
  return message;
}

}  // namespace baton::actors::archive
