#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "schemas/archive.hpp"
#include "schemas/control.hpp"
#include "schemas/errors.hpp"
#include "schemas/limits.hpp"
#include "schemas/link.hpp"

/// Messages as bytes: Cap'n Proto, one flat message each, with read limits (see `limits.hpp`). This is the
/// only door to the wire; no other room includes Cap'n Proto. Thread-safe, no state.
namespace baton {

/// The bytes of a message, a multiple of 8. Defined for every type listed at the ends of codec_*.cpp.
template <class Message>
std::vector<std::byte> encode(const Message& message);

/// The message in `bytes`, which need not be aligned. `malformed` for anything that does not parse, breaks a
/// read limit, or carries an unknown variant: never an exception, never an assertion.
template <class Message>
result<Message> decode(std::span<const std::byte> bytes);

/// Largest form of a message that `decode` reads.
template <class Message>
inline constexpr std::size_t most_bytes = limits::control_bytes;
template <>
inline constexpr std::size_t most_bytes<link_frame> = limits::message_bytes;
template <>
inline constexpr std::size_t most_bytes<delta_descriptor> = limits::descriptor_bytes;

/// The name of a message type on the control plane, e.g. "baton.open_turn"; the same on every node.
template <class Message>
std::string_view wire_name() noexcept;

}  // namespace baton
