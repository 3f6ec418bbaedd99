#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <initializer_list>
#include <variant>
#include <vector>

#include "actors/protocol/session_log.hpp"
#include "schemas/hash.hpp"

/// Small builders that the tests of the protocol share.
namespace baton::test {

using actors::protocol::session_log;

inline constexpr std::uint64_t fingerprint = 0xfeed;

/// A seeded generator with the few draws that tests need; the same on every machine.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(mix64(seed)) {}

  std::uint64_t next() { return state_ = mix64(state_); }
  /// Uniform in [0, n).
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

inline turn_header turn(turn_number number, position base, position prompt_end, std::uint64_t seed = 0) {
  turn_header out;
  out.number = number;
  out.base = base;
  out.prompt_end = prompt_end;
  out.parameters.max_tokens = 1000;
  out.parameters.sampling.seed = seed;
  return out;
}

/// `count` tokens that depend on `flavour` and their place.
inline std::vector<token_id> tokens(position first, position count, std::uint64_t flavour = 1) {
  std::vector<token_id> out;
  for (position at = first; at < first + count; ++at)
    out.push_back(static_cast<token_id>(mix64(flavour * 1'000'003 + at) & 0xffff));
  return out;
}

/// A log of one session with one turn: a prompt, then `generated` tokens.
inline session_log log_of(position prompt, position generated, std::uint64_t flavour = 1,
                          session_id session = session_id{7}) {
  session_log log{session, fingerprint};
  if (prompt + generated == 0) return log;
  REQUIRE(log.begin_turn(turn(1, 0, prompt)));
  REQUIRE(log.append(tokens(0, prompt + generated, flavour)));
  return log;
}

/// The one effect of type `Effect` in a list of variants; nothing if there is none or more than one.
template <class Effect, class Effects>
const Effect* only(const Effects& effects) {
  const Effect* found = nullptr;
  for (const auto& effect : effects)
    if (const auto* it = std::get_if<Effect>(&effect)) {
      if (found != nullptr) return nullptr;
      found = it;
    }
  return found;
}

/// All effects of one type, in order.
template <class Effect, class Effects>
std::vector<Effect> all(const Effects& effects) {
  std::vector<Effect> found;
  for (const auto& effect : effects)
    if (const auto* it = std::get_if<Effect>(&effect)) found.push_back(*it);
  return found;
}

}  // namespace baton::test
