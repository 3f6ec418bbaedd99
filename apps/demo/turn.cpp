#include "apps/demo/turn.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace baton::apps::demo {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// Ten times what a small model takes on one busy core.
constexpr auto first_token_timeout = 60s;
constexpr auto first_token_per_prompt_token = 100ms;
constexpr auto next_token_timeout = 30s;

std::string body_of(const turn_request& request) {
  json body{{"max_tokens", request.max_tokens},
            {"temperature", request.temperature},
            {"seed", request.seed},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}},
            {"ignore_eos", true},
            {"baton", {{"trace", true}}}};
  if (!request.session.empty()) body["session_id"] = request.session;
  if (request.messages.empty()) {
    body["prompt"] = request.prompt;
    body["logprobs"] = 0;
  } else {
    body["logprobs"] = true;
    for (const auto& message : request.messages)
      body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string message_of(const json& failure) {
  const auto inner = failure.find("error");
  return inner != failure.end() && inner->is_object() ? inner->value("message", failure.dump())
                                                      : failure.dump();
}

/// The bytes of the tokens of one chunk, from either interface.
void read_tokens(const json& logprobs, std::vector<std::string>& into) {
  if (!logprobs.is_object()) return;
  for (const auto& entry : logprobs.value("content", json::array())) {
    std::string bytes;
    for (const auto& byte : entry.value("bytes", json::array()))
      bytes += static_cast<char>(byte.get<unsigned>());
    into.push_back(std::move(bytes));
  }
  for (const auto& entry : logprobs.value("tokens", json::array())) {
    auto name = entry.get<std::string>();
    if (name.rfind("bytes:\\x", 0) == 0) {
      std::string bytes;
      for (std::size_t i = 8; i + 1 < name.size(); i += 4)
        bytes += static_cast<char>(std::stoi(name.substr(i, 2), nullptr, 16));
      name = std::move(bytes);
    }
    into.push_back(std::move(name));
  }
}

/// Takes chunks of a stream into a record.
class reader {
 public:
  reader(turn_record& record, const std::function<void(const arrival&)>& seen)
      : record_(record), seen_(seen) {}

  /// False at the end of the answer.
  result<bool> take(const sse_event& event) {
    if (event.data == "[DONE]") return false;
    try {
      const json chunk = json::parse(event.data);
      if (chunk.contains("error"))
        return error{errc::unavailable, "the stream ended with: " + message_of(chunk)};
      take_chunk(chunk, event.at);
      return true;
    } catch (const json::exception& failure) {
      return error{errc::malformed, std::string("a chunk that is not understood: ") + failure.what()};
    }
  }

 private:
  void take_chunk(const json& chunk, time_point at) {
    std::string text;
    for (const auto& choice : chunk.value("choices", json::array())) {
      text += choice.contains("delta") ? text_of(choice["delta"], "content") : text_of(choice, "text");
      read_tokens(choice.value("logprobs", json()), record_.tokens);
      if (choice.contains("finish_reason") && choice["finish_reason"].is_string())
        record_.finish = choice["finish_reason"].get<std::string>();
    }
    record_.text += text;
    const auto trace = chunk.find("baton");
    if (trace != chunk.end() && trace->contains("position")) take_arrival(*trace, std::move(text), at);
    if (trace != chunk.end() && trace->contains("failovers")) take_end(*trace);
    if (chunk.contains("usage") && chunk["usage"].is_object()) {
      record_.prompt_tokens = chunk["usage"].value("prompt_tokens", 0U);
      record_.completion_tokens = chunk["usage"].value("completion_tokens", 0U);
    }
  }

  static std::string text_of(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
  }

  void take_arrival(const json& trace, std::string text, time_point at) {
    arrival next{at,
                 trace.value("position", 0U),
                 trace.value("node", ""),
                 trace.value("epoch", std::uint64_t{0}),
                 trace.value("lag_tokens", 0U),
                 std::move(text)};
    const bool fresh = record_.arrivals.empty() || next.last > record_.arrivals.back().last;
    if (seen_) seen_(next);
    if (fresh) record_.arrivals.push_back(std::move(next));
  }

  void take_end(const json& trace) {
    record_.evaluated_tokens = trace.value("evaluated_tokens", std::uint64_t{0});
    record_.recomputed_tokens = trace.value("recomputed_tokens", std::uint64_t{0});
    record_.cached_tokens = trace.value("cached_tokens", 0U);
    record_.failovers = trace.value("failovers", 0U);
  }

  turn_record& record_;
  const std::function<void(const arrival&)>& seen_;
};

error while_waiting(const std::string& what, const error& why) {
  if (why.code == errc::cancelled) return why;
  return {why.code, "waiting for " + what + ": " + why.what};
}

}  // namespace

double milliseconds_between(time_point from, time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double turn_record::first_token_ms() const {
  return arrivals.empty() ? 0 : milliseconds_between(sent, arrivals.front().at);
}

double turn_record::decode_ms_p50() const {
  std::vector<double> steps;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const auto& before = arrivals[i - 1];
    const auto& after = arrivals[i];
    if (before.node == after.node)
      steps.push_back(milliseconds_between(before.at, after.at) /
                      static_cast<double>(after.last - before.last));
  }
  return median(std::move(steps));
}

result<turn_record> run_turn(const http_client& gateway, const turn_request& request,
                             const std::function<void(const arrival&)>& seen) {
  turn_record record;
  record.sent = host::clock::now();
  const auto first = record.sent + first_token_timeout + request.prompt_tokens * first_token_per_prompt_token;
  auto stream = gateway.post(request.messages.empty() ? "/v1/completions" : "/v1/chat/completions",
                             body_of(request), first);
  if (!stream) return while_waiting("the gateway to answer", stream.failure());
  if (stream->status() != 200) {
    const auto body = stream->rest(host::clock::now() + next_token_timeout);
    const auto why = body.ok() ? message_of(json::parse(*body, nullptr, false)) : body.failure().what;
    return {errc::unavailable, "the gateway answers " + std::to_string(stream->status()) + ": " + why};
  }
  reader chunks(record, seen);
  for (;;) {
    const auto count = record.arrivals.size();
    auto event = stream->next(count == 0 ? first : host::clock::now() + next_token_timeout);
    const std::string wanted = count == 0 ? "the first token" : "what follows event " + std::to_string(count);
    if (!event) return while_waiting(wanted, event.failure());
    if (!*event)
      return {errc::connection_lost, "waiting for " + wanted + ": the stream ended without [DONE]"};
    const auto more = chunks.take(**event);
    if (!more) return more.failure();
    if (!*more) return record;
  }
}

}  // namespace baton::apps::demo
