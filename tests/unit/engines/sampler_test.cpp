#include "actors/engines/sampler.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <set>

#include "schemas/hash.hpp"

namespace baton::actors::engines {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
  std::vector<float> logits(count);
  for (auto& logit : logits) {
    seed = mix64(seed);
    logit = static_cast<float>(seed >> 40) * 0x1p-24F * 16 - 8;
  }
  return logits;
}

/// How often each token is drawn at positions 0, 1, ...
std::map<token_id, double> shares(std::span<const float> logits, const sampling_parameters& how,
                                  position draws, std::span<const token_id> log = {}) {
  std::map<token_id, double> counts;
  for (position at = 0; at < draws; ++at)
    counts[sample(logits, how, at, log).token] += 1.0 / draws;
  return counts;
}

}  // namespace

TEST_CASE("greedy takes the largest logit, and the smaller token of equal ones") {
  sampling_parameters how;
  how.temperature = 0;
  CHECK(sample(std::vector<float>{1, 3, 2, 3}, how, 0, {}).token == 1);
  CHECK(sample(std::vector<float>{-5, -3, -3}, how, 7, {}).token == 1);
  CHECK(sample(std::vector<float>{0.0F, -0.0F}, how, 7, {}).token == 0);
  CHECK(sample(std::vector<float>{-0.0F, 0.0F}, how, 7, {}).token == 0);
  how.temperature = -1;
  CHECK(sample(std::vector<float>{1, 3, 2}, how, 0, {}).token == 1);
  how.temperature = nan;
  CHECK(sample(std::vector<float>{1, 3, 2}, how, 0, {}).token == 1);
}

TEST_CASE("the generator gives the published first block of Philox4x32-10") {
  // Random123's known answer for counter 0 and key 0 begins 6627e8d5 e169c58d.
  CHECK(uniform_at(0, 0) == static_cast<double>(0x6627e8d5e169c58dULL >> 11) * 0x1p-53);
  CHECK(uniform_at(0, 1) != uniform_at(0, 0));
  CHECK(uniform_at(1, 0) != uniform_at(0, 0));
  CHECK(uniform_at(1ULL << 32, 0) != uniform_at(0, 0));
  double sum = 0;
  for (position at = 0; at < 10000; ++at) {
    const double u = uniform_at(42, at);
    REQUIRE((u >= 0 && u < 1));
    sum += u;
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.02));
}

TEST_CASE("a draw is a function of logits, parameters, seed, position and log, and of nothing else") {
  const auto logits = random_logits(1000, 1);
  sampling_parameters how;
  how.top_k = 50;
  how.top_p = 0.9F;
  how.repetition_penalty = 1.2F;
  how.seed = 99;
  const std::vector<token_id> log{1, 2, 3, 2};
  std::set<token_id> by_position;
  std::set<token_id> by_seed;
  for (position at = 0; at < 50; ++at) {
    const auto once = sample(logits, how, at, log);
    (void)sample(random_logits(300, at), how, at + 1, {});  // what happens in between does not matter
    CHECK(sample(logits, how, at, log).token == once.token);
    by_position.insert(once.token);
    auto other = how;
    other.seed = at;
    by_seed.insert(sample(logits, other, 7, log).token);
  }
  CHECK(by_position.size() > 5);
  CHECK(by_seed.size() > 5);
}

TEST_CASE("draws follow the distribution after temperature") {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  sampling_parameters how;
  auto plain = shares(logits, how, 20000);
  CHECK(plain[0] == Approx(0.5).margin(0.015));
  CHECK(plain[1] == Approx(0.3).margin(0.015));
  CHECK(plain[2] == Approx(0.15).margin(0.01));
  CHECK(plain[3] == Approx(0.05).margin(0.006));
  how.temperature = 0.5F;  // squares the odds
  auto sharp = shares(logits, how, 20000);
  const double norm = 0.25 + 0.09 + 0.0225 + 0.0025;
  CHECK(sharp[0] == Approx(0.25 / norm).margin(0.015));
  CHECK(sharp[1] == Approx(0.09 / norm).margin(0.015));
  // The same through the sorted path.
  how.temperature = 1;
  how.top_k = 4;
  auto sorted = shares(logits, how, 20000);
  CHECK(sorted[0] == Approx(0.5).margin(0.015));
  CHECK(sorted[3] == Approx(0.05).margin(0.006));
  how.temperature = 1e-30F;
  CHECK(shares(logits, how, 100)[0] == Approx(1));
  how.temperature = 1e30F;
  CHECK(shares(logits, how, 4000)[3] == Approx(0.25).margin(0.03));
}

TEST_CASE("top-k, top-p and min-p keep what they say") {
  const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  const auto kept = [&](const sampling_parameters& how) {
    std::set<token_id> tokens;
    for (const auto& [token, share] : shares(logits, how, 2000))
      tokens.insert(token);
    return tokens;
  };
  sampling_parameters how;
  how.top_k = 2;
  CHECK(kept(how) == std::set<token_id>{1, 3});
  how.top_k = 1;
  CHECK(kept(how) == std::set<token_id>{1});
  how.top_k = 1000;
  CHECK(kept(how).size() == 4);
  how = {};
  how.top_p = 0.65F;  // 0.4 + 0.3 crosses it
  CHECK(kept(how) == std::set<token_id>{1, 3});
  how.top_p = 0.75F;
  CHECK(kept(how) == std::set<token_id>{1, 2, 3});
  how.top_p = 0.0F;
  CHECK(kept(how) == std::set<token_id>{1});
  how.top_p = 0.99F;
  CHECK(kept(how).size() == 4);
  how = {};
  how.min_p = 0.6F;  // of 0.4: 0.24
  CHECK(kept(how) == std::set<token_id>{1, 3});
  how.min_p = 1.0F;
  CHECK(kept(how) == std::set<token_id>{1});
  how.min_p = 5.0F;
  CHECK(kept(how) == std::set<token_id>{1});
  how = {};
  how.top_k = 3;
  how.top_p = 0.7F;  // of 0.9: 0.63
  CHECK(kept(how) == std::set<token_id>{1, 3});
}

TEST_CASE("a wide nucleus is found whole") {
  const std::vector<float> flat(5000, 1.0F);
  sampling_parameters how;
  how.top_p = 0.5F;
  token_id largest = 0;
  for (position at = 0; at < 3000; ++at)
    largest = std::max(largest, sample(flat, how, at, {}).token);
  CHECK(largest < 2501);  // ties fall to the smaller tokens
  CHECK(largest > 2400);
}

TEST_CASE("penalties touch the tokens of the window only") {
  sampling_parameters how;
  how.temperature = 0;
  const std::vector<float> logits{2.0F, 1.9F, -1.0F, 1.5F};
  const std::vector<token_id> log{0, 0, 0, 1};
  CHECK(sample(logits, how, 4, log).token == 0);
  how.repetition_penalty = 1.3F;
  CHECK(sample(logits, how, 4, log).token == 0);  // 1.54, 1.46, -1, 1.5
  how.repetition_penalty = 1.4F;
  CHECK(sample(logits, how, 4, log).token == 3);
  how.penalty_window = 1;
  CHECK(sample(logits, how, 4, log).token == 0);  // only token 1 is within
  how.penalty_window = 0;
  CHECK(sample(logits, how, 4, log).token == 0);
  how = {};
  how.temperature = 0;
  how.frequency_penalty = 0.2F;  // 1.4, 1.7, -1, 1.5
  CHECK(sample(logits, how, 4, log).token == 1);
  how.frequency_penalty = 0;
  how.presence_penalty = 0.6F;  // 1.4, 1.3, -1, 1.5
  CHECK(sample(logits, how, 4, log).token == 3);
  how.presence_penalty = -0.2F;  // a reward
  CHECK(sample(logits, how, 4, std::vector<token_id>{1}).token == 1);
  // Negative logits are multiplied, so that they too become less likely.
  how = {};
  how.temperature = 0;
  how.repetition_penalty = 2;
  CHECK(sample(std::vector<float>{-1.0F, -1.5F}, how, 1, std::vector<token_id>{0}).token == 1);
  CHECK(sample(std::vector<float>{-1.0F, -1.5F}, how, 1, std::vector<token_id>{-7, 500}).token == 0);
}

TEST_CASE("bias forces and forbids") {
  sampling_parameters how;
  how.logit_bias = {{3, 100.0F}};
  const auto logits = random_logits(500, 3);
  for (position at = 0; at < 50; ++at)
    CHECK(sample(logits, how, at, {}).token == 3);
  how.temperature = 0;
  CHECK(sample(logits, how, 0, {}).token == 3);
  how.logit_bias = {{0, -100.0F}, {-1, 100.0F}, {5000, 100.0F}};
  CHECK(sample(std::vector<float>{5, 1, 2}, how, 0, {}).token == 2);
}

TEST_CASE("logprobs are those of the unmodified logits") {
  const auto logits = random_logits(200, 4);
  sampling_parameters how;
  how.temperature = 0.3F;
  how.top_k = 5;
  how.logit_bias = {{17, 50.0F}};
  how.logprobs = true;
  how.top_logprobs = 200;
  const auto out = sample(logits, how, 0, {});
  CHECK(out.token == 17);
  REQUIRE(out.alternatives.size() == 200);
  double sum = 0;
  for (std::size_t i = 0; i < out.alternatives.size(); ++i) {
    const auto& [token, logprob] = out.alternatives[i];
    sum += std::exp(static_cast<double>(logprob));
    if (i > 0) CHECK(out.alternatives[i - 1].logprob >= logprob);
    if (token == out.token) CHECK(out.logprob == logprob);
  }
  CHECK(sum == Approx(1).margin(1e-5));
  how.top_logprobs = 3;
  const auto few = sample(logits, how, 0, {});
  CHECK(few.alternatives == std::vector(out.alternatives.begin(), out.alternatives.begin() + 3));
  how.top_logprobs = 0;
  CHECK(sample(logits, how, 0, {}).alternatives.empty());
  CHECK(sample(logits, how, 0, {}).logprob == out.logprob);
  how.logprobs = false;
  CHECK(sample(logits, how, 0, {}).logprob == 0);
  // Large logits do not overflow.
  how = {};
  how.temperature = 0;
  how.logprobs = true;
  CHECK(sample(std::vector<float>{3000, 3000}, how, 0, {}).logprob == Approx(std::log(0.5)));
}

TEST_CASE("logits that are no numbers are never chosen and never crash") {
  sampling_parameters how;
  how.logprobs = true;
  how.top_logprobs = 4;
  for (const float temperature : {0.0F, 1.0F}) {
    for (const std::uint32_t top_k : {0U, 2U}) {
      for (const float top_p : {1.0F, 0.5F}) {
        for (const float min_p : {0.0F, 0.1F}) {
          how.temperature = temperature;
          how.top_k = top_k;
          how.top_p = top_p;
          how.min_p = min_p;
          for (position at = 0; at < 20; ++at) {
            CHECK(sample(std::vector<float>{nan, 1, nan, -infinity}, how, at, {}).token == 1);
            CHECK(sample(std::vector<float>{nan, 1, infinity, nan}, how, at, {}).token == 2);
            const auto none = sample(std::vector<float>{nan, nan, nan}, how, at, {});
            CHECK(none.token == 0);
            CHECK(std::isfinite(none.logprob));
            CHECK(sample(std::vector<float>{-infinity, -infinity}, how, at, {}).token == 0);
            CHECK(std::isfinite(sample(std::vector<float>{infinity, infinity}, how, at, {}).logprob));
          }
        }
      }
    }
  }
  how.repetition_penalty = 0;  // divides by zero
  how.logit_bias = {{0, nan}, {1, infinity}};
  CHECK(sample(std::vector<float>{1, 2, 3}, how, 3, std::vector<token_id>{2}).token >= 0);
}

TEST_CASE("what sampling costs on a vocabulary of 49152", "[.][cost]") {
  const auto logits = random_logits(49152, 9);
  const std::vector<token_id> log(64, 5);
  const auto cost = [&](const char* name, const sampling_parameters& how) {
    const auto start = std::chrono::steady_clock::now();
    for (position at = 0; at < 200; ++at)
      (void)sample(logits, how, at, log);
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    std::cout << "  " << name << ": " << taken.count() / 200 << " us\n";
  };
  sampling_parameters how;
  how.temperature = 0;
  cost("greedy", how);
  how.repetition_penalty = 1.1F;
  cost("greedy, penalties", how);
  how.temperature = 0.8F;
  how.top_k = 40;
  how.top_p = 0.95F;
  cost("penalties, top-k 40, top-p", how);
  how = {};
  cost("plain draw", how);
  how.top_p = 0.95F;
  cost("top-p without top-k", how);
  how.temperature = 0;
  how.logprobs = true;
  how.top_logprobs = 5;
  cost("greedy, 5 logprobs", how);
}

}  // namespace baton::actors::engines
