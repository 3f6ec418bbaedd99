#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/array.h>
#include <kj/exception.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "schemas/codec.hpp"
#include "schemas/limits.hpp"

/// Shared by the codec's three parts; included by nothing else.
namespace baton::codec_detail {

/// Thrown by a `get` for a value that parses but means nothing; becomes `malformed`.
struct bad_value {
  const char* what;
};

/// Bytes of memory that the message being read on this thread may still take. The read limits count words of
/// the wire only, and an element of no words may be a large value.
inline thread_local std::size_t memory_left = 0;

inline void take_memory(std::size_t count, std::size_t bytes_each) {
  if (count > memory_left / bytes_each) throw bad_value{"a message that grows too much"};
  memory_left -= count * bytes_each;
}

/// The whole text: what Cap'n Proto makes of a std::string by itself ends at its first zero byte.
inline capnp::Text::Reader to_wire(const std::string& text) {
  return {text.c_str(), text.size()};
}
inline std::string text_of(capnp::Text::Reader text) {
  take_memory(text.size(), 1);
  return {text.begin(), text.size()};
}

/// Strong enums and plain numbers from the wire.
template <class To, class From>
To from_wire(From value) {
  return static_cast<To>(value);
}

/// An error code from the wire; unknown ones of newer peers become `unavailable`.
inline errc code_from_wire(std::uint16_t value) {
  const auto code = static_cast<errc>(value);
  return name_of(code) == "unknown" ? errc::unavailable : code;
}

template <class Builder, class Items, class Put>
void put_list(Builder list, const Items& items, Put put_one) {
  for (unsigned i = 0; i < list.size(); ++i)
    put_one(list[i], items[i]);
}

template <class List, class Item, class Get>
void get_list(List list, std::vector<Item>& items, Get get_one) {
  take_memory(list.size(), sizeof(Item));
  items.clear();
  items.reserve(list.size());
  for (auto element : list)
    get_one(element, items.emplace_back());
}

template <class List, class Item>
void put_plain(List list, const std::vector<Item>& items) {
  for (unsigned i = 0; i < list.size(); ++i)
    list.set(i, items[i]);
}

template <class List, class Item>
void get_plain(List list, std::vector<Item>& items) {
  take_memory(list.size(), sizeof(Item));
  items.clear();
  items.reserve(list.size());
  for (auto element : list)
    items.push_back(element);
}

/// Builds a message of schema struct `Wire` by `put(builder, value)`.
template <class Wire, class Message>
std::vector<std::byte> encode_as(const Message& message) {
  capnp::word scratch[512];
  std::memset(scratch, 0, sizeof scratch);
  capnp::MallocMessageBuilder builder{kj::arrayPtr(scratch, 512)};
  put(builder.initRoot<Wire>(), message);
  const auto flat = capnp::messageToFlatArray(builder);
  const auto bytes = flat.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

/// Reads a message of schema struct `Wire` by `get(reader, value)`, with the read limits.
template <class Wire, class Message>
result<Message> decode_as(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 || bytes.size() > most_bytes<Message>)
    return {errc::malformed, "message of " + std::to_string(bytes.size()) + " bytes"};
  std::uint32_t last_segment = 0;  // what a message begins with
  std::memcpy(&last_segment, bytes.data(), sizeof last_segment);
  if (last_segment >= limits::message_segments)
    return {errc::malformed, "message of " + std::to_string(std::uint64_t{last_segment} + 1) + " segments"};
  kj::Array<capnp::word> aligned;  // std::vector cannot hold words: they have no constructor
  const std::size_t words = bytes.size() / sizeof(capnp::word);
  const auto* first = reinterpret_cast<const capnp::word*>(bytes.data());
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(capnp::word) != 0) {
    aligned = kj::heapArray<capnp::word>(words);
    std::memcpy(aligned.begin(), bytes.data(), bytes.size());
    first = aligned.begin();
  }
  capnp::ReaderOptions limits_of_reader;
  limits_of_reader.traversalLimitInWords = words * limits::traversal_factor + 64;
  limits_of_reader.nestingLimit = limits::message_nesting;
  memory_left = bytes.size() * limits::decoded_factor;
  try {
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(first, words), limits_of_reader};
    Message message;
    get(reader.getRoot<Wire>(), message);
    return message;
  } catch (const kj::Exception& problem) {
    return {errc::malformed, std::string{wire_name<Message>()} + ": " + problem.getDescription().cStr()};
  } catch (const bad_value& problem) {
    return {errc::malformed, std::string{wire_name<Message>()} + ": " + problem.what};
  }
}

}  // namespace baton::codec_detail

/// Defines the three functions of codec.hpp for one message type.
#define BATON_MESSAGE(message, wire_struct)                            \
  template <>                                                          \
  std::string_view wire_name<message>() noexcept {                     \
    return "baton." #message;                                          \
  }                                                                    \
  template <>                                                          \
  std::vector<std::byte> encode<message>(const message& value) {       \
    return codec_detail::encode_as<wire::wire_struct>(value);          \
  }                                                                    \
  template <>                                                          \
  result<message> decode<message>(std::span<const std::byte> bytes) {  \
    return codec_detail::decode_as<wire::wire_struct, message>(bytes); \
  }
