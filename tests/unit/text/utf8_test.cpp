#include "actors/text/utf8.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/text/reference.hpp"

using namespace baton;
using namespace baton::test;
using baton::actors::text::utf8_assembler;

namespace {

std::string assembled(std::string_view bytes, const std::vector<std::size_t>& cuts) {
  utf8_assembler it;
  std::string out;
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    out += it.feed(bytes.substr(at, cut - at));
    CHECK(is_valid_utf8(out));
    CHECK(it.held_bytes() < 4);
    at = cut;
  }
  out += it.feed(bytes.substr(at));
  out += it.finish();
  CHECK(it.held_bytes() == 0);
  return out;
}

/// `bytes` give `text`, however they are cut.
void check(std::string_view bytes, std::string_view text) {
  INFO("towards " << text << ", " << bytes.size() << " bytes");
  CHECK(assembled(bytes, {}) == text);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    CHECK(assembled(bytes, {cut}) == text);
  std::vector<std::size_t> all;
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    all.push_back(cut);
  CHECK(assembled(bytes, all) == text);
}

#define R "\xEF\xBF\xBD"

}  // namespace

TEST_CASE("well-formed text passes as it is") {
  using namespace std::string_literals;
  check("", "");
  check("plain", "plain");
  check("\0a\x7f"s, "\0a\x7f"s);
  // The first and the last of each line of Unicode's table 3-7.
  for (const std::string_view character :
       {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xE0\xBF\xBF", "\xE1\x80\x80", "\xEC\xBF\xBF",
        "\xED\x80\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
        "\xF0\xBF\xBF\xBF", "\xF1\x80\x80\x80", "\xF3\xBF\xBF\xBF", "\xF4\x80\x80\x80", "\xF4\x8F\xBF\xBF"})
    check("a" + std::string{character} + std::string{character} + "z",
          "a" + std::string{character} + std::string{character} + "z");
  check("grüße 名前 🚀", "grüße 名前 🚀");
}

TEST_CASE("ill-formed bytes become one replacement per maximal part") {
  // Bytes that begin no character.
  check("\x80", R);
  check("a\xBFz", "a" R "z");
  check("\xC0\xAF", R R);  // an overlong '/'
  check("\xC1\xBF", R R);
  for (int byte = 0xF5; byte <= 0xFF; ++byte)
    check("a" + std::string(1, static_cast<char>(byte)) + "z", "a" R "z");
  // Overlong, surrogate, past the end: the second byte does not belong to the first.
  check("\xE0\x80\x80", R R R);
  check("\xE0\x9F\xBF", R R R);
  check("\xED\xA0\x80", R R R);
  check("\xED\xBF\xBF", R R R);
  check("\xF0\x80\x80\x80", R R R R);
  check("\xF0\x8F\xBF\xBF", R R R R);
  check("\xF4\x90\x80\x80", R R R R);
  // Begun and broken off: by another character, by a beginning, by the end.
  check("\xC2z", R "z");
  check("\xE2\x82z", R "z");
  check("\xF0\x9F\x9Az", R "z");
  check("\xE2\x82\xE2\x82\xAC", R "\xE2\x82\xAC");
  check("\xF0\x9F\x9A\xF0\x9F\x9A", R R);
  check("\xE2", R);
  check("\xE2\x82", R);
  check("\xF0\x9F\x9A", R);
  // Unicode 15, tables 3-8 to 3-11.
  check("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A");
  check("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A");
  check("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B");
  check("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A");
}

TEST_CASE("random bytes give what a naive reading of the table gives") {
  dice draw{20'001};
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (std::size_t n = draw.below(24); n > 0; --n)
      bytes += awkward_byte(draw);
    std::vector<std::size_t> cuts;
    for (std::size_t cut = 0; cut < bytes.size(); ++cut)
      if (draw.below(3) == 0) cuts.push_back(cut);
    const std::string text = reference_text(bytes);
    INFO("round " << round);
    REQUIRE(is_valid_utf8(text));
    REQUIRE(assembled(bytes, cuts) == text);
  }
}

TEST_CASE("an assembler that has finished begins anew") {
  utf8_assembler it;
  CHECK(it.feed("\xE2\x82").empty());
  CHECK(it.held_bytes() == 2);
  CHECK(it.finish() == R);
  CHECK(it.finish().empty());
  CHECK(it.feed("\xAC") == R);  // not the end of what was given up
  CHECK(it.feed("ok") == "ok");
}
