#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

/// The words of Baton: identities and positions. Plain values, no behaviour, used by every room.
namespace baton {

/// One token of a model's vocabulary.
using token_id = std::int32_t;

/// Index into a session's token log, prompt and generated tokens alike, from 0. A length is the position
/// after the last token.
using position = std::uint32_t;

/// Running hash over a session's history (see `actors/protocol/session_log.hpp`). Equal chains mean equal
/// histories.
using chain_hash = std::uint64_t;

/// One conversation. Chosen at random by the gateway that first sees it; never reused.
enum class session_id : std::uint64_t {};

/// A placement group: sessions that share a primary and standbys.
enum class group_id : std::uint64_t {};

/// Fencing token of a group: the store's revision of the change that named the owner. Grows at each change of
/// owner, over all groups. 0 is "never owned".
enum class epoch : std::uint64_t {};

/// Tells one run of a process from the next under the same name.
enum class incarnation : std::uint64_t {};

/// One request on a session, counted from 1 within it.
using turn_number = std::uint32_t;

/// The number behind a strong identity.
template <class Enum>
requires std::is_enum_v<Enum>
constexpr auto raw(Enum value) {
  return static_cast<std::underlying_type_t<Enum>>(value);
}

/// A node, a gateway or an orchestrator as it runs now: a restart under the same name is another process.
struct process_id {
  std::string name;
  baton::incarnation incarnation{};

  friend bool operator==(const process_id&, const process_id&) = default;
  friend auto operator<=>(const process_id&, const process_id&) = default;
};

}  // namespace baton

template <>
struct std::hash<baton::process_id> {
  std::size_t operator()(const baton::process_id& id) const noexcept {
    return std::hash<std::string>{}(id.name) ^ (baton::raw(id.incarnation) * 0x9e3779b97f4a7c15ULL);
  }
};
