#include "apps/commands/engine_choice.hpp"

#include <poll.h>

#include <chrono>
#include <ctime>

#include "actors/engines/toy_engine.hpp"
#include "actors/engines/toy_tokenizer.hpp"
#ifdef BATON_HAS_LLAMA
#include "actors/engines/llama_engine.hpp"
#include "actors/engines/llama_tokenizer.hpp"
#endif

namespace baton::apps {
namespace {

namespace engines = actors::engines;

using engine_result = result<std::unique_ptr<engines::engine>>;
using tokenizer_result = result<std::shared_ptr<const engines::tokenizer>>;

/// What a model would compute in, passed without using a core.
void wait_for(std::chrono::microseconds time) {
  const timespec left{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  ::ppoll(nullptr, 0, &left, nullptr);
}

engine_result make_toy(const actors::toy_settings& how) {
  engines::toy_engine::options options;
  options.weights_seed = how.seed;
  options.context_tokens = how.context_tokens;
  options.sessions = how.sessions;
  options.poison = how.poison;
  options.fault = how.fault;
  options.delay_per_token = std::chrono::microseconds(how.decode_us);
  if (how.decode_us > 0) options.wait = wait_for;
  return engine_result(std::make_unique<engines::toy_engine>(options));
}

#ifdef BATON_HAS_LLAMA

engine_result make_llama(const actors::llama_settings& how) {
  engines::llama_engine::options options;
  options.model_path = how.model;
  options.context_tokens = how.context_tokens;
  options.sessions = how.sessions;
  options.threads = how.threads;
  options.mode = how.mode == "throughput" ? engines::llama_engine::batching::throughput
                                          : engines::llama_engine::batching::exact;
  options.kv_type = how.kv_type;
  auto made = engines::llama_engine::load(options);
  if (!made) return made.failure();
  return std::unique_ptr<engines::engine>(std::move(*made));
}

tokenizer_result make_llama_tokenizer(const actors::llama_settings& how) {
  auto made = engines::llama_tokenizer::load(how.model);
  if (!made) return made.failure();
  return std::shared_ptr<const engines::tokenizer>(std::move(*made));
}

#else

const error no_llama{errc::unsupported, "engine.type \"llama\": this build has no llama.cpp; use \"toy\""};

engine_result make_llama(const actors::llama_settings&) {
  return no_llama;
}

tokenizer_result make_llama_tokenizer(const actors::llama_settings&) {
  return no_llama;
}

#endif

}  // namespace

actors::engine_factory make_engine_factory(const actors::engine_settings& how) {
  if (const auto* toy = std::get_if<actors::toy_settings>(&how))
    return [toy = *toy] { return make_toy(toy); };
  return [llama = std::get<actors::llama_settings>(how)] { return make_llama(llama); };
}

tokenizer_result make_tokenizer(const actors::engine_settings& how) {
  if (const auto* llama = std::get_if<actors::llama_settings>(&how)) return make_llama_tokenizer(*llama);
  return std::shared_ptr<const engines::tokenizer>(std::make_shared<engines::toy_tokenizer>());
}

}  // namespace baton::apps
