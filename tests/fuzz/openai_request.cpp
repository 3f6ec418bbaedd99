#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "apps/http/openai.hpp"
#include "schemas/limits.hpp"
#include "tests/fuzz/memory_meter.hpp"
#include "tests/fuzz/targets.hpp"

namespace baton::fuzz {

namespace {

using namespace apps::http;
using nlohmann::json;

bool between(float value, float low, float high) {
  return value >= low && value <= high;  // no number is in no range
}

bool is_name(std::string_view name) {
  return name.size() <= name_bytes && is_utf8(name) &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

void check_refusal(const api_error& refusal) {
  BATON_ASSERT(refusal.status == 400 && refusal.type == "invalid_request_error");
  BATON_ASSERT(!refusal.message.empty() && refusal.message.size() < 2048 && refusal.param.size() < 1024);
  BATON_ASSERT(is_utf8(refusal.message) && is_utf8(refusal.param));
  const json body = json::parse(error_body(refusal));
  BATON_ASSERT(body.at("error").at("message") == refusal.message);
}

/// What the service relies on in a request that was taken.
void check_values(const parsed_request& parsed, const request_context& context) {
  const auto& request = parsed.request;
  const int prompts = int{!request.messages.empty()} + int{!request.prompt_text.empty()} +
                      int{!request.prompt_tokens.empty()};
  BATON_ASSERT(prompts == 1 && request.messages.empty() == (context.kind == endpoint::text));
  for (const auto& message : request.messages)
    BATON_ASSERT((message.role == "system" || message.role == "user" || message.role == "assistant") &&
                 is_utf8(message.content));
  for (const token_id token : request.prompt_tokens)
    BATON_ASSERT(token >= 0 && (context.vocabulary_size == 0 ||
                                static_cast<std::uint32_t>(token) < context.vocabulary_size));
  const auto& sampling = request.sampling;
  BATON_ASSERT(between(sampling.temperature, 0, 2) && between(sampling.top_p, 0, 1) &&
               between(sampling.min_p, 0, 1));
  BATON_ASSERT(between(sampling.frequency_penalty, -2, 2) && between(sampling.presence_penalty, -2, 2));
  BATON_ASSERT(between(sampling.repetition_penalty, 0.01F, 10) && sampling.top_p > 0);
  BATON_ASSERT(sampling.logit_bias.size() <= logit_bias_entries && sampling.top_logprobs <= top_logprobs);
  BATON_ASSERT(std::is_sorted(sampling.logit_bias.begin(), sampling.logit_bias.end()));
  for (const auto& [token, bias] : sampling.logit_bias)
    BATON_ASSERT(token >= 0 && between(bias, -100, 100));
  BATON_ASSERT(request.stop.size() <= limits::stop_strings);
  for (const auto& stop : request.stop)
    BATON_ASSERT(!stop.empty() && stop.size() <= limits::stop_string_bytes);
  BATON_ASSERT(is_name(request.session) && is_name(request.idempotency_key));
  BATON_ASSERT(request.max_tokens <= limits::session_tokens);
  BATON_ASSERT(parsed.plan.kind == context.kind && parsed.plan.model.size() <= model_name_bytes);
  BATON_ASSERT(parsed.plan.logprobs == sampling.logprobs && parsed.plan.seed == sampling.seed);
}

/// A request body that says everything. Empty if a token is biased more often than it has spellings.
std::string body_of(const parsed_request& parsed) {
  const auto& request = parsed.request;
  const auto& sampling = request.sampling;
  json body{{"temperature", sampling.temperature},
            {"top_p", sampling.top_p},
            {"top_k", sampling.top_k},
            {"min_p", sampling.min_p},
            {"frequency_penalty", sampling.frequency_penalty},
            {"presence_penalty", sampling.presence_penalty},
            {"repetition_penalty", std::max(0.01, double{sampling.repetition_penalty})},
            {"seed", sampling.seed},
            {"stop", request.stop},
            {"ignore_eos", request.ignore_end},
            {"stream", parsed.plan.stream},
            {"baton", {{"trace", parsed.plan.trace}}}};
  for (std::size_t i = 0; i < sampling.logit_bias.size(); ++i) {
    const auto& [token, bias] = sampling.logit_bias[i];
    std::string name = std::to_string(token);  // "7", "07", "007": the same token, in another name
    while (body.contains("logit_bias") && body["logit_bias"].contains(name))
      name.insert(0, 1, '0');
    if (name.size() > 10) return {};
    body["logit_bias"][name] = bias;
  }
  if (parsed.plan.kind == endpoint::text) {
    if (sampling.logprobs) body["logprobs"] = sampling.top_logprobs;
  } else {
    body["logprobs"] = sampling.logprobs;
    body["top_logprobs"] = sampling.top_logprobs;
  }
  if (!request.session.empty()) body["session_id"] = request.session;
  if (request.max_tokens > 0) body["max_tokens"] = request.max_tokens;
  if (parsed.plan.stream) body["stream_options"] = {{"include_usage", parsed.plan.include_usage}};
  if (!parsed.plan.model.empty()) body["model"] = parsed.plan.model;
  for (const auto& message : request.messages)
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  if (!request.prompt_text.empty()) body["prompt"] = request.prompt_text;
  if (!request.prompt_tokens.empty()) body["prompt"] = request.prompt_tokens;
  return body.dump();
}

void check_same(const parsed_request& a, const parsed_request& b) {
  const auto messages_of = [](const parsed_request& one) {
    std::vector<std::pair<std::string, std::string>> messages;
    for (const auto& message : one.request.messages)
      messages.emplace_back(message.role, message.content);
    return messages;
  };
  BATON_ASSERT(messages_of(a) == messages_of(b));
  BATON_ASSERT(a.request.session == b.request.session &&
               a.request.idempotency_key == b.request.idempotency_key);
  BATON_ASSERT(a.request.prompt_text == b.request.prompt_text);
  BATON_ASSERT(a.request.prompt_tokens == b.request.prompt_tokens);
  BATON_ASSERT(a.request.sampling == b.request.sampling && a.request.stop == b.request.stop);
  BATON_ASSERT(a.request.max_tokens == b.request.max_tokens && a.request.ignore_end == b.request.ignore_end);
  BATON_ASSERT(a.plan.stream == b.plan.stream && a.plan.include_usage == b.plan.include_usage);
  BATON_ASSERT(a.plan.trace == b.plan.trace && a.plan.model == b.plan.model && a.plan.id == b.plan.id);
}

/// Every answer to the request is JSON, whatever bytes its tokens are.
void check_answers(const response_plan& plan, const std::string& bytes) {
  actors::turn_text text;
  text.text = "\xEF\xBF\xBD";
  text.tokens.push_back({7, bytes, -0.5F, {{8, -1.5F}}, {bytes}});
  const actors::turn_finished finished{};
  chunk_writer chunks(plan);
  for (const std::string& chunk :
       {chunks.started({}), chunks.text(text), chunks.finished(finished), chunks.usage(finished)})
    if (!chunk.empty()) BATON_ASSERT(json::parse(chunk).at("model") == plan.model);
  body_writer whole(plan);
  whole.add(actors::turn_started{});
  whole.add(text);
  BATON_ASSERT(json::parse(whole.finish(finished)).at("id") == plan.id);
}

}  // namespace

// One byte of choices, a line for each of the two headers if chosen, then a request body. What is taken is
// within the documented ranges, and written down in full is taken as the same; what is refused is refused in
// the OpenAI form; both in memory linear in the body.
void openai_request(input bytes) {
  choices draw{bytes};
  const std::uint8_t how = draw.byte();
  std::string_view rest = text_of(draw.rest());
  const auto line = [&](bool wanted) {
    if (!wanted) return std::string_view{};
    const std::string_view head = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), head.size() + 1));
    return head;
  };
  request_context context;
  context.kind = (how & 1) != 0 ? endpoint::text : endpoint::chat;
  context.session_header = line((how & 2) != 0);
  context.idempotency_header = line((how & 4) != 0);
  context.default_model = "model";
  context.vocabulary_size = (how & 8) != 0 ? 1000 : 0;
  context.stamp = {"id", 1'700'000'000, 42};

  const memory_meter meter;
  const auto got = parse_request(rest, context);
  BATON_ASSERT(meter.peak_bytes() <= bytes.size() * 256 + (64U << 10));
  if (const auto* refusal = std::get_if<api_error>(&got)) return check_refusal(*refusal);
  const auto& parsed = std::get<parsed_request>(got);
  check_values(parsed, context);
  check_answers(parsed.plan, std::string{rest.substr(0, 8)});
  const std::string body = body_of(parsed);
  if (body.empty()) return;
  context.session_header = {};
  const auto again = parse_request(body, context);
  BATON_ASSERT(std::holds_alternative<parsed_request>(again));
  check_same(parsed, std::get<parsed_request>(again));
}

}  // namespace baton::fuzz
