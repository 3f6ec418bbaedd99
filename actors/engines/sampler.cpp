#include "actors/engines/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "schemas/errors.hpp"

namespace baton::actors::engines {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

/// What a logprob of minus infinity is reported as: JSON has no infinities.
constexpr float least_logprob = -9999.0F;

/// Philox4x32, 10 rounds (Salmon et al.: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// e^x for x <= 0, within a few units in the last place, from IEEE additions and multiplications alone.
/// libm's own picks a variant by processor, whose last bit may differ; two nodes must weigh tokens alike.
/// Cody-Waite reduction by ln 2, then the Taylor polynomial of degree 13 on [-ln2/2, ln2/2].
double exp_of_nonpositive(double x) noexcept {
  if (!(x > -700.0)) return 0.0;
  const auto k = static_cast<int>(x * 1.4426950408889634 - 0.5);
  const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  double sum = 1.0 / 6227020800.0;
  for (const double term :
       {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
        1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0}) {
    sum = sum * r + term;
  }
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + k) << 52);
}

/// A logit fit for comparing: not a number is never chosen, plus infinity is merely the largest.
float tame(float logit) noexcept {
  if (std::isnan(logit)) return lowest;
  return std::min(logit, std::numeric_limits<float>::max());
}

/// A token and its logit in one integer that sorts by logit, then by smaller id: equal logits have one order.
using ranked = std::uint64_t;

ranked rank_of(float logit, std::size_t token) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);  // -0 and +0 are equal
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{ordered} << 32) | (~static_cast<std::uint32_t>(token));
}
token_id token_of(ranked r) noexcept {
  return static_cast<token_id>(~static_cast<std::uint32_t>(r));
}
float logit_of(ranked r) noexcept {
  const auto ordered = static_cast<std::uint32_t>(r >> 32);
  return std::bit_cast<float>((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

void rank_all(std::span<const float> logits, std::vector<ranked>& out) {
  out.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    out[i] = rank_of(tame(logits[i]), i);
}

/// Moves the best `count` to the front, in falling order.
void best_first(std::vector<ranked>& all, std::size_t count) {
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < all.size()) std::nth_element(all.begin(), end, all.end(), std::greater<>{});
  std::sort(all.begin(), end, std::greater<>{});
}

/// The first token of the largest logit; 0 if none is a number.
token_id best_of(std::span<const float> logits) noexcept {
  token_id best = 0;
  float best_logit = lowest;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best_logit) {
      best_logit = logits[i];
      best = static_cast<token_id>(i);
    }
  }
  return best;
}

bool penalises(const sampling_parameters& how) noexcept {
  return how.repetition_penalty != 1.0F || how.frequency_penalty != 0.0F || how.presence_penalty != 0.0F;
}

void add_bias(std::span<float> logits, const sampling_parameters& how) {
  for (const auto& [token, bias] : how.logit_bias) {
    if (token >= 0 && static_cast<std::size_t>(token) < logits.size())
      logits[static_cast<std::size_t>(token)] += bias;
  }
}

void apply_penalties(std::span<float> logits, const sampling_parameters& how, std::span<const token_id> log) {
  const auto window = log.last(std::min<std::size_t>(log.size(), how.penalty_window));
  std::vector<token_id> seen(window.begin(), window.end());
  std::sort(seen.begin(), seen.end());
  for (auto at = seen.begin(); at != seen.end();) {
    const auto next = std::upper_bound(at, seen.end(), *at);
    if (*at >= 0 && static_cast<std::size_t>(*at) < logits.size()) {
      float& logit = logits[static_cast<std::size_t>(*at)];
      logit = logit > 0 ? logit / how.repetition_penalty : logit * how.repetition_penalty;
      logit -= static_cast<float>(next - at) * how.frequency_penalty + how.presence_penalty;
    }
    at = next;
  }
}

/// The distribution after temperature: the weight of the best token is 1.
struct weighing {
  double best = 0;
  double temperature = 1;

  [[nodiscard]] double operator()(float logit) const noexcept {
    return exp_of_nonpositive((logit - best) / temperature);
  }
};

/// Cuts `ranks` to the nucleus of mass `top_p`, in falling order. `sorted`: they are so already.
void cut_to_nucleus(std::vector<ranked>& ranks, bool sorted, double top_p, const weighing& weight) {
  double total = 0;
  for (const ranked r : ranks)
    total += weight(logit_of(r));
  // The nucleus is small as a rule: look for it among a few, and among ever more if it is not.
  for (std::size_t count = sorted ? ranks.size() : std::min<std::size_t>(128, ranks.size());;
       count = std::min(count * 8, ranks.size())) {
    if (!sorted) best_first(ranks, count);
    double mass = 0;
    for (std::size_t i = 0; i < count; ++i) {
      mass += weight(logit_of(ranks[i]));
      if (mass >= top_p * total) {
        ranks.resize(i + 1);
        return;
      }
    }
    if (count == ranks.size()) return;
  }
}

/// Draws among all of `logits`, in order of token id.
token_id draw_from_all(std::span<const float> logits, const weighing& weight, double uniform) {
  static thread_local std::vector<double> masses;  // kept for its memory only
  masses.resize(logits.size());
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i)
    total += masses[i] = weight(tame(logits[i]));
  double running = 0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < masses.size(); ++i) {
    if (masses[i] <= 0) continue;
    chosen = i;
    running += masses[i];
    if (running > uniform * total) break;
  }
  return static_cast<token_id>(chosen);
}

/// Top-k, top-p and min-p, then the draw, in falling order of logits.
token_id draw_from_best(std::span<const float> logits, const sampling_parameters& how, const weighing& weight,
                        double uniform) {
  static thread_local std::vector<ranked> ranks;  // kept for its memory only
  rank_all(logits, ranks);
  bool sorted = false;
  if (how.top_k > 0) {
    best_first(ranks, std::min<std::size_t>(how.top_k, ranks.size()));
    ranks.resize(std::min<std::size_t>(how.top_k, ranks.size()));
    sorted = true;
  }
  if (how.top_p < 1.0F) {
    cut_to_nucleus(ranks, sorted, how.top_p, weight);
    sorted = true;
  }
  if (how.min_p > 0.0F) {
    std::erase_if(ranks,
                  [&](ranked r) { return weight(logit_of(r)) < how.min_p && logit_of(r) < weight.best; });
    if (!sorted) best_first(ranks, ranks.size());
  }
  double total = 0;
  for (const ranked r : ranks)
    total += weight(logit_of(r));
  double running = 0;
  for (const ranked r : ranks) {
    running += weight(logit_of(r));
    if (running > uniform * total) return token_of(r);
  }
  return token_of(ranks.front());
}

token_id choose(std::span<const float> logits, const sampling_parameters& how, position at,
                std::span<const token_id> log) {
  static thread_local std::vector<float> adjusted;  // kept for its memory only
  const bool penalised = penalises(how) && !log.empty() && how.penalty_window > 0;
  if (penalised || !how.logit_bias.empty()) {
    adjusted.assign(logits.begin(), logits.end());
    add_bias(adjusted, how);
    if (penalised) apply_penalties(adjusted, how, log);
    logits = adjusted;
  }
  const token_id best = best_of(logits);
  const float best_logit = tame(logits[static_cast<std::size_t>(best)]);
  if (!(how.temperature > 0.0F) || best_logit == lowest) return best;
  const weighing weight{best_logit, how.temperature};
  const double uniform = uniform_at(how.seed, at);
  if (how.top_k == 0 && !(how.top_p < 1.0F) && !(how.min_p > 0.0F))
    return draw_from_all(logits, weight, uniform);
  return draw_from_best(logits, how, weight, uniform);
}

void report_logprobs(std::span<const float> logits, std::uint32_t alternatives, sampled& out) {
  const double best = tame(logits[static_cast<std::size_t>(best_of(logits))]);
  double sum = 0;
  for (const float logit : logits)
    sum += exp_of_nonpositive(tame(logit) - best);
  const double normaliser = best + std::log(sum);
  const auto logprob = [&](float logit) {
    const double value = tame(logit) - normaliser;
    return value > least_logprob ? static_cast<float>(value) : least_logprob;  // also when it is not a number
  };
  out.logprob = logprob(logits[static_cast<std::size_t>(out.token)]);
  const std::size_t count = std::min<std::size_t>(alternatives, logits.size());
  if (count == 0) return;
  static thread_local std::vector<ranked> ranks;  // kept for its memory only
  rank_all(logits, ranks);
  best_first(ranks, count);
  out.alternatives.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.alternatives.push_back({token_of(ranks[i]), logprob(logit_of(ranks[i]))});
  }
}

}  // namespace

sampled sample(std::span<const float> logits, const sampling_parameters& how, position at,
               std::span<const token_id> log) {
  BATON_ASSERT(!logits.empty());
  sampled out;
  out.token = choose(logits, how, at, log);
  if (how.logprobs || how.top_logprobs > 0) report_logprobs(logits, how.top_logprobs, out);
  return out;
}

double uniform_at(std::uint64_t seed, position at) noexcept {
  const auto words =
      philox4x32({at, 0, 0, 0}, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace baton::actors::engines
