#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "apps/http/openai.hpp"
#include "schemas/limits.hpp"

using namespace baton;
using namespace baton::apps::http;
using nlohmann::json;

namespace {

constexpr std::uint32_t vocabulary = 1000;

request_context context_of(endpoint kind) {
  request_context context;
  context.kind = kind;
  context.default_model = "toy";
  context.vocabulary_size = vocabulary;
  context.stamp = {"0123", 1700000000, 77};
  return context;
}

auto parse(endpoint kind, const std::string& body) {
  return parse_request(body, context_of(kind));
}

parsed_request accepted(endpoint kind, const std::string& body) {
  auto outcome = parse(kind, body);
  if (auto* failure = std::get_if<api_error>(&outcome)) {
    FAIL("refused: " << failure->message << " for " << body);
  }
  return std::get<parsed_request>(std::move(outcome));
}

/// A chat body with `members` added, such as `"n": 2`.
std::string chat_with(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" +
         (members.empty() ? "" : "," + members) + "}";
}

std::string text_with(const std::string& members) {
  return R"({"model":"m","prompt":"hi")" + (members.empty() ? "" : "," + members) + "}";
}

std::string message_with(const std::string& message) {
  return R"({"messages":[)" + message + "]}";
}

}  // namespace

TEST_CASE("a minimal chat request has OpenAI's defaults") {
  const auto [request, plan] = accepted(endpoint::chat, chat_with(""));
  REQUIRE(request.messages == std::vector<actors::engines::chat_message>{{"user", "hi"}});
  CHECK(request.prompt_text.empty());
  CHECK(request.prompt_tokens.empty());
  CHECK(request.session.empty());
  CHECK(request.max_tokens == 0);
  CHECK(request.stop.empty());
  CHECK_FALSE(request.ignore_end);
  actors::engines::sampling_parameters expected;
  expected.seed = 77;
  CHECK(request.sampling == expected);
  CHECK(request.sampling.temperature == 1.0F);
  CHECK(plan.kind == endpoint::chat);
  CHECK_FALSE(plan.stream);
  CHECK_FALSE(plan.trace);
  CHECK(plan.model == "m");
  CHECK(plan.id == "chatcmpl-0123");
  CHECK(plan.created_unix_s == 1700000000);
}

TEST_CASE("a minimal text request has OpenAI's defaults") {
  const auto [request, plan] = accepted(endpoint::text, R"({"prompt":"once"})");
  CHECK(request.prompt_text == "once");
  CHECK(request.max_tokens == default_text_tokens);
  CHECK(plan.id == "cmpl-0123");
  CHECK(plan.model == "toy");
}

TEST_CASE("every supported chat parameter arrives") {
  const auto [request, plan] = accepted(endpoint::chat, chat_with(R"(
    "stream":true, "stream_options":{"include_usage":true}, "max_completion_tokens":50, "temperature":0.8,
    "top_p":0.9, "top_k":40, "min_p":0.05, "seed":7, "stop":["a","b"], "frequency_penalty":0.5,
    "presence_penalty":-0.5, "repetition_penalty":1.1, "logit_bias":{"12":-100,"3":1.5}, "logprobs":true,
    "top_logprobs":5, "n":1, "user":"u", "session_id":"s 1", "ignore_eos":true, "baton":{"trace":true})"));
  CHECK(request.session == "s 1");
  CHECK(request.max_tokens == 50);
  CHECK(request.stop == std::vector<std::string>{"a", "b"});
  CHECK(request.ignore_end);
  const auto& sampling = request.sampling;
  CHECK(sampling.temperature == 0.8F);
  CHECK(sampling.top_p == 0.9F);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.min_p == 0.05F);
  CHECK(sampling.seed == 7);
  CHECK(sampling.frequency_penalty == 0.5F);
  CHECK(sampling.presence_penalty == -0.5F);
  CHECK(sampling.repetition_penalty == 1.1F);
  CHECK(sampling.logit_bias == std::vector<std::pair<token_id, float>>{{3, 1.5F}, {12, -100.0F}});
  CHECK(sampling.logprobs);
  CHECK(sampling.top_logprobs == 5);
  CHECK(plan.stream);
  CHECK(plan.include_usage);
  CHECK(plan.trace);
  CHECK(plan.logprobs);
  CHECK(plan.top_logprobs == 5);
  CHECK(plan.seed == 7);
}

TEST_CASE("prompts come as text or as tokens") {
  CHECK(accepted(endpoint::text, R"({"prompt":["one"]})").request.prompt_text == "one");
  const std::vector<token_id> tokens{1, 2, 999};
  CHECK(accepted(endpoint::text, R"({"prompt":[1,2,999]})").request.prompt_tokens == tokens);
  CHECK(accepted(endpoint::text, R"({"prompt":[[1,2,999]]})").request.prompt_tokens == tokens);
  CHECK(accepted(endpoint::text, R"({"prompt":[5]})").request.prompt_tokens == std::vector<token_id>{5});
}

TEST_CASE("values that ask for nothing pass") {
  for (
      const char* members :
      {R"("n":null,"tools":null,"response_format":null,"stop":null,"seed":null,"temperature":null,"logit_bias":null)",
       R"("n":1,"tools":[],"tool_choice":"none","response_format":{"type":"text"},"modalities":["text"])",
       R"("store":false,"metadata":{"a":1},"service_tier":"auto","parallel_tool_calls":true,"user":"me")",
       R"("stop":[],"logit_bias":{},"logprobs":false,"top_logprobs":0,"top_k":-1,"baton":{},"max_tokens":null)",
       R"("stream":true,"stream_options":null,"reasoning_effort":null,"stream_options":{"include_obfuscation":false})"})
    accepted(endpoint::chat, chat_with(members));
  accepted(endpoint::text, text_with(R"("best_of":1,"echo":false,"suffix":"","n":1,"logprobs":null)"));
  // As SDKs send an earlier answer back.
  const auto turn =
      accepted(endpoint::chat,
               message_with(R"({"role":"assistant","content":"x","refusal":null,"annotations":[],"audio":null,
                       "function_call":null,"tool_calls":null,"name":"me"},{"role":"user","content":"y"})"));
  CHECK(turn.request.messages.size() == 2);
}

TEST_CASE("details of accepted values") {
  SECTION("content parts are joined by line ends") {
    const auto parsed = accepted(
        endpoint::chat,
        message_with(R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})"));
    CHECK(parsed.request.messages[0].content == "a\nb");
  }
  SECTION("developer is the system") {
    CHECK(
        accepted(endpoint::chat, message_with(R"({"role":"developer","content":""})")).request.messages[0] ==
        actors::engines::chat_message{"system", ""});
  }
  SECTION("seeds are signed or unsigned 64-bit numbers") {
    CHECK(accepted(endpoint::chat, chat_with(R"("seed":-1)")).request.sampling.seed == ~std::uint64_t{0});
    CHECK(accepted(endpoint::chat, chat_with(R"("seed":18446744073709551615)")).request.sampling.seed ==
          ~std::uint64_t{0});
    CHECK(accepted(endpoint::chat, chat_with(R"("seed":0)")).request.sampling.seed == 0);
    const auto outcome =
        parse_request(chat_with(R"("seed":18446744073709551616)"), context_of(endpoint::chat));
    REQUIRE(std::holds_alternative<api_error>(outcome));
    CHECK(std::get<api_error>(outcome).message == "'seed' must be an integer of at most 64 bits.");
  }
  SECTION("an empty nucleus is greedy") {
    const auto sampling = accepted(endpoint::chat, chat_with(R"("top_p":0)")).request.sampling;
    CHECK(sampling.top_k == 1);
    CHECK(sampling.top_p == 1.0F);
  }
  SECTION("max_tokens beyond any context is the context") {
    CHECK(accepted(endpoint::chat, chat_with(R"("max_tokens":9223372036854775807)")).request.max_tokens ==
          limits::session_tokens);
    CHECK(accepted(endpoint::chat, chat_with(R"("max_tokens":18446744073709551615)")).request.max_tokens ==
          limits::session_tokens);
    CHECK(accepted(endpoint::chat, chat_with(R"("max_tokens":3,"max_completion_tokens":3)"))
              .request.max_tokens == 3);
  }
  SECTION("one stop string, sixteen of them") {
    CHECK(accepted(endpoint::text, text_with(R"("stop":"END#")")).request.stop ==
          std::vector<std::string>{"END#"});
    const json many(std::vector<std::string>(limits::stop_strings, "x"));
    CHECK(accepted(endpoint::text, text_with("\"stop\":" + many.dump())).request.stop.size() ==
          limits::stop_strings);
  }
  SECTION("logprobs of a text completion are a number") {
    const auto none = accepted(endpoint::text, text_with(R"("logprobs":0)")).request.sampling;
    CHECK(none.logprobs);
    CHECK(none.top_logprobs == 0);
    CHECK(accepted(endpoint::text, text_with(R"("logprobs":3)")).request.sampling.top_logprobs == 3);
  }
  SECTION("escapes and characters beyond the basic plane") {
    CHECK(accepted(endpoint::text, R"({"prompt":"\ud83d\ude00\n\u00e9"})").request.prompt_text ==
          "\xF0\x9F\x98\x80\n\xC3\xA9");
  }
}

TEST_CASE("names of the conversation and of the request come by header, too") {
  auto context = context_of(endpoint::chat);
  context.session_header = "a+b =@%2B/\xC3\xA9";
  context.idempotency_header = "key-1";
  auto outcome = parse_request(chat_with(""), context);
  REQUIRE(std::holds_alternative<parsed_request>(outcome));
  CHECK(std::get<parsed_request>(outcome).request.session == "a+b =@%2B/\xC3\xA9");
  CHECK(std::get<parsed_request>(outcome).request.idempotency_key == "key-1");

  // A retry is told from another request by all that the client says, not by what the edge adds.
  const std::uint64_t hash = std::get<parsed_request>(outcome).request.request_hash;
  const auto hash_of = [](const std::string& body, const request_context& how) {
    return std::get<parsed_request>(parse_request(body, how)).request.request_hash;
  };
  auto again = context;
  again.stamp.seed += 1;
  again.stamp.id = "another";
  CHECK(hash_of(chat_with(""), again) == hash);
  CHECK(hash_of(chat_with(R"("temperature":0.5)"), context) != hash);
  again.session_header = "other";
  CHECK(hash_of(chat_with(""), again) != hash);

  outcome = parse_request(chat_with(R"("session_id":"other")"), context);
  REQUIRE(std::holds_alternative<api_error>(outcome));
  CHECK(std::get<api_error>(outcome).param == "session_id");

  const std::string long_name(name_bytes + 1, 'x');
  for (const std::string& bad : {std::string("\xFF"), std::string("a\x01"), long_name}) {
    context.session_header = bad;
    outcome = parse_request(chat_with(""), context);
    REQUIRE(std::holds_alternative<api_error>(outcome));
    CHECK(std::get<api_error>(outcome).param == "X-Session-Id");
  }
  context.session_header = {};
  context.idempotency_header = long_name;
  outcome = parse_request(chat_with(""), context);
  REQUIRE(std::holds_alternative<api_error>(outcome));
  CHECK(std::get<api_error>(outcome).param == "Idempotency-Key");
}

namespace {

struct bad_input {
  endpoint kind;
  std::string body;
  std::string param;
};

std::vector<bad_input> bad_inputs() {
  std::vector<bad_input> all;
  // Members of an otherwise good body: {members, parameter at fault}.
  const std::vector<std::pair<std::string, std::string>> both{
      {R"("n":2)", "n"},
      {R"("n":"1")", "n"},
      {R"("stream":"yes")", "stream"},
      {R"("stream":1)", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream":true,"stream_options":{"more":1})", "stream_options.more"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"9")", "max_tokens"},
      {R"("max_tokens":3,"max_completion_tokens":4)", "max_tokens"},
      {R"("max_completion_tokens":[])", "max_completion_tokens"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_p":-1)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":0.5)", "top_k"},
      {R"("top_k":4294967296)", "top_k"},
      {R"("min_p":2)", "min_p"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":"7")", "seed"},
      {R"("stop":5)", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":["a",5])", "stop"},
      {"\"stop\":" + json(std::vector<std::string>(limits::stop_strings + 1, "x")).dump(), "stop"},
      {"\"stop\":\"" + std::string(limits::stop_string_bytes + 1, 'x') + "\"", "stop"},
      {R"("frequency_penalty":2.5)", "frequency_penalty"},
      {R"("presence_penalty":-2.5)", "presence_penalty"},
      {R"("presence_penalty":true)", "presence_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":11)", "repetition_penalty"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"1000":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{"the":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999999999999999":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":{"1":"x"})", "logit_bias"},
      {R"("session_id":5)", "session_id"},
      {"\"session_id\":\"" + std::string(name_bytes + 1, 'x') + "\"", "session_id"},
      {R"("session_id":"a\u0000b")", "session_id"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("baton":true)", "baton"},
      {R"("baton":{"trace":1})", "baton.trace"},
      {R"("baton":{"speed":1})", "baton.speed"},
      {R"("model":5)", "model"},
      {"\"model\":\"" + std::string(model_name_bytes + 1, 'x') + "\"", "model"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("functions":[{}])", "functions"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("audio":{"voice":"x"})", "audio"},
      {R"("prediction":{})", "prediction"},
      {R"("reasoning_effort":"high")", "reasoning_effort"},
      {R"("web_search_options":{})", "web_search_options"},
      {R"("store":true)", "store"},
      {R"("best_of":2)", "best_of"},
      {R"("echo":true)", "echo"},
      {R"("suffix":"end")", "suffix"},
      {R"("no_such_thing":1)", "no_such_thing"},
  };
  for (const auto& [members, param] : both) {
    all.push_back({endpoint::chat, chat_with(members), param});
    all.push_back({endpoint::text, text_with(members), param});
  }
  const auto add = [&all](endpoint kind, const std::string& body, const std::string& param) {
    all.push_back({kind, body, param});
  };
  add(endpoint::chat, R"({})", "messages");
  add(endpoint::chat, R"({"messages":null})", "messages");
  add(endpoint::chat, R"({"messages":[]})", "messages");
  add(endpoint::chat, R"({"messages":"hi"})", "messages");
  add(endpoint::chat, R"({"prompt":"hi"})", "prompt");
  add(endpoint::chat, message_with("5"), "messages[0]");
  add(endpoint::chat, message_with("{}"), "messages[0].role");
  add(endpoint::chat, message_with(R"({"role":5,"content":""})"), "messages[0].role");
  add(endpoint::chat, message_with(R"({"role":"tool","content":""})"), "messages[0].role");
  add(endpoint::chat, message_with(R"({"role":"user"})"), "messages[0].content");
  add(endpoint::chat, message_with(R"({"role":"user","content":null})"), "messages[0].content");
  add(endpoint::chat, message_with(R"({"role":"user","content":5})"), "messages[0].content");
  add(endpoint::chat, message_with(R"({"role":"user","content":["x"]})"), "messages[0].content[0]");
  add(endpoint::chat, message_with(R"({"role":"user","content":[{"text":"x"}]})"),
      "messages[0].content[0].type");
  add(endpoint::chat,
      message_with(
          R"({"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{}}]})"),
      "messages[0].content[1].type");
  add(endpoint::chat, message_with(R"({"role":"user","content":[{"type":"text"}]})"),
      "messages[0].content[0].text");
  add(endpoint::chat, message_with(R"({"role":"user","content":"a"},{"role":"x","content":"a"})"),
      "messages[1].role");
  add(endpoint::chat, message_with(R"({"role":"assistant","content":"a","tool_calls":[{"id":"1"}]})"),
      "messages[0].tool_calls");
  add(endpoint::chat, message_with(R"({"role":"user","content":"a","mood":1})"), "messages[0].mood");
  add(endpoint::chat, chat_with(R"("logprobs":5)"), "logprobs");
  add(endpoint::chat, chat_with(R"("top_logprobs":5)"), "top_logprobs");
  add(endpoint::chat, chat_with(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs");
  add(endpoint::chat, chat_with(R"("logprobs":true,"top_logprobs":-1)"), "top_logprobs");
  add(endpoint::text, text_with(R"("logprobs":true)"), "logprobs");
  add(endpoint::text, text_with(R"("logprobs":21)"), "logprobs");
  add(endpoint::text, text_with(R"("messages":[])"), "messages");
  add(endpoint::text, text_with(R"("top_logprobs":1)"), "top_logprobs");
  for (const char* prompt : {"5", "null", "\"\"", "[]", "[\"\"]", "[\"a\",\"b\"]", "[[1],[2]]", "[1,-2]",
                             "[1000]", "[1,\"a\"]", "[1.5]", "{}", "[[]]", "[{}]", "[true]", "[1,null]"})
    add(endpoint::text, std::string("{\"prompt\":") + prompt + "}", "prompt");
  add(endpoint::text, "{}", "prompt");
  return all;
}

}  // namespace

TEST_CASE("bad input is refused and the parameter named") {
  for (const bad_input& bad : bad_inputs()) {
    CAPTURE(bad.body.substr(0, 200));
    auto outcome = parse(bad.kind, bad.body);
    REQUIRE(std::holds_alternative<api_error>(outcome));
    const auto& failure = std::get<api_error>(outcome);
    CHECK(failure.status == 400);
    CHECK(failure.type == "invalid_request_error");
    CHECK(failure.param == bad.param);
    CHECK(failure.message.find(bad.param) != std::string::npos);
    CHECK(json::parse(error_body(failure))["error"]["param"] == bad.param);
  }
}

TEST_CASE("malformed bodies are refused without a parameter") {
  const std::string deep(10'000, '[');
  std::string wide = R"({"prompt":[1)";
  for (std::size_t i = 0; i < limits::session_tokens + (1U << 17); ++i)
    wide += ",1";
  wide += "]}";
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("\"x\""), std::string("null"),
        std::string(R"({"prompt":"x",})"), std::string("{\"prompt\":\"\xFF\"}"),
        std::string("{\"prompt\":\"\xC3\"}"), std::string(R"({"prompt":"\ud800"})"),
        std::string(R"({"prompt":"x","temperature":1e999})"), std::string(R"({"prompt":"x"} {"prompt":"y"})"),
        std::string("{\"prompt\":\"a\nb\"}"), std::string("{\"prompt\":\"x\"}\0", 15),
        std::string(R"({"prompt":NaN})"), deep, "{\"prompt\":" + deep, wide}) {
    CAPTURE(body.substr(0, 60));
    auto outcome = parse(endpoint::text, body);
    REQUIRE(std::holds_alternative<api_error>(outcome));
    CHECK(std::get<api_error>(outcome).status == 400);
    CHECK(std::get<api_error>(outcome).param.empty());
  }
}

TEST_CASE("brackets within strings do not count as nesting") {
  const std::string brackets(10'000, '[');
  CHECK(accepted(endpoint::text, R"({"prompt":"\")" + brackets + R"(\\"})").request.prompt_text ==
        "\"" + brackets + "\\");
}

TEST_CASE("a prompt of tokens beyond any context is refused as such") {
  std::string body = R"({"prompt":[1)";
  for (std::size_t i = 0; i < limits::session_tokens; ++i)
    body += ",1";
  auto outcome = parse(endpoint::text, body + "]}");
  REQUIRE(std::holds_alternative<api_error>(outcome));
  CHECK(std::get<api_error>(outcome).code == "context_length_exceeded");
}

TEST_CASE("an error never grows with the client's input") {
  const std::string name(100'000, 'x');
  for (const std::string& body :
       {chat_with("\"" + name + "\":1"), chat_with("\"baton\":{\"" + name + "\":1}"),
        message_with(R"({"role":"user","content":"a",")" + name + "\":1}")}) {
    auto outcome = parse(endpoint::chat, body);
    REQUIRE(std::holds_alternative<api_error>(outcome));
    CHECK(error_body(std::get<api_error>(outcome)).size() < 1000);
  }
}

namespace {

/// One random edit of a body: bytes flipped, cut, doubled, or exchanged for something with a meaning in JSON.
std::string mutated(std::string body, std::mt19937_64& random) {
  static const std::vector<std::string> pieces{
      "\"",      "{",       "}",        "[",  "]",     ",",
      ":",       "null",    "true",     "-1", "1e308", "18446744073709551616",
      "\\u0000", "\\ud800", "\xF0\x9F", "{}", "[]"};
  const auto below = [&random](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const std::size_t at = below(body.size());
  const std::size_t length = below(std::min<std::size_t>(body.size() - at + 1, 16));
  switch (below(5)) {
    case 0:
      body[at] = static_cast<char>(random());
      break;
    case 1:
      body.erase(at, length);
      break;
    case 2:
      body.insert(at, body.substr(below(body.size()), length));
      break;
    case 3:
      body.insert(at, pieces[below(pieces.size())]);
      break;
    default:
      body.replace(at, length, pieces[below(pieces.size())]);
      break;
  }
  return body.empty() ? std::string("{") : body;
}

}  // namespace

TEST_CASE("mutated bodies are accepted or refused, never worse") {
  std::vector<std::pair<endpoint, std::string>> seeds{
      {endpoint::chat, chat_with(R"("stream":true,"stream_options":{"include_usage":true},"seed":7,"top_k":40,
        "logit_bias":{"12":-100,"3":1.5},"logprobs":true,"top_logprobs":5,"stop":["a","b"],"baton":{"trace":true})")},
      {endpoint::text, R"({"prompt":[1,2,3],"max_tokens":5,"logprobs":2,"session_id":"s"})"}};
  for (const bad_input& bad : bad_inputs())
    if (bad.body.size() < 500) seeds.emplace_back(bad.kind, bad.body);
  constexpr std::uint64_t seed = 20240607;
  std::mt19937_64 random(seed);
  std::size_t good = 0;
  std::size_t refused = 0;
  for (int i = 0; i < 30'000; ++i) {
    auto [kind, body] = seeds[random() % seeds.size()];
    for (std::uint64_t edits = random() % 4; edits > 0; --edits)
      body = mutated(std::move(body), random);
    INFO("seed " << seed << " iteration " << i << " body " << body);
    auto outcome = parse(kind, body);
    if (auto* failure = std::get_if<api_error>(&outcome)) {
      ++refused;
      if (failure->status != 400 || !json::accept(error_body(*failure))) FAIL("a refusal that is none");
      continue;
    }
    ++good;
    const auto& request = std::get<parsed_request>(outcome).request;
    const int prompts = static_cast<int>(!request.messages.empty()) +
                        static_cast<int>(!request.prompt_text.empty()) +
                        static_cast<int>(!request.prompt_tokens.empty());
    if (prompts != 1) FAIL("not exactly one prompt");
    for (const token_id token : request.prompt_tokens)
      if (token < 0 || token >= static_cast<token_id>(vocabulary)) FAIL("a token that is none");
  }
  CHECK(good > 100);
  CHECK(refused > 10'000);
}
