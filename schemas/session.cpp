#include "schemas/session.hpp"

#include <bit>

#include "schemas/hash.hpp"

namespace baton {

namespace {
std::uint64_t step(std::uint64_t before, float value) noexcept {
  return hash_step(before, std::bit_cast<std::uint32_t>(value));
}
}  // namespace

std::uint64_t hash_of(const turn_parameters& parameters) noexcept {
  const sampling_parameters& s = parameters.sampling;
  std::uint64_t h = hash_step(s.seed, s.top_k);
  for (const float value :
       {s.temperature, s.top_p, s.min_p, s.repetition_penalty, s.frequency_penalty, s.presence_penalty})
    h = step(h, value);
  h = hash_step(h, s.penalty_window);
  h = hash_step(h, s.top_logprobs * 2ULL + (s.logprobs ? 1 : 0));
  h = hash_step(h, s.logit_bias.size());
  for (const auto& [token, bias] : s.logit_bias)
    h = step(hash_step(h, static_cast<std::uint32_t>(token)), bias);
  h = hash_step(h, parameters.max_tokens);
  for (const token_id token : parameters.end_tokens)
    h = hash_step(h, static_cast<std::uint32_t>(token));
  return h;
}

std::uint64_t hash_of(const turn_header& turn) noexcept {
  const std::uint64_t place = (std::uint64_t{turn.base} << 32) | turn.prompt_end;
  return hash_step(hash_step(hash_of(turn.parameters), turn.number), place);
}

}  // namespace baton
