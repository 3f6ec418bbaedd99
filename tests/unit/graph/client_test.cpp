#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "actors/engines/toy_tokenizer.hpp"
#include "apps/demo/conversation.hpp"
#include "apps/demo/sse_client.hpp"
#include "apps/demo/turn.hpp"

namespace {

using namespace baton;
using namespace baton::apps::demo;

std::vector<sse_event> parse(const std::vector<std::string>& pieces) {
  sse_parser parser;
  std::vector<sse_event> events;
  for (const auto& piece : pieces) {
    parser.feed(piece, {});
    while (auto event = parser.next())
      events.push_back(*event);
  }
  return events;
}

}  // namespace

TEST_CASE("server-sent events are the same however the bytes are cut") {
  const std::string stream =
      ": ping\n\nid: 1\ndata: {\"a\":1}\n\nid: 2\r\ndata: one\r\ndata:two\r\n\r\ndata\n\nevent: x\n\ndata: "
      "[DONE]\n\n";
  for (std::size_t cut = 1; cut <= stream.size(); ++cut) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < stream.size(); at += cut)
      pieces.push_back(stream.substr(at, cut));
    const auto events = parse(pieces);
    REQUIRE(events.size() == 4);
    CHECK(events[0].id == "1");
    CHECK(events[0].data == "{\"a\":1}");
    CHECK(events[1].id == "2");
    CHECK(events[1].data == "one\ntwo");
    CHECK(events[2].data.empty());
    CHECK(events[3].data == "[DONE]");
  }
}

TEST_CASE("an event that is not complete is not shown") {
  CHECK(parse({"data: x\n"}).empty());
  CHECK(parse({"data: x\n", "\n"}).size() == 1);
}

TEST_CASE("a conversation has about the length asked for, and grows with it") {
  const actors::engines::toy_tokenizer text;
  for (const std::uint32_t wanted : {1U, 200U, 500U, 2000U, 8000U}) {
    const auto messages = make_conversation(text, wanted);
    const auto prompt = prompt_of(text, messages);
    REQUIRE(prompt.ok());
    const std::string& last = messages.back().content;
    CHECK(last.substr(last.size() - std::min(last.size(), last_question().size())) == last_question());
    if (wanted < 500) continue;  // the question alone is longer in bytes
    CHECK(prompt->size() <= wanted);
    CHECK(prompt->size() + 100 > wanted);  // an entry of the log is shorter
  }
  CHECK(make_conversation(text, 2000) == make_conversation(text, 2000));
}

TEST_CASE("bytes of tokens are found again as tokens") {
  const actors::engines::toy_tokenizer text;
  CHECK(tokens_of(text, {"a", "\xC3", ""}) == std::vector<token_id>{'a', 0xC3, 256});
  CHECK_FALSE(tokens_of(text, {"ab"}).has_value());
}

TEST_CASE("the decode step is measured per token, and not over a change of node") {
  const auto at = [](int ms) { return time_point{} + std::chrono::milliseconds(ms); };
  turn_record record;
  record.sent = at(0);
  record.arrivals = {{at(50), 9, "a", 1, 0, "x"},
                     {at(60), 10, "a", 1, 0, "x"},
                     {at(80), 12, "a", 1, 0, "x"},
                     {at(500), 13, "b", 2, 0, "x"},
                     {at(511), 14, "b", 2, 0, "x"}};
  CHECK(record.first_token_ms() == Approx(50));
  CHECK(record.decode_ms_p50() == Approx(10));
  CHECK(median({}) == 0);
}
