#include "actors/text/text_stream.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/text/reference.hpp"

using namespace baton;
using namespace baton::test;
using baton::actors::text::text_piece;
using baton::actors::text::text_stream;

namespace {

/// What a client gets in the end.
struct outcome {
  std::string text;
  bool stopped = false;
  std::size_t tokens_used = 0;

  friend bool operator==(const outcome&, const outcome&) = default;
};

std::ostream& operator<<(std::ostream& out, const outcome& it) {
  return out << '"' << it.text << "\" stopped=" << it.stopped << " tokens_used=" << it.tokens_used;
}

/// Concatenate, then cut: after each token, the text so far is cut before the earliest stop string in it.
outcome reference(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  std::string bytes;
  const auto cut = [&](const std::string& text, std::size_t used) -> outcome {
    std::size_t at = std::string::npos;
    for (const std::string& stop : stops)
      if (!stop.empty()) at = std::min(at, text.find(stop));
    if (at == std::string::npos) return {text, false, used};
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
      --at;  // text ends at a whole character
    return {text.substr(0, at), true, used};
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    bytes += tokens[i];
    if (const outcome it = cut(reference_text(bytes, true), i + 1); it.stopped) return it;
  }
  return cut(reference_text(bytes), tokens.size());
}

/// Feeds everything and checks, on the way, what holds for every piece.
outcome streamed(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  text_stream stream{stops};
  outcome out;
  std::size_t covered = 0, fed = 0;
  std::string bytes;
  const auto take = [&](const text_piece& piece) {
    out.text += piece.text;
    out.stopped = out.stopped || piece.stopped;
    covered += piece.tokens;
    CHECK(is_valid_utf8(piece.text));
    CHECK(covered <= fed);
    // The tokens covered are those whose bytes are out: what they make, and no more, is within the text
    // shown.
    std::string whole;
    for (std::size_t i = 0; i < covered; ++i)
      whole += tokens[i];
    CHECK(reference_text(whole, true).size() <= out.text.size());
  };
  for (const std::string& token : tokens) {
    const bool over = stream.stopped();
    fed += over ? 0 : 1;
    const text_piece piece = stream.feed(token);
    if (over) {
      CHECK(piece.text.empty());
      CHECK(piece.tokens == 0);
    }
    take(piece);
    CHECK(stream.tokens_used() == fed);
  }
  take(stream.finish());
  CHECK(stream.stopped() == out.stopped);
  if (!out.stopped) CHECK(covered == tokens.size());  // each exactly once
  CHECK(stream.finish().text.empty());
  out.tokens_used = stream.tokens_used();
  return out;
}

void check(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  CAPTURE(tokens, stops);
  CHECK(streamed(tokens, stops) == reference(tokens, stops));
}

/// Every way to cut `bytes` into tokens.
template <class Visit>
void for_each_cutting(const std::string& bytes, Visit visit) {
  for (std::uint32_t mask = 0; mask < 1U << (bytes.size() - 1); ++mask) {
    std::vector<std::string> tokens{bytes.substr(0, 1)};
    for (std::size_t i = 1; i < bytes.size(); ++i)
      if ((mask >> (i - 1) & 1) != 0)
        tokens.emplace_back(1, bytes[i]);
      else
        tokens.back() += bytes[i];
    visit(tokens);
  }
}

}  // namespace

TEST_CASE("without stop strings text is out as soon as its characters are whole") {
  text_stream stream{{}};
  CHECK(stream.feed("ab").text == "ab");
  text_piece piece = stream.feed("\xE2\x82");
  CHECK(piece.text.empty());
  CHECK(piece.tokens == 0);
  piece = stream.feed("\xAC!");
  CHECK(piece.text == "\xE2\x82\xAC!");
  CHECK(piece.tokens == 2);
  piece = stream.feed("");  // a token without text counts at once
  CHECK(piece.tokens == 1);
  CHECK(stream.finish().text.empty());
  CHECK(stream.tokens_used() == 4);
}

TEST_CASE("a token that ends within a character is covered with that character") {
  text_stream stream{{}};
  CHECK(stream.feed("a\xF0").tokens == 0);
  CHECK(stream.feed("\x9F").tokens == 0);
  CHECK(stream.feed("\x9A").tokens == 0);
  const text_piece piece = stream.feed("\x80");
  CHECK(piece.text == "\xF0\x9F\x9A\x80");
  CHECK(piece.tokens == 4);
}

TEST_CASE("what may begin a stop string is held back, and no more") {
  text_stream stream{{"<end>"}};
  CHECK(stream.feed("a<").text == "a");
  CHECK(stream.feed("en").text.empty());
  CHECK(stream.feed("x").text == "<enx");
  CHECK(stream.feed("<en").text.empty());
  const text_piece piece = stream.feed("d>b");
  CHECK(piece.stopped);
  CHECK(piece.text.empty());
  CHECK(stream.stopped());
  CHECK(stream.feed("more").text.empty());
  CHECK(stream.finish().text.empty());
  CHECK(stream.tokens_used() == 5);
}

TEST_CASE("what is held back is text after all if nothing follows") {
  text_stream stream{{"<end>"}};
  CHECK(stream.feed("a<en").text == "a");
  CHECK(stream.feed("d").text.empty());
  const text_piece piece = stream.finish();
  CHECK(piece.text == "<end");
  CHECK(piece.tokens == 2);
  CHECK_FALSE(piece.stopped);

  text_stream broken{{}};
  CHECK(broken.feed("a\xE2\x82").text == "a");
  CHECK(broken.finish().text == "\xEF\xBF\xBD");
}

TEST_CASE("a stop string that the last, broken character completes is not shown") {
  text_stream stream{{"<\xEF\xBF\xBD"}};
  CHECK(stream.feed("a<\xE2\x82").text == "a");
  const text_piece piece = stream.finish();
  CHECK(piece.text.empty());
  CHECK(piece.stopped);
  CHECK(stream.stopped());
}

TEST_CASE("a stop string is found however it is cut into tokens") {
  for_each_cutting("x<end>yz", [](const auto& tokens) { check(tokens, {"<end>"}); });
  for_each_cutting("aaab", [](const auto& tokens) { check(tokens, {"aab"}); });
  for_each_cutting("abababac!", [](const auto& tokens) { check(tokens, {"ababac"}); });
  for_each_cutting("<<end>", [](const auto& tokens) { check(tokens, {"<end>"}); });
  for_each_cutting("<end>", [](const auto& tokens) { check(tokens, {"<end>"}); });
  for_each_cutting("no stop<end", [](const auto& tokens) { check(tokens, {"<end>"}); });
}

TEST_CASE("the earliest of several stop strings cuts") {
  for_each_cutting("xabcdefy", [](const auto& tokens) { check(tokens, {"abcdef", "cd"}); });
  for_each_cutting("xabcdefy", [](const auto& tokens) { check(tokens, {"cd", "bcx", "abcdeg"}); });
  for_each_cutting("xabxaby", [](const auto& tokens) { check(tokens, {"aby", "abx"}); });
  for_each_cutting("stopping", [](const auto& tokens) { check(tokens, {"stop", "stopp", "top"}); });
  check({"a", "b"}, {"", "b", ""});  // empty ones are none
}

TEST_CASE("stop strings next to and within characters of several bytes") {
  for_each_cutting("名\xE2\x82\xAC!", [](const auto& tokens) { check(tokens, {"\xE2\x82\xAC"}); });
  for_each_cutting("\xE2\x82\xAC\xE2\x82\xAD.", [](const auto& tokens) { check(tokens, {"\xE2\x82\xAD"}); });
  for_each_cutting("a\xE2\x82\xAC", [](const auto& tokens) { check(tokens, {"a\xE2\x82\xAD"}); });
  // Not text itself: it may match within a character, of which then nothing is shown.
  for_each_cutting("ab\xE2\x82\xAC!", [](const auto& tokens) { check(tokens, {"\x82\xAC"}); });
  for_each_cutting("b\xE2\x82\xACx\xE2\x82\xACy", [](const auto& tokens) { check(tokens, {"\xACy"}); });
  for_each_cutting("a\xE2\x82z", [](const auto& tokens) { check(tokens, {"\xEF\xBF\xBDz"}); });
}

TEST_CASE("random tokens and stop strings give what concatenating and cutting gives") {
  dice draw{31'337};
  const std::vector<std::string> alphabets[] = {
      {"a", "b"}, {"a", "b", "\xE2\x82\xAC", "\xE2\x82\xAD"}, {"a"}};
  std::size_t stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto& letters = alphabets[draw.below(std::size(alphabets))];
    const auto word = [&](std::size_t most) {
      std::string out;
      for (std::size_t n = draw.below(most + 1); n > 0; --n)
        out += letters[draw.below(letters.size())];
      return out;
    };
    std::vector<std::string> stops;
    for (std::size_t n = draw.below(4); n > 0; --n)
      stops.push_back(word(5));
    std::string bytes = word(30);
    if (draw.below(3) == 0)
      for (std::size_t n = draw.below(4); n > 0; --n)
        bytes.insert(draw.below(bytes.size() + 1), 1, awkward_byte(draw));
    std::vector<std::string> tokens;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = draw.below(5);
      tokens.push_back(bytes.substr(at, size));
      at += size;
    }
    CAPTURE(round);
    check(tokens, stops);
    stopped += reference(tokens, stops).stopped ? 1 : 0;
  }
  CHECK(stopped > 400);  // both happen often enough
  CHECK(stopped < 3600);
}
