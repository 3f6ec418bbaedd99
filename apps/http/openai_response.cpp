#include "apps/http/openai.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

// Writing of response bodies, chunks and errors.

namespace baton::apps::http {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const char* name_of_reason(actors::finish_reason reason) {
  return reason == actors::finish_reason::length ? "length" : "stop";
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// JSON has no infinity; OpenAI writes this for "as good as never".
double finite_logprob(float value) {
  return std::isfinite(value) ? static_cast<double>(value) : -9999.0;
}

/// A token's bytes as text: those that are not whole characters as OpenAI shows them, with `prefix` before.
std::string token_text(const std::string& bytes, const char* prefix) {
  if (is_utf8(bytes)) return bytes;
  std::string text = prefix;
  for (const char c : bytes) {
    std::array<char, 5> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
    text += escaped.data();
  }
  return text;
}

std::size_t characters(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

ordered_json chat_token(const std::string& bytes, float logprob) {
  ordered_json values = ordered_json::array();
  for (const char c : bytes)
    values.push_back(static_cast<unsigned char>(c));
  return {
      {"token", token_text(bytes, "")}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(values)}};
}

const std::string& alternative_bytes(const actors::released_token& token, std::size_t i) {
  static const std::string none;
  return i < token.alternative_bytes.size() ? token.alternative_bytes[i] : none;
}

ordered_json chat_logprobs(const std::vector<actors::released_token>& tokens, std::size_t most) {
  ordered_json content = ordered_json::array();
  for (const auto& token : tokens) {
    ordered_json entry = chat_token(token.bytes, token.logprob);
    ordered_json top = ordered_json::array();
    for (std::size_t i = 0; i < std::min(most, token.alternatives.size()); ++i)
      top.push_back(chat_token(alternative_bytes(token, i), token.alternatives[i].logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// `offset` is that of the first token, in characters of the answer; moved past the last one.
ordered_json text_logprobs(const std::vector<actors::released_token>& tokens, std::size_t most,
                           std::size_t& offset) {
  ordered_json names = ordered_json::array();
  ordered_json values = ordered_json::array();
  ordered_json tops = ordered_json::array();
  ordered_json offsets = ordered_json::array();
  for (const auto& token : tokens) {
    names.push_back(token_text(token.bytes, "bytes:"));
    values.push_back(finite_logprob(token.logprob));
    ordered_json top = ordered_json::object();
    for (std::size_t i = 0; i < std::min(most, token.alternatives.size()); ++i)
      top.emplace(token_text(alternative_bytes(token, i), "bytes:"),
                  finite_logprob(token.alternatives[i].logprob));
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += characters(token.bytes);
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", most > 0 ? std::move(tops) : ordered_json(nullptr)},
          {"text_offset", std::move(offsets)}};
}

ordered_json logprobs_of(const response_plan& plan, const std::vector<actors::released_token>& tokens,
                         std::size_t& offset) {
  if (!plan.logprobs || tokens.empty()) return nullptr;
  return plan.kind == endpoint::chat ? chat_logprobs(tokens, plan.top_logprobs)
                                     : text_logprobs(tokens, plan.top_logprobs, offset);
}

ordered_json usage_of(const actors::turn_finished& event) {
  return {{"prompt_tokens", event.prompt_tokens},
          {"completion_tokens", event.completion_tokens},
          {"total_tokens", std::uint64_t{event.prompt_tokens} + event.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", event.cached_tokens}}}};
}

/// A seed is signed for OpenAI; one that does not fit was sent unsigned and wraps back to itself.
ordered_json seed_of(const response_plan& plan) {
  return static_cast<std::int64_t>(plan.seed);
}

ordered_json text_trace(const actors::turn_text& event) {
  return {{"position", event.last},
          {"node", event.node},
          {"epoch", raw(event.epoch)},
          {"lag_tokens", event.lag_tokens}};
}

ordered_json finish_trace(const response_plan& plan, const actors::turn_finished& event) {
  return {{"evaluated_tokens", event.evaluated_tokens}, {"recomputed_tokens", event.recomputed_tokens},
          {"cached_tokens", event.cached_tokens},       {"failovers", event.failovers},
          {"finish", name_of_reason(event.reason)},     {"seed", seed_of(plan)}};
}

ordered_json head_of(const response_plan& plan, const char* object) {
  return {{"id", plan.id}, {"object", object}, {"created", plan.created_unix_s}, {"model", plan.model}};
}

ordered_json chunk(const response_plan& plan, ordered_json choices) {
  ordered_json whole =
      head_of(plan, plan.kind == endpoint::chat ? "chat.completion.chunk" : "text_completion");
  whole["choices"] = std::move(choices);
  if (plan.include_usage) whole["usage"] = nullptr;
  return whole;
}

ordered_json chat_choice(ordered_json delta, ordered_json logprobs, ordered_json finish) {
  ordered_json choice{{"index", 0}};
  choice["delta"] = std::move(delta);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  return ordered_json::array({std::move(choice)});
}

ordered_json text_choice(const std::string& text, ordered_json logprobs, ordered_json finish) {
  ordered_json choice{{"text", text}, {"index", 0}};
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  return ordered_json::array({std::move(choice)});
}

ordered_json model_entry(std::string_view model, std::int64_t created_unix_s) {
  return {{"id", model}, {"object", "model"}, {"created", created_unix_s}, {"owned_by", "baton"}};
}

}  // namespace

// --- errors and lists -------------------------------------------------------------------------------------

api_error describe(const error& failure) {
  const std::string code(name_of(failure.code));
  switch (failure.code) {
    case errc::context_full:
      return {400, failure.what, "invalid_request_error", "", "context_length_exceeded"};
    case errc::invalid_argument:
    case errc::malformed:
    case errc::unsupported:
    case errc::poisoned:  // no 5xx: clients repeat those by themselves
      return {400, failure.what, "invalid_request_error", "", code};
    case errc::conflict:
      return {409, failure.what, "invalid_request_error", "", code};
    case errc::no_room:
      return {429, failure.what, "rate_limit_error", "", code};
    case errc::unavailable:
    case errc::connection_lost:
    case errc::not_owner:
      return {503, failure.what, "server_error", "", code};
    case errc::timed_out:
      return {504, failure.what, "server_error", "", code};
    default:
      return {500, failure.what, "server_error", "", code};
  }
}

std::string error_body(const api_error& failure) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? ordered_json(nullptr) : ordered_json(text);
  };
  ordered_json inner{{"message", failure.message}, {"type", failure.type}};
  inner["param"] = or_null(failure.param);
  inner["code"] = or_null(failure.code);
  ordered_json whole;
  whole["error"] = std::move(inner);
  return dump(whole);
}

std::string model_body(std::string_view model, std::int64_t created_unix_s) {
  return dump(model_entry(model, created_unix_s));
}

std::string models_body(std::string_view model, std::int64_t created_unix_s) {
  ordered_json whole{{"object", "list"}};
  whole["data"] = ordered_json::array({model_entry(model, created_unix_s)});
  return dump(whole);
}

// --- streams ----------------------------------------------------------------------------------------------

chunk_writer::chunk_writer(response_plan plan) : plan_(std::move(plan)) {}

std::string chunk_writer::started(const actors::turn_started& event) const {
  if (plan_.kind == endpoint::text) return {};
  ordered_json whole = chunk(plan_, chat_choice({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
  if (plan_.trace)
    whole["baton"] = {{"session", hexadecimal(raw(event.session))},
                      {"prompt_tokens", event.prompt_tokens},
                      {"cached_tokens", event.cached_tokens},
                      {"seed", seed_of(plan_)}};
  return dump(whole);
}

std::string chunk_writer::text(const actors::turn_text& event) {
  if (event.text.empty() && event.tokens.empty() && !plan_.trace) return {};
  ordered_json logprobs = logprobs_of(plan_, event.tokens, offset_characters_);
  ordered_json whole = chunk(plan_, plan_.kind == endpoint::chat
                                        ? chat_choice({{"content", event.text}}, std::move(logprobs), nullptr)
                                        : text_choice(event.text, std::move(logprobs), nullptr));
  if (plan_.trace) whole["baton"] = text_trace(event);
  return dump(whole);
}

std::string chunk_writer::finished(const actors::turn_finished& event) const {
  const char* reason = name_of_reason(event.reason);
  ordered_json whole =
      chunk(plan_, plan_.kind == endpoint::chat ? chat_choice(ordered_json::object(), nullptr, reason)
                                                : text_choice("", nullptr, reason));
  if (plan_.trace) whole["baton"] = finish_trace(plan_, event);
  return dump(whole);
}

std::string chunk_writer::usage(const actors::turn_finished& event) const {
  if (!plan_.include_usage) return {};
  ordered_json whole = chunk(plan_, ordered_json::array());
  whole["usage"] = usage_of(event);
  if (plan_.trace) whole["baton"] = finish_trace(plan_, event);
  return dump(whole);
}

// --- whole bodies -----------------------------------------------------------------------------------------

body_writer::body_writer(response_plan plan) : plan_(std::move(plan)) {}

void body_writer::add(const actors::turn_started& event) {
  started_ = event;
}

void body_writer::add(const actors::turn_text& event) {
  text_ += event.text;
  if (plan_.logprobs) tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
  last_.last = event.last;
  last_.node = event.node;
  last_.epoch = event.epoch;
  last_.lag_tokens = event.lag_tokens;
}

std::string body_writer::finish(const actors::turn_finished& event) const {
  std::size_t offset = 0;
  ordered_json logprobs = logprobs_of(plan_, tokens_, offset);
  ordered_json whole = head_of(plan_, plan_.kind == endpoint::chat ? "chat.completion" : "text_completion");
  if (plan_.kind == endpoint::chat) {
    ordered_json choice{{"index", 0}};
    choice["message"] = {{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = name_of_reason(event.reason);
    whole["choices"] = ordered_json::array({std::move(choice)});
  } else {
    whole["choices"] = text_choice(text_, std::move(logprobs), name_of_reason(event.reason));
  }
  whole["usage"] = usage_of(event);
  if (plan_.trace) {
    ordered_json trace = finish_trace(plan_, event);
    trace["session"] = hexadecimal(raw(started_.session));
    trace.update(text_trace(last_));
    whole["baton"] = std::move(trace);
  }
  return dump(whole);
}

}  // namespace baton::apps::http
