#include "actors/text/text_stream.hpp"

#include "tests/fuzz/targets.hpp"
#include "tests/unit/text/reference.hpp"

namespace baton::fuzz {

namespace {

struct outcome {
  std::string text;
  bool stopped = false;
  std::size_t tokens_used = 0;

  friend bool operator==(const outcome&, const outcome&) = default;
};

/// `text` before the earliest stop string in it, ended at a whole character.
outcome cut(const std::string& text, const std::vector<std::string>& stops, std::size_t used) {
  std::size_t at = std::string::npos;
  for (const std::string& stop : stops)
    if (!stop.empty()) at = std::min(at, text.find(stop));
  if (at == std::string::npos) return {text, false, used};
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
    --at;
  return {text.substr(0, at), true, used};
}

/// Concatenate, then cut, after each token.
outcome expected(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  std::string bytes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    bytes += tokens[i];
    if (outcome it = cut(test::reference_text(bytes, true), stops, i + 1); it.stopped) return it;
  }
  return cut(test::reference_text(bytes), stops, tokens.size());
}

/// Feeds everything; every piece is whole characters, and covers tokens in order, none before its text is
/// out.
outcome streamed(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  actors::text::text_stream stream{stops};
  outcome out;
  std::size_t covered = 0;
  std::string covered_bytes;
  const auto take = [&](const actors::text::text_piece& piece) {
    BATON_ASSERT(test::is_valid_utf8(piece.text));
    BATON_ASSERT(!out.stopped || (piece.text.empty() && piece.tokens == 0));
    out.text += piece.text;
    out.stopped = out.stopped || piece.stopped;
    for (std::size_t i = 0; i < piece.tokens; ++i) {
      BATON_ASSERT(covered < stream.tokens_used());
      covered_bytes += tokens[covered++];
    }
    BATON_ASSERT(test::reference_text(covered_bytes, true).size() <= out.text.size());
  };
  for (const std::string& token : tokens) {
    take(stream.feed(token));
    BATON_ASSERT(stream.stopped() == out.stopped);
  }
  take(stream.finish());
  BATON_ASSERT(out.stopped || covered == tokens.size());
  out.tokens_used = stream.tokens_used();
  if (out.stopped) take(stream.feed("more"));
  return out;
}

}  // namespace

// Stop strings, then tokens, each a length and that many bytes. What comes out is what the obvious way gives:
// all text is held, none is past a stop string, however the bytes are cut into tokens.
void text_stream(input bytes) {
  choices draw{bytes};
  std::vector<std::string> stops(draw.below(5));
  for (std::string& stop : stops)
    stop = text_of(draw.next(draw.below(9)));
  std::vector<std::string> tokens;
  std::string whole;
  while (draw.any()) {
    tokens.emplace_back(text_of(draw.next(draw.below(8))));
    whole += tokens.back();
  }
  const outcome got = streamed(tokens, stops);
  BATON_ASSERT(got == expected(tokens, stops));
  for (const std::string& stop : stops)
    BATON_ASSERT(stop.empty() || got.text.find(stop) == std::string::npos);
  // With several stop strings the order in which they are complete may differ.
  if (stops.size() <= 1) BATON_ASSERT(streamed({whole}, stops).text == got.text);
}

}  // namespace baton::fuzz
