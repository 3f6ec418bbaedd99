#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "actors/engines/llama_engine.hpp"
#include "actors/engines/llama_tokenizer.hpp"
#include "tests/unit/engines/fixtures.hpp"

namespace baton::actors::engines::testing {

/// The model of the tests: $BATON_MODEL, or the one that the build was configured with.
inline std::string model_path() {
  const char* named = std::getenv("BATON_MODEL");
  return named != nullptr ? named : BATON_TEST_MODEL;
}

inline llama_engine::options model_options(std::uint32_t context_tokens, std::uint32_t sessions = 2) {
  llama_engine::options how;
  how.model_path = model_path();
  how.context_tokens = context_tokens;
  how.sessions = sessions;
  return how;
}

inline std::unique_ptr<llama_engine> load(const llama_engine::options& how) {
  auto made = llama_engine::load(how);
  if (!made) FAIL(made.failure().what);
  return std::move(*made);
}

inline const llama_tokenizer& model_words() {
  static const auto words = llama_tokenizer::load(model_path());
  if (!words) FAIL(words.failure().what);
  return **words;
}

/// A prompt of exactly `length` tokens that reads like text.
inline std::vector<token_id> prompt_of(std::size_t length, std::uint64_t seed = 7) {
  const auto& words = model_words();
  auto tokens = words.tokenize(
      "<|im_start|>user\nExplain in detail how a lighthouse works and why sailors needed it.<|im_end|>\n"
      "<|im_start|>assistant\n",
      true);
  const auto filler = words.tokenize(
      " The keeper lit the lamp at dusk, and the ships along the coast saw its beam through rain and fog. On "
      "calm nights the "
      "sea was silver; on others it was a wall of noise. Harbour pilots wrote notes.",
      false);
  numbers random(seed);
  while (tokens.size() < length)
    tokens.push_back(filler[random.below(filler.size())]);
  tokens.resize(length);
  return tokens;
}

inline sampling_parameters sampling() {
  sampling_parameters how;
  how.temperature = 0.8F;
  how.top_k = 40;
  how.top_p = 0.95F;
  how.repetition_penalty = 1.1F;
  how.seed = 42;
  return how;
}

}  // namespace baton::actors::engines::testing
