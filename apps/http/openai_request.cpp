#include "apps/http/openai.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schemas/hash.hpp"
#include "schemas/limits.hpp"

// Reading of request bodies.

namespace baton::apps::http {
namespace {

using nlohmann::json;

constexpr auto any_integer = std::numeric_limits<std::int64_t>::max();
/// Elements a body may hold: the longest prompt as token ids, and all else. Bounds the parser's memory.
constexpr std::size_t body_elements = limits::session_tokens + (1U << 16);

/// Parameters that cannot change the text; their values are not looked at.
constexpr std::array ignored_parameters{
    "user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier", "parallel_tool_calls"};
constexpr std::array ignored_message_fields{"name", "annotations"};

constexpr std::array common_parameters{"model",
                                       "stream",
                                       "stream_options",
                                       "max_tokens",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "seed",
                                       "stop",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "logit_bias",
                                       "logprobs",
                                       "session_id",
                                       "ignore_eos",
                                       "baton"};
constexpr std::array chat_parameters{"messages", "max_completion_tokens", "top_logprobs"};
constexpr std::array text_parameters{"prompt", "max_completion_tokens"};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Parameters we know and do not support, with the values that ask for nothing; null asks for nothing as
/// well.
const json& neutral_values() {
  static const json values = json::parse(R"({
    "n": [1], "best_of": [1], "echo": [false], "suffix": [""], "store": [false],
    "tools": [[]], "tool_choice": ["none", "auto"], "functions": [[]], "function_call": ["none", "auto"],
    "response_format": [{"type": "text"}], "modalities": [["text"]], "audio": [], "prediction": [],
    "web_search_options": [], "reasoning_effort": [], "verbosity": ["medium"]
  })");
  return values;
}

/// The same for the fields of a message: SDKs send an assistant's answer back with all its empty fields.
const json& neutral_message_values() {
  static const json values = json::parse(R"({
    "refusal": [""], "tool_calls": [[]], "function_call": [], "audio": [], "reasoning_content": [""], "reasoning": [""]
  })");
  return values;
}

/// Keeps the first refusal.
class verdict {
 public:
  void refuse(std::string param, std::string message, std::string code = {}) {
    if (!failure_)
      failure_ =
          api_error{400, std::move(message), "invalid_request_error", std::move(param), std::move(code)};
  }
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] api_error take() { return std::move(*failure_); }

 private:
  std::optional<api_error> failure_;
};

std::string in_quotes(std::string_view name) {
  return "'" + std::string(name) + "'";
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

/// A client's own name of a thing, cut so that an error cannot be made large.
std::string shortened(const std::string& name) {
  constexpr std::size_t most = 64;
  if (name.size() <= most) return name;
  std::size_t cut = most;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xC0U) == 0x80U)
    --cut;
  return name.substr(0, cut) + "...";
}

/// Typed access to the members of one JSON object. A missing or null member gives the fallback; a wrong one
/// is refused under its full name.
class field_reader {
 public:
  field_reader(const json& object, std::string prefix, verdict& outcome)
      : object_(object), prefix_(std::move(prefix)), outcome_(outcome) {}

  [[nodiscard]] const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[nodiscard]] std::string path(std::string_view name) const { return prefix_ + std::string(name); }

  bool flag(const char* name, bool fallback) {
    const json* value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return wrong_type(name, "a boolean"), fallback;
    return value->get<bool>();
  }

  std::int64_t integer(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high) {
    const json* value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_number_integer()) return wrong_type(name, "an integer"), fallback;
    const bool huge =
        value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(any_integer);
    const std::int64_t number = huge ? any_integer : value->get<std::int64_t>();
    if (number < low || number > high) {
      const std::string bound = high == any_integer
                                    ? "at least " + std::to_string(low)
                                    : "from " + std::to_string(low) + " to " + std::to_string(high);
      outcome_.refuse(path(name),
                      "Invalid value for " + in_quotes(path(name)) + ": expected an integer " + bound + ".");
      return fallback;
    }
    return number;
  }

  float number(const char* name, float fallback, double low, double high) {
    const json* value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_number()) return wrong_type(name, "a number"), fallback;
    const auto number = value->get<double>();
    if (!(number >= low && number <= high)) {
      outcome_.refuse(path(name), "Invalid value for " + in_quotes(path(name)) + ": expected a number from " +
                                      number_text(low) + " to " + number_text(high) + ".");
      return fallback;
    }
    return static_cast<float>(number);
  }

  std::string text(const char* name, std::size_t most_bytes) {
    const json* value = find(name);
    if (value == nullptr) return {};
    if (!value->is_string()) return wrong_type(name, "a string"), std::string{};
    const auto& content = value->get_ref<const std::string&>();
    if (content.size() > most_bytes) {
      outcome_.refuse(path(name),
                      in_quotes(path(name)) + " is longer than " + std::to_string(most_bytes) + " bytes.");
      return {};
    }
    return content;
  }

  void wrong_type(std::string_view name, std::string_view expected) {
    outcome_.refuse(path(name), "Invalid type for " + in_quotes(path(name)) + ": expected " +
                                    std::string(expected) + ".");
  }

  verdict& outcome() { return outcome_; }

 private:
  const json& object_;
  std::string prefix_;
  verdict& outcome_;
};

/// Refuses what `neutral` lists, unless its value asks for nothing. Returns false if the name is not listed.
bool check_unsupported(const json& neutral, const std::string& name, const json& value,
                       const std::string& path, verdict& outcome) {
  const auto known = neutral.find(name);
  if (known == neutral.end()) return false;
  if (value.is_null()) return true;
  if (std::find(known->begin(), known->end(), value) != known->end()) return true;
  const bool has_value = !known->empty() && !known->front().empty();
  outcome.refuse(path,
                 has_value
                     ? "The only supported value of " + in_quotes(path) + " is " + known->front().dump() + "."
                     : in_quotes(path) + " is not supported.",
                 "unsupported_parameter");
  return true;
}

void check_names(const json& body, endpoint kind, verdict& outcome) {
  for (const auto& [name, value] : body.items()) {
    if (contains(common_parameters, name) || contains(ignored_parameters, name)) continue;
    if (kind == endpoint::chat ? contains(chat_parameters, name) : contains(text_parameters, name)) continue;
    const std::string shown = shortened(name);
    if (!check_unsupported(neutral_values(), name, value, shown, outcome))
      outcome.refuse(shown, "Unrecognized request argument supplied: " + shown, "unknown_parameter");
  }
}

/// Content of a message: a string, or parts of type text, joined by line ends.
std::string read_content(const json& content, const std::string& path, verdict& outcome) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    outcome.refuse(path,
                   "Invalid type for " + in_quotes(path) + ": expected a string or an array of text parts.");
    return {};
  }
  std::string joined;
  for (std::size_t i = 0; i < content.size() && !outcome.failed(); ++i) {
    const json& part = content[i];
    const std::string part_path = path + "[" + std::to_string(i) + "]";
    if (!part.is_object()) {
      outcome.refuse(part_path, "Invalid type for " + in_quotes(part_path) + ": expected an object.");
      return {};
    }
    const auto type = part.find("type");
    if (type == part.end() || *type != "text") {
      outcome.refuse(part_path + ".type",
                     in_quotes(part_path + ".type") + ": only parts of type 'text' are supported.",
                     "unsupported_value");
      return {};
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      outcome.refuse(part_path + ".text",
                     "Invalid type for " + in_quotes(part_path + ".text") + ": expected a string.");
      return {};
    }
    if (i > 0) joined += '\n';
    joined += text->get_ref<const std::string&>();
  }
  return joined;
}

/// "developer" is what newer OpenAI clients call the system role; no open model's template knows it.
std::optional<std::string> read_role(const json& message, const std::string& path, verdict& outcome) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    outcome.refuse(path, "Invalid type for " + in_quotes(path) + ": expected a string.");
    return std::nullopt;
  }
  if (*role == "developer") return "system";
  if (*role == "system" || *role == "user" || *role == "assistant") return role->get<std::string>();
  outcome.refuse(path,
                 in_quotes(path) + ": supported roles are 'system', 'developer', 'user' and 'assistant'.",
                 "unsupported_value");
  return std::nullopt;
}

actors::engines::chat_message read_message(const json& message, const std::string& path, verdict& outcome) {
  if (!message.is_object()) {
    outcome.refuse(path, "Invalid type for " + in_quotes(path) + ": expected an object.");
    return {};
  }
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content" || contains(ignored_message_fields, name)) continue;
    const std::string shown = path + "." + shortened(name);
    if (!check_unsupported(neutral_message_values(), name, value, shown, outcome))
      outcome.refuse(shown, in_quotes(shown) + " is not supported.", "unsupported_parameter");
  }
  auto role = read_role(message, path + ".role", outcome);
  if (!role) return {};
  const auto content = message.find("content");
  return {std::move(*role),
          read_content(content == message.end() ? json() : *content, path + ".content", outcome)};
}

void read_messages(field_reader& body, actors::completion_request& request) {
  const json* messages = body.find("messages");
  if (messages == nullptr)
    return body.outcome().refuse("messages", "Missing required parameter: 'messages'.");
  if (!messages->is_array()) return body.wrong_type("messages", "an array");
  if (messages->empty())
    return body.outcome().refuse("messages", "'messages' must hold at least one message.");
  request.messages.reserve(messages->size());
  for (std::size_t i = 0; i < messages->size() && !body.outcome().failed(); ++i)
    request.messages.push_back(
        read_message((*messages)[i], "messages[" + std::to_string(i) + "]", body.outcome()));
}

/// A token id as a client wrote it. `vocabulary_size` 0 leaves the range of the type.
std::optional<token_id> read_token(const json& value, std::uint32_t vocabulary_size) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const std::uint64_t above =
      vocabulary_size != 0 ? vocabulary_size : std::uint64_t{std::numeric_limits<token_id>::max()} + 1;
  const auto token = value.get<std::uint64_t>();
  if (token >= above) return std::nullopt;
  return static_cast<token_id>(token);
}

void read_prompt_tokens(const json& tokens, std::uint32_t vocabulary_size, verdict& outcome,
                        std::vector<token_id>& into) {
  if (tokens.size() > limits::session_tokens)
    return outcome.refuse("prompt", "'prompt' is longer than any context.", "context_length_exceeded");
  into.reserve(tokens.size());
  for (const json& value : tokens) {
    const auto token = read_token(value, vocabulary_size);
    if (!token)
      return outcome.refuse("prompt", "'prompt' holds something that is no token id of this model.");
    into.push_back(*token);
  }
}

void read_prompt(field_reader& body, std::uint32_t vocabulary_size, actors::completion_request& request) {
  verdict& outcome = body.outcome();
  const json* prompt = body.find("prompt");
  if (prompt == nullptr) return outcome.refuse("prompt", "Missing required parameter: 'prompt'.");
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) prompt = &prompt->front();
  if (prompt->is_string()) {
    request.prompt_text = prompt->get<std::string>();
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_number()) {
    read_prompt_tokens(*prompt, vocabulary_size, outcome, request.prompt_tokens);
  } else if (prompt->is_array() && prompt->size() > 1) {
    return outcome.refuse("prompt", "Only one prompt per request is supported.", "unsupported_value");
  } else if (!prompt->is_array()) {
    return body.wrong_type("prompt", "a string or an array of token ids");
  }
  if (request.prompt_text.empty() && request.prompt_tokens.empty())
    outcome.refuse("prompt", "'prompt' must not be empty.");
}

void read_stop(field_reader& body, actors::completion_request& request) {
  const json* stop = body.find("stop");
  if (stop == nullptr) return;
  if (!stop->is_string() && !stop->is_array())
    return body.wrong_type("stop", "a string or an array of strings");
  const json listed = stop->is_array() ? *stop : json::array({*stop});
  if (listed.size() > limits::stop_strings)
    return body.outcome().refuse(
        "stop", "'stop' holds more than " + std::to_string(limits::stop_strings) + " strings.");
  for (const json& text : listed) {
    if (!text.is_string()) return body.wrong_type("stop", "a string or an array of strings");
    request.stop.push_back(text.get<std::string>());
    if (request.stop.back().empty()) return body.outcome().refuse("stop", "'stop' holds an empty string.");
    if (request.stop.back().size() > limits::stop_string_bytes)
      return body.outcome().refuse("stop", "'stop' holds a string of more than " +
                                               std::to_string(limits::stop_string_bytes) + " bytes.");
  }
}

void read_logit_bias(field_reader& body, std::uint32_t vocabulary_size,
                     actors::engines::sampling_parameters& sampling) {
  const json* bias = body.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) return body.wrong_type("logit_bias", "an object of token ids to numbers");
  if (bias->size() > logit_bias_entries)
    return body.outcome().refuse(
        "logit_bias", "'logit_bias' holds more than " + std::to_string(logit_bias_entries) + " entries.");
  for (const auto& [name, value] : bias->items()) {
    const bool digits = !name.empty() && name.size() <= 10 &&
                        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto token = digits ? read_token(json(std::stoull(name)), vocabulary_size) : std::nullopt;
    if (!token)
      return body.outcome().refuse("logit_bias", "'logit_bias' names something that is no token id.");
    const double amount = value.is_number() ? value.get<double>() : 1000;
    if (!(amount >= -100 && amount <= 100))
      return body.outcome().refuse("logit_bias",
                                   "'logit_bias' holds something else than numbers from -100 to 100.");
    sampling.logit_bias.emplace_back(*token, static_cast<float>(amount));
  }
  // "7" and "007" are one token: the order would decide how they add up.
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
}

std::uint64_t read_seed(field_reader& body, std::uint64_t fallback) {
  const json* seed = body.find("seed");
  if (seed == nullptr) return fallback;
  if (seed->is_number_unsigned()) return seed->get<std::uint64_t>();
  if (seed->is_number_integer()) return static_cast<std::uint64_t>(seed->get<std::int64_t>());
  if (seed->is_number())
    body.outcome().refuse("seed", "'seed' must be an integer of at most 64 bits.");
  else
    body.wrong_type("seed", "an integer");
  return fallback;
}

void read_sampling(field_reader& body, const request_context& context,
                   actors::engines::sampling_parameters& sampling) {
  sampling.temperature = body.number("temperature", 1.0F, 0, 2);
  sampling.top_p = body.number("top_p", 1.0F, 0, 1);
  const std::int64_t top_k = body.integer("top_k", 0, -1, std::numeric_limits<std::int32_t>::max());
  sampling.top_k =
      static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));  // -1: off, as vLLM writes it
  if (sampling.top_p == 0) {  // a nucleus of no mass is the best token alone
    sampling.top_p = 1.0F;
    sampling.top_k = 1;
  }
  sampling.min_p = body.number("min_p", 0.0F, 0, 1);
  sampling.frequency_penalty = body.number("frequency_penalty", 0.0F, -2, 2);
  sampling.presence_penalty = body.number("presence_penalty", 0.0F, -2, 2);
  sampling.repetition_penalty = body.number("repetition_penalty", 1.0F, 0.01, 10);
  read_logit_bias(body, context.vocabulary_size, sampling);
  sampling.seed = read_seed(body, context.stamp.seed);
}

void read_logprobs(field_reader& body, endpoint kind, actors::engines::sampling_parameters& sampling) {
  if (kind == endpoint::text) {
    sampling.logprobs = body.find("logprobs") != nullptr;
    sampling.top_logprobs = static_cast<std::uint32_t>(body.integer("logprobs", 0, 0, top_logprobs));
    return;
  }
  sampling.logprobs = body.flag("logprobs", false);
  sampling.top_logprobs = static_cast<std::uint32_t>(body.integer("top_logprobs", 0, 0, top_logprobs));
  if (sampling.top_logprobs > 0 && !sampling.logprobs)
    body.outcome().refuse("top_logprobs", "'top_logprobs' needs 'logprobs' to be true.");
}

std::uint32_t read_max_tokens(field_reader& body, endpoint kind) {
  const std::int64_t older = body.integer("max_tokens", 0, 1, any_integer);
  const std::int64_t newer = body.integer("max_completion_tokens", 0, 1, any_integer);
  if (older != 0 && newer != 0 && older != newer)
    body.outcome().refuse("max_tokens", "'max_tokens' and 'max_completion_tokens' contradict each other.");
  const std::int64_t chosen = newer != 0 ? newer : older;
  if (chosen == 0) return kind == endpoint::text ? default_text_tokens : 0;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(chosen, limits::session_tokens));
}

/// Reads an object of our choice of names: anything else in it is refused.
const json* read_options(field_reader& body, const char* name,
                         std::initializer_list<std::string_view> known) {
  const json* options = body.find(name);
  if (options == nullptr) return nullptr;
  if (!options->is_object()) return body.wrong_type(name, "an object"), nullptr;
  for (const auto& [member, value] : options->items()) {
    if (contains(known, member)) continue;
    const std::string path = std::string(name) + "." + shortened(member);
    body.outcome().refuse(path, in_quotes(path) + " is not supported.", "unknown_parameter");
  }
  return options;
}

void read_plan(field_reader& body, response_plan& plan) {
  plan.stream = body.flag("stream", false);
  if (const json* options = read_options(body, "stream_options", {"include_usage", "include_obfuscation"})) {
    plan.include_usage =
        field_reader(*options, "stream_options.", body.outcome()).flag("include_usage", false);
    if (!plan.stream) body.outcome().refuse("stream_options", "'stream_options' needs 'stream' to be true.");
  }
  if (const json* options = read_options(body, "baton", {"trace"}))
    plan.trace = field_reader(*options, "baton.", body.outcome()).flag("trace", false);
  if (std::string model = body.text("model", model_name_bytes); !model.empty()) plan.model = std::move(model);
}

/// A name that ends up in logs and in the status: UTF-8 without control characters.
void check_name(std::string_view name, const char* param, verdict& outcome) {
  const bool plain = std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  if (name.size() > name_bytes || !plain || !is_utf8(name))
    outcome.refuse(param, in_quotes(param) + " must be UTF-8 without control characters, of at most " +
                              std::to_string(name_bytes) + " bytes.");
}

void read_names(field_reader& body, const request_context& context, actors::completion_request& request) {
  request.session = body.text("session_id", name_bytes);
  check_name(request.session, "session_id", body.outcome());
  check_name(context.session_header, "X-Session-Id", body.outcome());
  check_name(context.idempotency_header, "Idempotency-Key", body.outcome());
  if (!context.session_header.empty() && !request.session.empty() &&
      context.session_header != request.session)
    body.outcome().refuse("session_id", "'session_id' and the header X-Session-Id contradict each other.");
  if (request.session.empty()) request.session = context.session_header;
  request.idempotency_key = context.idempotency_header;
}

/// Looks at the brackets and commas outside of strings only, before the parser allocates anything.
bool fits_parser(std::string_view body) {
  std::size_t depth = 0;
  std::size_t elements = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') {
      ++depth;
      ++elements;
    }
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == ',') ++elements;
    if (depth > body_nesting || elements > body_elements) return false;
  }
  return true;
}

std::variant<json, api_error> parse_json(std::string_view body) {
  verdict outcome;
  if (body.find('\0') != std::string_view::npos) {  // which the parser takes for the end of its input
    outcome.refuse({}, "The request body is not valid JSON: it holds a zero byte.");
    return outcome.take();
  }
  if (!fits_parser(body)) {
    outcome.refuse({}, "The request body is nested too deep or holds too many values.");
    return outcome.take();
  }
  try {
    json parsed = json::parse(body);
    if (parsed.is_object()) return parsed;
    outcome.refuse({}, "The request body must be a JSON object.");
  } catch (const json::parse_error& failure) {  // the one place where the library's exceptions end
    outcome.refuse({},
                   "The request body is not valid JSON: error at byte " + std::to_string(failure.byte) + ".");
  } catch (const json::exception&) {
    outcome.refuse({}, "The request body holds a number that is out of range.");
  }
  return outcome.take();
}

}  // namespace

std::variant<parsed_request, api_error> parse_request(std::string_view body, const request_context& context) {
  auto document = parse_json(body);
  if (auto* failure = std::get_if<api_error>(&document)) return std::move(*failure);
  const json& object = std::get<json>(document);

  verdict outcome;
  field_reader reader(object, "", outcome);
  parsed_request parsed;
  check_names(object, context.kind, outcome);
  read_names(reader, context, parsed.request);
  parsed.plan.model = context.default_model;
  read_plan(reader, parsed.plan);
  read_sampling(reader, context, parsed.request.sampling);
  read_logprobs(reader, context.kind, parsed.request.sampling);
  read_stop(reader, parsed.request);
  parsed.request.max_tokens = read_max_tokens(reader, context.kind);
  parsed.request.ignore_end = reader.flag("ignore_eos", false);
  if (context.kind == endpoint::chat)
    read_messages(reader, parsed.request);
  else
    read_prompt(reader, context.vocabulary_size, parsed.request);
  if (outcome.failed()) return outcome.take();

  parsed.request.request_hash =
      hash_text(body, hash_text(parsed.request.session, static_cast<std::uint64_t>(context.kind)));
  parsed.plan.kind = context.kind;
  parsed.plan.logprobs = parsed.request.sampling.logprobs;
  parsed.plan.top_logprobs = parsed.request.sampling.top_logprobs;
  parsed.plan.id = (context.kind == endpoint::chat ? "chatcmpl-" : "cmpl-") + context.stamp.id;
  parsed.plan.created_unix_s = context.stamp.created_unix_s;
  parsed.plan.seed = parsed.request.sampling.seed;
  return parsed;
}

bool is_utf8(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  for (std::size_t i = 0; i < bytes.size();) {
    const unsigned char lead = at(i);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    if (length == 0 || i + length > bytes.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((at(i + k) & 0xC0U) != 0x80U) return false;
    if (lead == 0xE0 && at(i + 1) < 0xA0) return false;  // overlong
    if (lead == 0xED && at(i + 1) > 0x9F) return false;  // surrogate
    if (lead == 0xF0 && at(i + 1) < 0x90) return false;  // overlong
    if (lead == 0xF4 && at(i + 1) > 0x8F) return false;  // above U+10FFFF
    i += length;
  }
  return true;
}

}  // namespace baton::apps::http
