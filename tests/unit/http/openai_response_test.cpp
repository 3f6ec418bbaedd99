#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/http/openai.hpp"

using namespace baton;
using namespace baton::apps::http;
using nlohmann::json;

namespace {

response_plan plan_of(endpoint kind) {
  response_plan plan;
  plan.kind = kind;
  plan.model = "m";
  plan.id = "x-1";
  plan.created_unix_s = 9;
  plan.seed = 7;
  return plan;
}

actors::turn_text text_of(const std::string& text, position last) {
  actors::turn_text event;
  event.text = text;
  event.last = last;
  event.node = "n1";
  event.epoch = epoch{12};
  event.lag_tokens = 3;
  return event;
}

actors::turn_finished finished(actors::finish_reason reason = actors::finish_reason::stop) {
  actors::turn_finished event;
  event.reason = reason;
  event.prompt_tokens = 5;
  event.cached_tokens = 4;
  event.completion_tokens = 2;
  event.evaluated_tokens = 3;
  event.recomputed_tokens = 1;
  event.failovers = 1;
  return event;
}

/// The two halves of an e with acute accent as two tokens, then a whole token.
actors::turn_text split_character() {
  actors::turn_text event = text_of("\xC3\xA9!", 10);
  event.tokens = {{1, "\xC3", -0.5F, {{1, -0.5F}, {2, -1.0F}}, {"\xC3", "a"}},
                  {2, "\xA9", -0.25F, {{2, -0.25F}}, {"\xA9"}},
                  {3, "!", -std::numeric_limits<float>::infinity(), {}, {}}};
  return event;
}

const std::string head = R"({"id":"x-1","object":"chat.completion.chunk","created":9,"model":"m","choices":)";
const std::string text_head = R"({"id":"x-1","object":"text_completion","created":9,"model":"m","choices":)";

}  // namespace

TEST_CASE("chunks of a chat, byte for byte") {
  chunk_writer writer(plan_of(endpoint::chat));
  CHECK(
      writer.started({session_id{1}, 5, 4}) ==
      head +
          R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})");
  CHECK(writer.text(text_of("a\"\n\xF0\x9F\x98\x80", 6)) ==
        head +
            "[{\"index\":0,\"delta\":{\"content\":\"a\\\"\\n\xF0\x9F\x98\x80\"},\"logprobs\":null,"
            "\"finish_reason\":null}]}");
  CHECK(writer.text(text_of("", 7)).empty());
  CHECK(writer.finished(finished()) ==
        head + R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})");
  CHECK(writer.usage(finished()).empty());
}

TEST_CASE("chunks of a text completion, byte for byte") {
  chunk_writer writer(plan_of(endpoint::text));
  CHECK(writer.started({session_id{1}, 5, 4}).empty());
  CHECK(writer.text(text_of("a", 6)) ==
        text_head + R"([{"text":"a","index":0,"logprobs":null,"finish_reason":null}]})");
  CHECK(writer.finished(finished(actors::finish_reason::length)) ==
        text_head + R"([{"text":"","index":0,"logprobs":null,"finish_reason":"length"}]})");
}

TEST_CASE("usage comes in a chunk of its own, null before") {
  auto plan = plan_of(endpoint::chat);
  plan.include_usage = true;
  chunk_writer writer(plan);
  CHECK(json::parse(writer.text(text_of("a", 6)))["usage"].is_null());
  CHECK(json::parse(writer.text(text_of("a", 6))).contains("usage"));
  CHECK(json::parse(writer.finished(finished()))["usage"].is_null());
  CHECK(writer.usage(finished()) ==
        head + R"([],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
               R"("prompt_tokens_details":{"cached_tokens":4}}})");
}

TEST_CASE("the trace rides on every chunk") {
  auto plan = plan_of(endpoint::chat);
  plan.trace = true;
  plan.include_usage = true;
  chunk_writer writer(plan);
  const json started = json::parse(writer.started({session_id{0xAB}, 5, 4}))["baton"];
  CHECK(started ==
        json::parse(R"({"session":"00000000000000ab","prompt_tokens":5,"cached_tokens":4,"seed":7})"));
  const json expected = json::parse(R"({"position":6,"node":"n1","epoch":12,"lag_tokens":3})");
  CHECK(json::parse(writer.text(text_of("a", 6)))["baton"] == expected);
  CHECK(json::parse(writer.text(text_of("", 6)))["baton"] == expected);
  const json last =
      json::parse(R"({"evaluated_tokens":3,"recomputed_tokens":1,"cached_tokens":4,"failovers":1,
                                    "finish":"stop","seed":7})");
  CHECK(json::parse(writer.finished(finished()))["baton"] == last);
  CHECK(json::parse(writer.usage(finished()))["baton"] == last);
}

TEST_CASE("logprobs of a chat show the bytes of what is no whole character") {
  auto plan = plan_of(endpoint::chat);
  plan.logprobs = true;
  plan.top_logprobs = 2;
  chunk_writer writer(plan);
  const json choice = json::parse(writer.text(split_character()))["choices"][0];
  CHECK(choice["delta"]["content"] == "\xC3\xA9!");
  CHECK(choice["logprobs"] == json::parse(R"({"refusal":null,"content":[
    {"token":"\\xc3","logprob":-0.5,"bytes":[195],"top_logprobs":[
      {"token":"\\xc3","logprob":-0.5,"bytes":[195]},{"token":"a","logprob":-1.0,"bytes":[97]}]},
    {"token":"\\xa9","logprob":-0.25,"bytes":[169],"top_logprobs":[
      {"token":"\\xa9","logprob":-0.25,"bytes":[169]}]},
    {"token":"!","logprob":-9999.0,"bytes":[33],"top_logprobs":[]}]})"));
  // Tokens without text yet still have their entry: none may be lost.
  auto silent = split_character();
  silent.text.clear();
  CHECK(json::parse(writer.text(silent))["choices"][0]["logprobs"]["content"].size() == 3);
}

TEST_CASE("logprobs of a text completion count offsets in characters across chunks") {
  auto plan = plan_of(endpoint::text);
  plan.logprobs = true;
  plan.top_logprobs = 1;
  chunk_writer writer(plan);
  CHECK(json::parse(writer.text(split_character()))["choices"][0]["logprobs"] ==
        json::parse(R"({"tokens":["bytes:\\xc3","bytes:\\xa9","!"],"token_logprobs":[-0.5,-0.25,-9999.0],
                        "top_logprobs":[{"bytes:\\xc3":-0.5},{"bytes:\\xa9":-0.25},{}],"text_offset":[0,1,1]})"));
  CHECK(json::parse(writer.text(split_character()))["choices"][0]["logprobs"]["text_offset"] ==
        json::parse("[2,3,3]"));
  plan.top_logprobs = 0;
  chunk_writer plain(plan);
  CHECK(json::parse(plain.text(split_character()))["choices"][0]["logprobs"]["top_logprobs"].is_null());
}

TEST_CASE("a whole chat body, byte for byte") {
  body_writer writer(plan_of(endpoint::chat));
  writer.add(actors::turn_started{session_id{1}, 5, 4});
  writer.add(text_of("Hel", 6));
  writer.add(text_of("lo", 7));
  CHECK(
      writer.finish(finished()) ==
      R"({"id":"x-1","object":"chat.completion","created":9,"model":"m","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"Hello","refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
      R"("prompt_tokens_details":{"cached_tokens":4}}})");
}

TEST_CASE("a whole text body with logprobs and trace") {
  auto plan = plan_of(endpoint::text);
  plan.logprobs = true;
  plan.trace = true;
  plan.seed = ~std::uint64_t{0};
  body_writer writer(plan);
  writer.add(actors::turn_started{session_id{0xAB}, 5, 4});
  writer.add(split_character());
  writer.add(split_character());
  const json body = json::parse(writer.finish(finished(actors::finish_reason::length)));
  CHECK(body["object"] == "text_completion");
  CHECK(body["choices"][0]["text"] == "\xC3\xA9!\xC3\xA9!");
  CHECK(body["choices"][0]["finish_reason"] == "length");
  CHECK(body["choices"][0]["logprobs"]["tokens"].size() == 6);
  CHECK(body["choices"][0]["logprobs"]["text_offset"] == json::parse("[0,1,1,2,3,3]"));
  CHECK(body["baton"] ==
        json::parse(R"({"evaluated_tokens":3,"recomputed_tokens":1,"cached_tokens":4,"failovers":1,
    "finish":"length","seed":-1,"session":"00000000000000ab","position":10,"node":"n1","epoch":12,"lag_tokens":3})"));
}

TEST_CASE("no trace, no baton object") {
  body_writer writer(plan_of(endpoint::chat));
  CHECK_FALSE(json::parse(writer.finish(finished())).contains("baton"));
  chunk_writer chunks(plan_of(endpoint::chat));
  CHECK_FALSE(json::parse(chunks.started({})).contains("baton"));
  CHECK_FALSE(json::parse(chunks.text(text_of("a", 1))).contains("baton"));
  CHECK_FALSE(json::parse(chunks.finished(finished())).contains("baton"));
}

TEST_CASE("failures map to what OpenAI clients expect") {
  struct row {
    errc code;
    unsigned status;
    std::string type;
    std::string word;
  };
  for (const row& one : {row{errc::invalid_argument, 400, "invalid_request_error", "invalid_argument"},
                         row{errc::malformed, 400, "invalid_request_error", "malformed"},
                         row{errc::unsupported, 400, "invalid_request_error", "unsupported"},
                         row{errc::context_full, 400, "invalid_request_error", "context_length_exceeded"},
                         row{errc::conflict, 409, "invalid_request_error", "conflict"},
                         row{errc::no_room, 429, "rate_limit_error", "no_room"},
                         row{errc::unavailable, 503, "server_error", "unavailable"},
                         row{errc::connection_lost, 503, "server_error", "connection_lost"},
                         row{errc::not_owner, 503, "server_error", "not_owner"},
                         row{errc::timed_out, 504, "server_error", "timed_out"},
                         row{errc::engine_failed, 500, "server_error", "engine_failed"},
                         row{errc::corrupt, 500, "server_error", "corrupt"}}) {
    const api_error told = describe({one.code, "why"});
    CHECK(told.status == one.status);
    CHECK(told.type == one.type);
    CHECK(told.code == one.word);
    CHECK(told.message == "why");
  }
  CHECK(error_body({400, "no", "invalid_request_error", "", ""}) ==
        R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
}

TEST_CASE("text that is no UTF-8 does not break a body") {
  CHECK(json::accept(error_body(describe({errc::io_failed, "\xFF\xC3"}))));
  CHECK(json::accept(models_body("\xFF", 1)));
}

TEST_CASE("well-formed UTF-8 is told from what is not") {
  for (const char* good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    CHECK(is_utf8(good));
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "a\xFF", "\xC3("})
    CHECK_FALSE(is_utf8(bad));
}
