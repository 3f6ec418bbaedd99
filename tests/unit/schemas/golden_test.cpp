#include <catch2/catch.hpp>

#include <iostream>
#include <map>
#include <string_view>

#include "tests/unit/schemas/samples.hpp"

using namespace baton;
using namespace baton::test;

// The bytes of a message are a promise to processes of other versions: a change that these tests notice must
// follow the rules of schemas/README.md. After one that does, write the new bytes:
//
//   test_schemas "[.golden]" | grep '^[{ ] *"' > tests/unit/schemas/golden.inc

namespace {

struct golden {
  std::string_view name;
  std::size_t sample;
  std::string_view hex;
};

constexpr golden goldens[] = {
#include "tests/unit/schemas/golden.inc"
    {"", 0, ""}};

/// How many samples of a type, from [1] on, have golden bytes: one of each frame of the link, and one of all
/// others.
template <class Message>
constexpr std::size_t golden_samples =
    std::is_same_v<Message, link_frame> ? std::variant_size_v<link_frame> : 1;

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += digits[std::to_integer<unsigned>(byte) >> 4];
    out += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return out;
}

std::vector<std::byte> bytes_of(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return out;
}

}  // namespace

TEST_CASE("the bytes of every message are the golden ones") {
  std::map<std::pair<std::string_view, std::size_t>, std::string_view> known;
  for (const golden& it : goldens)
    if (!it.name.empty()) known[{it.name, it.sample}] = it.hex;
  for_each_message([&](auto type) {
    using message = typename decltype(type)::type;
    const auto all = samples<message>();
    for (std::size_t i = 1; i <= golden_samples<message>; ++i) {
      INFO(wire_name<message>() << " sample " << i);
      const auto found = known.extract({wire_name<message>(), i});
      REQUIRE_FALSE(found.empty());
      CHECK(hex_of(encode(all[i])) == found.mapped());
      // What was written then is read now, with defaults for what did not exist.
      const auto back = decode<message>(bytes_of(found.mapped()));
      REQUIRE(back.ok());
      CHECK((*back == all[i]));
    }
  });
  CHECK(known.empty());
}

TEST_CASE("print the golden bytes", "[.golden]") {
  for_each_message([](auto type) {
    using message = typename decltype(type)::type;
    const auto all = samples<message>();
    for (std::size_t i = 1; i <= golden_samples<message>; ++i) {
      std::cout << "{\"" << wire_name<message>() << "\", " << i << ",";
      const std::string hex = hex_of(encode(all[i]));
      for (std::size_t at = 0; at < hex.size(); at += 96)
        std::cout << "\n \"" << hex.substr(at, 96) << '"';
      std::cout << "},\n";
    }
  });
}
