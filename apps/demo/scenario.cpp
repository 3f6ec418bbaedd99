#include "apps/demo/scenario.hpp"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/demo/conversation.hpp"

namespace baton::apps::demo {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::uint32_t compared_tokens = 32;
constexpr std::uint32_t follow_up_tokens = 16;
/// For a node that wakes up to do what harm it can: several leases.
constexpr auto zombie_time = 1500ms;
constexpr auto figures_timeout = 2s;
constexpr auto figures_pause = 50ms;

const char* words_for(loss how) {
  switch (how) {
    case loss::killed:
      return "killed (SIGKILL)";
    case loss::frozen:
      return "frozen (SIGSTOP)";
    case loss::cut:
      return "cut off (its network link is down)";
    case loss::ended:
      return "told to end (SIGTERM)";
  }
  return "lost";
}

json groups_of(const std::string& status) {
  const auto parsed = json::parse(status, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("cluster")) return json::array();
  return parsed["cluster"].value("groups", json::array());
}

/// A group with conversations in it that has another owner or epoch in the second status, in words. A node
/// that joins may well be given a new or an empty one.
std::string change_of_owner(const std::string& before, const std::string& after) {
  const auto later = groups_of(after);
  for (const auto& group : groups_of(before)) {
    if (group.value("sessions", 0) == 0) continue;
    const auto found = std::find_if(later.begin(), later.end(),
                                    [&group](const json& other) { return other["group"] == group["group"]; });
    if (found == later.end()) return "group " + group["group"].dump() + " is gone";
    if ((*found)["epoch"] != group["epoch"] || (*found)["owner"] != group["owner"])
      return "group " + group["group"].dump() + " of " + group.value("owner", "") + " under epoch " +
             group["epoch"].dump() + " is that of " + found->value("owner", "") + " under " +
             (*found)["epoch"].dump();
  }
  return {};
}

}  // namespace

result<void> scenario::begin() {
  messages_ = make_conversation(text_, how_.context);
  if (how_.kill_after == 0) how_.kill_after = std::max(1U, how_.tokens / 2);
  for (const auto step : {&scenario::run_reference, &scenario::run_with_loss, &scenario::run_reprefill,
                          &scenario::check_zombie}) {
    if (auto done = (this->*step)(); !done) return cluster_.explain(done.failure());
    screen_.progress_done();
  }
  return {};
}

result<void> scenario::lose_again(std::uint32_t number) {
  if (!out_.passed()) return {};
  if (auto done = try_lose_again(number); !done) return cluster_.explain(done.failure());
  screen_.progress_done();
  return {};
}

scenario_result scenario::conclude() {
  out_.gap_ms = median(out_.gaps_ms);
  out_.decode_ms_p50 = median(decode_ms_);
  return out_;
}

result<scenario_result> scenario::run() {
  if (auto begun = begin(); !begun) return begun.failure();
  for (std::uint32_t number = 2; number <= how_.losses; ++number)
    if (auto lost = lose_again(number); !lost) return lost.failure();
  return conclude();
}

turn_request scenario::request(const std::string& session) const {
  turn_request wanted;
  wanted.session = session;
  wanted.messages = messages_;
  wanted.max_tokens = how_.tokens;
  wanted.temperature = how_.temperature;
  wanted.seed = how_.seed;
  wanted.prompt_tokens = how_.context;
  return wanted;
}

result<void> scenario::run_reference() {
  const std::string what = "an undisturbed run of the same request: ";
  unsigned step = 0;
  screen_.progress(what + "reading the prompt", step++);
  auto ran = run_turn(cluster_.gateway(), request("demo-reference"), [&](const arrival&) {
    screen_.progress(what + std::to_string(step) + " of " + std::to_string(how_.tokens) + " tokens", step);
    ++step;
  });
  if (!ran) return {ran.code(), "the undisturbed run: " + ran.failure().what};
  reference_ = std::move(*ran);
  out_.prompt_tokens = reference_.prompt_tokens;
  return {};
}

void scenario::show(const arrival& piece) {
  if (piece.text.empty()) return;
  const bool before = victim_.empty() || piece.node == victim_;
  screen_.say(screen_.paint(before ? host::style::first_node : host::style::second_node, piece.text));
}

void scenario::lose(const std::string& node) {
  victim_ = node;
  const auto done = how_.how == loss::killed   ? cluster_.signal(node, SIGKILL)
                    : how_.how == loss::frozen ? cluster_.signal(node, SIGSTOP)
                    : how_.how == loss::ended  ? cluster_.signal(node, SIGTERM)
                                               : cluster_.set_link(node, false);
  if (!done) loss_failure_ = done.failure();
}

result<turn_record> scenario::lose_in(const turn_request& wanted, std::uint32_t prompt_tokens) {
  victim_.clear();
  bool announced = false;
  auto ran = run_turn(cluster_.gateway(), wanted, [&](const arrival& piece) {
    const std::uint32_t tokens = piece.last + 1 - std::min(piece.last + 1, prompt_tokens);
    if (victim_.empty() && tokens >= how_.kill_after) {
      lose(piece.node);  // before anything is printed: the time counts
      lost_at_ = tokens;
      lag_at_loss_ = piece.lag_tokens;
    }
    show(piece);
    if (!victim_.empty() && !announced) {
      announced = true;
      screen_.say(screen_.paint(host::style::bad, " [node " + victim_ + " " + words_for(how_.how) + "] "));
    }
  });
  if (loss_failure_) return *loss_failure_;
  return ran;
}

result<void> scenario::run_with_loss() {
  screen_.say("\n  " + screen_.paint(host::style::bold, "> " + last_question()) + "\n\n");
  screen_.progress("reading the prompt", 1);
  auto ran = lose_in(request("demo-interrupted"), reference_.prompt_tokens);
  screen_.say("\n\n");
  if (!ran) return {ran.code(), "the run with the loss: " + ran.failure().what};
  interrupted_ = std::move(*ran);
  out_.node = victim_;
  out_.killed_at = lost_at_;
  out_.lag_tokens = lag_at_loss_;
  out_.tokens = interrupted_.completion_tokens;
  out_.recomputed_tokens = interrupted_.recomputed_tokens;
  out_.evaluated_tokens_after = interrupted_.evaluated_tokens;
  out_.failovers = interrupted_.failovers;
  out_.difference = compare(reference_, interrupted_);
  out_.equal = out_.difference.empty();
  measure_gap(interrupted_);
  return read_status();
}

std::string scenario::compare(const turn_record& a, const turn_record& b) const {
  const auto [mine, theirs] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  if (mine != a.tokens.end() || theirs != b.tokens.end())
    return "the first token that differs is number " + std::to_string(mine - a.tokens.begin() + 1);
  if (a.text != b.text) return "the texts differ";
  if (a.completion_tokens != b.completion_tokens || a.prompt_tokens != b.prompt_tokens ||
      a.finish != b.finish)
    return "usage or finish reason differ";
  if (victim_.empty())
    return "no node was lost: the answer ended before token " + std::to_string(how_.kill_after);
  if (b.failovers == 0) return "nothing took over: the answer had ended when the node was lost";
  return {};
}

void scenario::measure_gap(const turn_record& turn) {
  decode_ms_.push_back(turn.decode_ms_p50());
  const auto& all = turn.arrivals;
  const auto taken_over =
      std::find_if(all.begin(), all.end(), [this, gone = false](const arrival& one) mutable {
        gone = gone || one.node == victim_;
        return gone && one.node != victim_;
      });
  if (taken_over == all.begin() || taken_over == all.end()) return;
  out_.gaps_ms.push_back(milliseconds_between((taken_over - 1)->at, taken_over->at));
  if (out_.successor.empty()) out_.successor = taken_over->node;
}

/// Figures travel by heartbeats, so those of a short run may not have arrived yet.
result<void> scenario::read_status() {
  const auto deadline = host::clock::now() + figures_timeout;
  while (!read_figures() && host::clock::now() < deadline)
    if (auto passed = cluster_.pause(figures_pause); !passed) return passed;
  return {};
}

bool scenario::read_figures() {
  const auto text = cluster_.status();
  const auto status = text.ok() ? json::parse(*text, nullptr, false) : json();
  if (!status.is_object() || !status.contains("cluster")) return false;
  double bytes = 0;
  double tokens = 0;
  std::set<std::string> carriers;
  for (const auto& link : status["cluster"].value("links", json::array())) {
    bytes += link.value("delta_bytes", 0.0);
    tokens += link.value("delta_tokens", 0.0);
    if (link.value("delta_tokens", 0.0) > 0) carriers.insert(link.value("carrier", ""));
  }
  for (const auto& node : status["cluster"].value("nodes", json::array()))
    if (node.contains("figures"))
      out_.kv_bytes_per_token =
          std::max(out_.kv_bytes_per_token, node["figures"].value("kv_bytes_per_token", 0.0));
  if (tokens == 0) return false;
  out_.wire_bytes_per_token = bytes / tokens;
  for (const auto& name : carriers)
    out_.transport += (out_.transport.empty() ? "" : ", ") + name;
  return true;
}

/// The history that the client had at the loss, as tokens of a session that nobody has seen.
result<void> scenario::run_reprefill() {
  const auto prompt = prompt_of(text_, messages_);
  const auto answer = tokens_of(text_, reference_.tokens);
  const auto known = std::min<std::size_t>(out_.killed_at, reference_.tokens.size());
  if (!prompt || prompt->size() != reference_.prompt_tokens)
    out_.no_reprefill = "the prompt of the gateway is not the one made here";
  else if (!answer)
    out_.no_reprefill = "the answer has bytes that no single token has";
  else if (known == 0)
    out_.no_reprefill = "no node was lost";
  if (!out_.no_reprefill.empty()) return {};
  turn_request again = request("");
  again.messages.clear();
  again.prompt = *prompt;
  again.prompt.insert(again.prompt.end(), answer->begin(),
                      answer->begin() + static_cast<std::ptrdiff_t>(known));
  again.max_tokens = compared_tokens + 1;
  screen_.progress("the other way: computing the same " + std::to_string(again.prompt.size()) +
                   " tokens again");
  const auto ran = run_turn(cluster_.gateway(), again);
  if (!ran) return {ran.code(), "computing the history again: " + ran.failure().what};
  if (ran->cached_tokens > 0) {
    out_.no_reprefill = std::to_string(ran->cached_tokens) + " of its tokens were cached";
    return {};
  }
  out_.reprefill_ms = ran->first_token_ms();
  for (std::size_t i = 0;
       i < compared_tokens && known + i < reference_.tokens.size() && i < ran->tokens.size(); ++i) {
    ++out_.compared_after_reprefill;
    if (ran->tokens[i] != reference_.tokens[known + i]) ++out_.differing_after_reprefill;
  }
  return {};
}

result<void> scenario::wake() {
  return how_.how == loss::killed || how_.how == loss::ended ? cluster_.restart(victim_)
         : how_.how == loss::frozen                          ? cluster_.signal(victim_, SIGCONT)
                                                             : cluster_.set_link(victim_, true);
}

turn_request scenario::follow_up(const std::string& session, const std::string& question) const {
  auto next = request(session);
  next.messages.push_back({"assistant", session == "demo-reference" ? reference_.text : interrupted_.text});
  next.messages.push_back({"user", question});
  return next;
}

/// What is known trails what is by some heartbeats: waits until the lost node is known to own no
/// conversation.
result<std::string> scenario::status_without_victim() {
  const auto deadline = host::clock::now() + figures_timeout;
  for (;;) {
    auto status = cluster_.status();
    const auto groups = status.ok() ? groups_of(*status) : json::array();
    const bool owns = std::any_of(groups.begin(), groups.end(), [this](const json& group) {
      return group.value("owner", "") == victim_ && group.value("sessions", 1) > 0;
    });
    if (!owns || host::clock::now() > deadline) return status;
    if (auto passed = cluster_.pause(figures_pause); !passed) return passed.failure();
  }
}

/// The lost node comes back believing what it believed. It must own nothing, and both conversations must go
/// on alike.
result<void> scenario::check_zombie() {
  if ((how_.how != loss::frozen && how_.how != loss::cut) || victim_.empty()) return {};
  screen_.progress("node " + victim_ + " comes back: does it change anything?");
  const auto before = status_without_victim();
  if (!before) return before.failure();
  if (auto woken = wake(); !woken) return woken;
  if (auto passed = cluster_.pause(zombie_time); !passed) return passed;
  const auto after = cluster_.status();
  if (!after) return after.failure();
  out_.zombie_harm = change_of_owner(*before, *after);
  std::vector<std::string> answers;
  for (const char* session : {"demo-reference", "demo-interrupted"}) {
    auto next = follow_up(session, "And what did the letter say?");
    next.max_tokens = follow_up_tokens;
    const auto ran = run_turn(cluster_.gateway(), next);
    if (!ran) return {ran.code(), "the turn after the node's return: " + ran.failure().what};
    answers.push_back(ran->text);
  }
  if (answers[0] != answers[1]) out_.zombie_harm = "the next answers of the two conversations differ";
  out_.zombie_harmless = out_.zombie_harm.empty();
  return {};
}

/// The next turn of both conversations, one of them losing its node again. Nothing of the history is
/// prefilled for it.
result<void> scenario::try_lose_again(std::uint32_t number) {
  if (auto back = wake(); !back) return back;
  if (auto in_step = cluster_.await_in_step(); !in_step) return in_step;
  const std::string what = "loss " + std::to_string(number) + " of " + std::to_string(how_.losses);
  screen_.progress(what, 1);
  const std::string question = "Tell me more, part " + std::to_string(number) + ".";
  auto undisturbed = run_turn(cluster_.gateway(), follow_up("demo-reference", question));
  if (!undisturbed) return {undisturbed.code(), what + ", undisturbed: " + undisturbed.failure().what};
  auto disturbed = lose_in(follow_up("demo-interrupted", question), undisturbed->prompt_tokens);
  if (!disturbed) return {disturbed.code(), what + ": " + disturbed.failure().what};
  measure_gap(*disturbed);
  out_.recomputed_tokens = std::max(out_.recomputed_tokens, disturbed->recomputed_tokens);
  const auto difference = compare(*undisturbed, *disturbed);
  if (!difference.empty()) out_.difference = what + ": " + difference;
  out_.equal = difference.empty();
  return {};
}

}  // namespace baton::apps::demo
