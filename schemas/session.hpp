#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/ids.hpp"

/// What a session is made of: its turns, and the records that carry its token log from a primary to its
/// standbys.
namespace baton {

/// Sampling parameters of one turn; constant over it. The defaults change nothing: greedy needs `temperature`
/// 0.
struct sampling_parameters {
  float temperature = 1.0F;  ///< 0 is greedy
  std::uint32_t top_k = 0;   ///< 0 is off
  float top_p = 1.0F;        ///< nucleus (Holtzman et al., 2020); 1 is off
  float min_p = 0.0F;        ///< least probability relative to the best token; 0 is off
  float repetition_penalty =
      1.0F;  ///< divides positive, multiplies negative logits (Keskar et al., 2019); 1 is off
  float frequency_penalty = 0.0F;     ///< times the count within the window, subtracted from the logit
  float presence_penalty = 0.0F;      ///< subtracted from the logit of tokens within the window
  std::uint32_t penalty_window = 64;  ///< latest tokens of the log that penalties look at
  std::vector<std::pair<token_id, float>> logit_bias;  ///< added to logits
  std::uint64_t seed = 0;
  std::uint32_t top_logprobs = 0;  ///< alternatives reported per token
  bool logprobs = false;           ///< report the chosen token's logprob

  friend bool operator==(const sampling_parameters&, const sampling_parameters&) = default;
};

/// A token and the natural logarithm of its probability under the unmodified logits.
struct token_logprob {
  token_id token = 0;
  float logprob = 0;

  friend bool operator==(const token_logprob&, const token_logprob&) = default;
};

/// All that decides what a turn generates, apart from the tokens themselves.
struct turn_parameters {
  sampling_parameters sampling;
  std::uint32_t max_tokens = 0;  ///< generated tokens at most; at least 1
  std::vector<token_id>
      end_tokens;  ///< tokens that end the generation; the last one generated stays in the log

  friend bool operator==(const turn_parameters&, const turn_parameters&) = default;
};

/// Stable over processes of one build: what makes two turns the same turn.
std::uint64_t hash_of(const turn_parameters& parameters) noexcept;

/// One turn within a token log: its prompt occupies [base, prompt_end), what it generates follows.
struct turn_header {
  turn_number number = 0;
  position base = 0;        ///< length of the log when the turn was opened
  position prompt_end = 0;  ///< > base
  turn_parameters parameters;

  friend bool operator==(const turn_header&, const turn_header&) = default;
};

std::uint64_t hash_of(const turn_header& turn) noexcept;

/// A stretch of a session's history on top of a common point: the log is [0, first) with chain
/// `chain_before`, then come `tokens`, among which the turns begin. `turns` are those with base >= first, in
/// order.
struct session_piece {
  session_id session{};
  position first = 0;
  chain_hash chain_before = 0;
  std::vector<turn_header> turns;
  std::vector<token_id> tokens;

  [[nodiscard]] position end() const noexcept { return first + static_cast<position>(tokens.size()); }
  friend bool operator==(const session_piece&, const session_piece&) = default;
};

/// A point of a history: the chain of the log [0, length).
struct history_point {
  position length = 0;
  chain_hash chain = 0;

  friend bool operator==(const history_point&, const history_point&) = default;
};

// --- records: the token log as it is shipped, in order
// -------------------------------------------------------------------

/// A turn begins. Precedes its first token.
struct open_record {
  turn_header turn;

  friend bool operator==(const open_record&, const open_record&) = default;
};

/// Tokens [first, first + size) follow; `chain_before` is the chain of the log [0, first).
struct tokens_record {
  position first = 0;
  chain_hash chain_before = 0;
  std::vector<token_id> tokens;

  friend bool operator==(const tokens_record&, const tokens_record&) = default;
};

/// The log is cut to [0, length), whose chain is `chain`.
struct truncate_record {
  position length = 0;
  chain_hash chain = 0;

  friend bool operator==(const truncate_record&, const truncate_record&) = default;
};

/// The turn has ended; no token of it follows.
struct close_record {
  turn_number turn = 0;

  friend bool operator==(const close_record&, const close_record&) = default;
};

/// The session is forgotten. Stands alone.
struct drop_record {
  friend bool operator==(const drop_record&, const drop_record&) = default;
};

using session_record = std::variant<open_record, tokens_record, truncate_record, close_record, drop_record>;

}  // namespace baton
