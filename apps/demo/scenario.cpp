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

const char* words_for(loss how) {
  switch (how) {
    case loss::killed:
      return "killed (SIGKILL)";
    case loss::frozen:
      return "frozen (SIGSTOP)";
    case loss::cut:
      return "cut off (its network link is down)";
  }
  return "lost";
}

/// Who owns what, without what a node's return may rightly change.
json ownership(const std::string& status) {
  const auto parsed = json::parse(status, nullptr, false);
  json owners = json::array();
  if (!parsed.is_object() || !parsed.contains("cluster")) return owners;
  for (const auto& group : parsed["cluster"].value("groups", json::array()))
    owners.push_back(
        {group.value("group", json()), group.value("epoch", json()), group.value("owner", json())});
  return owners;
}

}  // namespace

result<scenario_result> scenario::run() {
  messages_ = make_conversation(text_, how_.context);
  if (how_.kill_after == 0) how_.kill_after = std::max(1U, how_.tokens / 2);
  for (const auto step : {&scenario::run_reference, &scenario::run_with_loss}) {
    if (auto done = (this->*step)(); !done) return cluster_.explain(done.failure(), "edge");
    screen_.progress_done();
  }
  compare();
  measure_gap();
  read_status();
  for (const auto step : {&scenario::run_reprefill, &scenario::check_zombie}) {
    if (auto done = (this->*step)(); !done) return cluster_.explain(done.failure(), "edge");
    screen_.progress_done();
  }
  return out_;
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
  const bool before = out_.node.empty() || piece.node == out_.node;
  screen_.say(screen_.paint(before ? host::style::first_node : host::style::second_node, piece.text));
}

void scenario::lose(const std::string& node) {
  out_.node = node;
  const auto done = how_.how == loss::killed   ? cluster_.signal(node, SIGKILL)
                    : how_.how == loss::frozen ? cluster_.signal(node, SIGSTOP)
                                               : cluster_.set_link(node, false);
  if (!done) loss_failure_ = done.failure();
}

result<void> scenario::run_with_loss() {
  screen_.say("\n  " + screen_.paint(host::style::bold, "> " + last_question()) + "\n\n");
  screen_.progress("reading the prompt", 1);
  bool announced = false;
  auto ran = run_turn(cluster_.gateway(), request("demo-interrupted"), [&](const arrival& piece) {
    const std::uint32_t received = piece.last + 1 - std::min(piece.last + 1, out_.prompt_tokens);
    if (out_.node.empty() && received >= how_.kill_after) {
      lose(piece.node);  // before anything is printed: the time counts
      out_.killed_at = received;
      out_.lag_tokens = piece.lag_tokens;
    }
    show(piece);
    if (!out_.node.empty() && !announced) {
      announced = true;
      screen_.say(screen_.paint(host::style::bad, " [node " + out_.node + " " + words_for(how_.how) + "] "));
    }
  });
  screen_.say("\n\n");
  if (loss_failure_) return *loss_failure_;
  if (!ran) return {ran.code(), "the run with the loss: " + ran.failure().what};
  interrupted_ = std::move(*ran);
  out_.tokens = interrupted_.completion_tokens;
  out_.recomputed_tokens = interrupted_.recomputed_tokens;
  out_.evaluated_tokens_after = interrupted_.evaluated_tokens;
  out_.failovers = interrupted_.failovers;
  out_.decode_ms_p50 = interrupted_.decode_ms_p50();
  return {};
}

void scenario::compare() {
  const auto& a = reference_;
  const auto& b = interrupted_;
  const auto [mine, theirs] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  if (mine != a.tokens.end() || theirs != b.tokens.end())
    out_.difference = "the first token that differs is number " + std::to_string(mine - a.tokens.begin() + 1);
  else if (a.text != b.text)
    out_.difference = "the texts differ";
  else if (a.completion_tokens != b.completion_tokens || a.prompt_tokens != b.prompt_tokens ||
           a.finish != b.finish)
    out_.difference = "usage or finish reason differ";
  else if (out_.node.empty())
    out_.difference = "no node was lost: the answer ended before token " + std::to_string(how_.kill_after);
  else if (b.failovers == 0)
    out_.difference = "nothing took over: the answer had ended when the node was lost";
  out_.equal = out_.difference.empty();
}

void scenario::measure_gap() {
  const auto& all = interrupted_.arrivals;
  const auto taken_over =
      std::find_if(all.begin(), all.end(), [this, gone = false](const arrival& one) mutable {
        gone = gone || one.node == out_.node;
        return gone && one.node != out_.node;
      });
  if (taken_over == all.begin() || taken_over == all.end()) return;
  out_.gap_ms = milliseconds_between((taken_over - 1)->at, taken_over->at);
  out_.successor = taken_over->node;
}

void scenario::read_status() {
  const auto text = cluster_.status();
  const auto status = text.ok() ? json::parse(*text, nullptr, false) : json();
  if (!status.is_object() || !status.contains("cluster")) return;
  double bytes = 0;
  double tokens = 0;
  std::set<std::string> carriers;
  for (const auto& link : status["cluster"].value("links", json::array())) {
    bytes += link.value("delta_bytes", 0.0);
    tokens += link.value("delta_tokens", 0.0);
    if (link.value("delta_tokens", 0.0) > 0) carriers.insert(link.value("carrier", ""));
  }
  if (tokens > 0) out_.wire_bytes_per_token = bytes / tokens;
  for (const auto& name : carriers)
    out_.transport += (out_.transport.empty() ? "" : ", ") + name;
  for (const auto& node : status["cluster"].value("nodes", json::array()))
    if (node.contains("figures"))
      out_.kv_bytes_per_token =
          std::max(out_.kv_bytes_per_token, node["figures"].value("kv_bytes_per_token", 0.0));
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
  return how_.how == loss::cut ? cluster_.set_link(out_.node, true) : cluster_.signal(out_.node, SIGCONT);
}

result<std::string> scenario::follow_up(const std::string& session, const std::string& answer) const {
  auto next = request(session);
  next.messages.push_back({"assistant", answer});
  next.messages.push_back({"user", "And what did the letter say?"});
  next.max_tokens = follow_up_tokens;
  auto ran = run_turn(cluster_.gateway(), next);
  if (!ran) return {ran.code(), "the turn after the node's return: " + ran.failure().what};
  return std::move(ran->text);
}

/// The lost node comes back believing what it believed. It must own nothing, and both conversations must go
/// on alike.
result<void> scenario::check_zombie() {
  if (how_.how == loss::killed || out_.node.empty()) return {};
  screen_.progress("node " + out_.node + " comes back: does it change anything?");
  const auto before = cluster_.status();
  if (auto woken = wake(); !woken) return woken;
  if (auto passed = cluster_.pause(zombie_time); !passed) return passed;
  const auto after = cluster_.status();
  if (!before || !after) return (before ? after : before).failure();
  if (ownership(*before) != ownership(*after)) out_.zombie_harm = "ownership changed when the node came back";
  const auto undisturbed = follow_up("demo-reference", reference_.text);
  if (!undisturbed) return undisturbed.failure();
  const auto disturbed = follow_up("demo-interrupted", interrupted_.text);
  if (!disturbed) return disturbed.failure();
  if (*undisturbed != *disturbed) out_.zombie_harm = "the next answers of the two conversations differ";
  out_.zombie_harmless = out_.zombie_harm.empty();
  return {};
}

}  // namespace baton::apps::demo
