#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/engines/tokenizer.hpp"
#include "apps/demo/cluster.hpp"
#include "apps/demo/turn.hpp"

namespace baton::apps::demo {

enum class loss : std::uint8_t {
  killed,  ///< SIGKILL
  frozen,  ///< SIGSTOP
  cut,     ///< its network link goes down
  ended    ///< SIGTERM: it hands over first
};

struct scenario_options {
  loss how = loss::killed;
  std::uint32_t context = 200;   ///< tokens of the prompt, about
  std::uint32_t tokens = 64;     ///< of the answer
  std::uint32_t kill_after = 0;  ///< tokens; 0: half of them
  double temperature = 0;
  std::uint64_t seed = 1;
  std::uint32_t losses = 1;  ///< in turns that follow each other, the lost node being back before each
};

/// What one run showed. Times are those that the client saw.
struct scenario_result {
  bool equal = false;      ///< the answer with the loss is that without it, to the byte and to the token
  std::string difference;  ///< where not, in words
  std::string node;        ///< that was lost
  std::string successor;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t tokens = 0;
  std::uint32_t killed_at = 0;  ///< tokens the client had when the node was lost
  double gap_ms = 0;  ///< from its last token to the first of the successor; the middle one of several
  std::vector<double> gaps_ms;  ///< each
  double decode_ms_p50 = 0;
  std::uint32_t lag_tokens = 0;  ///< the last one shown before the loss
  std::uint64_t recomputed_tokens = 0;
  std::uint64_t evaluated_tokens_after = 0;
  std::uint32_t failovers = 0;

  std::optional<double> reprefill_ms;  ///< the same history as a new session: time to its first token
  std::uint32_t compared_after_reprefill = 0;
  std::uint32_t differing_after_reprefill = 0;
  std::string no_reprefill;  ///< why there is none

  double wire_bytes_per_token = 0;
  double kv_bytes_per_token = 0;
  std::string transport;

  std::optional<bool> zombie_harmless;  ///< the node came back, and nothing changed by it; of frozen and cut
  std::string zombie_harm;

  [[nodiscard]] bool passed() const { return equal && zombie_harmless.value_or(true); }
};

/// Runs the same request twice on a cluster, the second time losing the node that serves it, and compares;
/// then lets the survivors compute the same history from its tokens, as systems do that keep no KV.
class scenario {
 public:
  scenario(cluster& on, const actors::engines::tokenizer& text, const scenario_options& how,
           host::terminal& screen)
      : cluster_(on), text_(text), how_(how), screen_(screen) {}

  /// All losses that are asked for, one after the other.
  result<scenario_result> run();

  // The same in steps, for whoever has several clusters and wants them to see the same machine.
  result<void> begin();                           ///< up to the first loss, and computing again
  result<void> lose_again(std::uint32_t number);  ///< from 2 on; ends early if something has gone wrong
  scenario_result conclude();

 private:
  [[nodiscard]] turn_request request(const std::string& session) const;
  result<void> run_reference();
  result<void> run_with_loss();
  /// A turn that loses the node that serves it after the K-th token after the prompt.
  result<turn_record> lose_in(const turn_request& request, std::uint32_t prompt_tokens);
  void lose(const std::string& node);
  /// What differs between a turn with a loss and the same without, in words.
  [[nodiscard]] std::string compare(const turn_record& undisturbed, const turn_record& disturbed) const;
  void measure_gap(const turn_record& turn);
  result<void> try_lose_again(std::uint32_t number);
  result<void> read_status();
  /// False if nothing has been replicated as far as is known.
  bool read_figures();
  result<void> run_reprefill();
  result<std::string> status_without_victim();
  result<void> check_zombie();
  result<void> wake();
  [[nodiscard]] turn_request follow_up(const std::string& session, const std::string& question) const;
  void show(const arrival& piece);

  cluster& cluster_;
  const actors::engines::tokenizer& text_;
  scenario_options how_;
  host::terminal& screen_;

  std::vector<actors::engines::chat_message> messages_;
  turn_record reference_;
  turn_record interrupted_;
  std::vector<double> decode_ms_;
  std::string victim_;  // of the turn that runs now
  std::uint32_t lost_at_ = 0;
  std::uint32_t lag_at_loss_ = 0;
  std::optional<error> loss_failure_;
  scenario_result out_;
};

}  // namespace baton::apps::demo
