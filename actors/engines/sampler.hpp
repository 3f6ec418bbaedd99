#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schemas/ids.hpp"
#include "schemas/session.hpp"

/// Sampling as a pure function of (logits, parameters, seed, position, token log): there is no sampler state
/// to replicate (design rule 8).
namespace baton::actors::engines {

using baton::sampling_parameters;
using baton::token_logprob;

/// A sampled token; `alternatives` are the most probable ones in falling order, if asked for.
struct sampled {
  token_id token = 0;
  float logprob = 0;
  std::vector<token_logprob> alternatives;
};

/// Picks the token of `at` (the position it will have). `log` is the session's token log before it, for the
/// penalties. Ties go to the smaller token id. Equal arguments give equal results on every node of a build.
sampled sample(std::span<const float> logits, const sampling_parameters& how, position at,
               std::span<const token_id> log);

/// Uniform in [0, 1): the counter-based generator behind `sample`, keyed by (seed, position).
double uniform_at(std::uint64_t seed, position at) noexcept;

}  // namespace baton::actors::engines
