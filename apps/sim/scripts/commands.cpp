#include "apps/sim/scripts/commands.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/protocol/commit_rule.hpp"

namespace baton::apps::sim::scripts {

namespace {

constexpr nanoseconds patience = 20s;   // simulated, for what a command waits for
constexpr nanoseconds settling = 60ms;  // a few heartbeats: until every node has a lease

bool is_kind(std::string_view name) {
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); };
  return in(message_kinds()) || in(effect_kinds());
}

/// "[from A] [to B]" at the end of a command.
result<stage::pattern> pattern_at(const command_line& line, std::size_t at) {
  stage::pattern found{line.words[at], "", ""};
  const auto& kinds = message_kinds();
  if (std::find(kinds.begin(), kinds.end(), found.kind) == kinds.end())
    return cannot("no kind of message is called " + found.kind);
  for (++at; at < line.words.size(); at += 2) {
    if (at + 1 == line.words.size() || (line.words[at] != "from" && line.words[at] != "to"))
      return cannot("expected: KIND [from A] [to B]");
    (line.words[at] == "from" ? found.from : found.to) = line.words[at + 1];
  }
  return found;
}

}  // namespace

const std::map<std::string, interpreter::handler, std::less<>>& interpreter::handlers() {
  using self = interpreter;
  static const std::map<std::string, handler, std::less<>> all{
      {"cluster", &self::cluster_of}, {"trace", &self::trace},
      {"turn", &self::turn},          {"cancel", &self::cancel},
      {"run", &self::run_on},         {"kill", &self::kill},
      {"start", &self::start},        {"stop", &self::stop},
      {"continue", &self::go_on},     {"cut", &self::cut},
      {"isolate", &self::isolate},    {"reset", &self::reset},
      {"slow", &self::slow},          {"heal", &self::heal},
      {"drop", &self::treat},         {"hold", &self::treat},
      {"repeat", &self::treat},       {"corrupt", &self::treat},
      {"let", &self::let_go},         {"store", &self::store},
      {"clock", &self::clock},        {"drain", &self::drain},
      {"state", &self::state},        {"counters", &self::counters},
      {"expect", &self::expect},
  };
  return all;
}

result<void> interpreter::run(std::string_view line) {
  const auto read = parse_command(line);
  if (!read) return read.failure();
  if (read->words.empty()) return cannot("no command");
  const auto found = handlers().find(read->words.front());
  if (found == handlers().end()) return cannot("no command is called " + read->words.front());
  if (!stage_ && found->first != "cluster") return cannot("the first command is: cluster");
  return (this->*found->second)(*read);
}

result<cluster::member*> interpreter::process(const command_line& line, std::size_t at) {
  if (at >= line.words.size()) return cannot("a process is expected");
  auto* who = stage_->all().at(line.words[at]);
  if (who == nullptr) return cannot("no process is called " + line.words[at]);
  return who;
}

/// "A B": both ways; "A > B": one way.
result<void> interpreter::paths(const command_line& line,
                                const std::function<void(const std::string&, const std::string&)>& on) {
  const bool one_way = line.words.size() == 4 && line.words[2] == ">";
  if (!one_way && line.words.size() != 3) return cannot("expected: A B, or A > B");
  for (const std::size_t at : {std::size_t{1}, line.words.size() - 1})
    if (const auto who = process(line, at); !who) return who.failure();
  on(line.words[1], line.words.back());
  if (!one_way) on(line.words.back(), line.words[1]);
  return {};
}

// --- the shape and the work --------------------------------------------------------------------------------

result<void> interpreter::cluster_of(const command_line& line) {
  if (stage_) return cannot("there is a cluster already");
  settings how;
  how.sessions = 24;
  how.staging_slots = 64;
  std::string commit = "semi-sync";
  std::string rows = "yes";
  std::string late_writes = "no";
  std::string other;
  std::string without = "nothing";
  options given{line};
  given.take("nodes", how.nodes);
  given.take("gateways", how.gateways);
  given.take("every", how.every_tokens);
  given.take("chunk", how.prefill_chunk);
  given.take("context", how.context_tokens);
  given.take("places", how.sessions);
  given.take("slots", how.staging_slots);
  given.take("step", how.step);
  given.take("commit", commit);
  given.take("rows", rows);
  given.take("late_writes", late_writes);
  given.take("other_weights", other);
  given.take("without", without);
  given.take("violates", to_violate_);
  if (const auto all = given.rest(); !all) return all.failure();
  const auto rule = actors::protocol::parse_commit_rule(commit);
  if (!rule) return rule.failure();
  const auto left = left_out_named(without);
  if (!left) return cannot("no rule is called " + without);
  if (*left == left_out::nothing && !to_violate_.empty())
    return cannot("with all rules there is nothing to violate");
  how.commit = *rule;
  how.rows = rows == "yes";
  how.late_writes = late_writes == "yes";
  if (!other.empty()) how.other_weights.insert(other);
  stage_ = std::make_unique<stage>(std::move(how), *left, print_);
  return trace({{"trace", "on"}, {}});
}

result<void> interpreter::trace(const command_line& line) {
  auto& shown = stage_->shown;
  stage_->shown_from.clear();
  for (std::size_t at = 1; at < line.words.size(); ++at) {
    std::string word = line.words[at];
    if (word == "times") {
      stage_->times = true;
    } else if (word == "from" && at + 1 < line.words.size()) {
      stage_->shown_from = line.words[++at];
    } else if (word == "off") {
      shown.clear();
    } else if (word == "on") {
      for (const auto& list : {message_kinds(), effect_kinds()})
        shown.insert(list.begin(), list.end());
      for (const auto* many : {"heartbeat", "heartbeat_ack", "cluster_view"})
        shown.erase(many);
    } else {
      const bool change = word.starts_with('+') || word.starts_with('-');
      const bool less = word.starts_with('-');
      if (change) word.erase(0, 1);
      if (!is_kind(word)) return cannot("nothing that can be shown is called " + word);
      if (!change && at == 1) shown.clear();
      if (less)
        shown.erase(word);
      else
        shown.insert(word);
    }
  }
  return {};
}

result<void> interpreter::turn(const command_line& line) {
  if (line.words.size() != 2) return cannot("expected: turn NAME prompt=... max_tokens=...");
  actors::completion_request request;
  request.session = line.words[1];
  request.max_tokens = 10;
  request.ignore_end = true;
  request.sampling.temperature = 0;
  std::string gateway = "edge0";
  std::string stop;
  std::size_t keep = std::string::npos;
  std::size_t times = 1;
  options given{line};
  given.take("session", request.session);
  given.take("prompt", request.prompt_text);
  given.take("max_tokens", request.max_tokens);
  given.take("gateway", gateway);
  given.take("temperature", request.sampling.temperature);
  given.take("top_p", request.sampling.top_p);
  given.take("seed", request.sampling.seed);
  given.take("stop", stop);
  given.take("keep", keep);
  given.take("times", times);
  if (const auto all = given.rest(); !all) return all.failure();
  if (!stop.empty()) request.stop = {stop};
  const std::string once = request.prompt_text;
  for (std::size_t i = 1; i < times; ++i)
    request.prompt_text += once;
  return stage_->open(line.words[1], gateway, std::move(request), keep);
}

result<void> interpreter::cancel(const command_line& line) {
  if (line.words.size() != 2 || stage_->find(line.words[1]) == nullptr)
    return cannot("expected: cancel TURN");
  stage_->cancel(line.words[1]);
  return {};
}

// --- time --------------------------------------------------------------------------------------------------

result<void> interpreter::run_on(const command_line& line) {
  const auto& words = line.words;
  if (words.size() == 3 && words[1] == "for") {
    const auto time = duration(words[2]);
    if (!time) return time.failure();
    stage_->run_for(*time);
    return {};
  }
  if (words.size() >= 3 && words[1] == "until") return run_until(line);
  return cannot("expected: run for TIME, or run until ...");
}

result<void> interpreter::run_until(const command_line& line) {
  const auto& words = line.words;
  const auto wait = [&](const std::function<bool()>& met) -> result<void> {
    if (stage_->run(patience, met) || !stage_->fault().empty()) return {};
    return {errc::timed_out, "does not come about within 20 s"};
  };
  if (words.size() == 3 && words[2] == "whole") {
    if (auto came = wait([this] { return stage_->whole(); }); !came) return came;
    stage_->run_for(settling);
    return {};
  }
  if (words.size() == 3 && words[2] == "synced") return wait([this] { return stage_->synced(); });
  if (const auto* turn = stage_->find(words[2]); turn != nullptr) {
    using is = stage::turn::state;
    if (words.size() == 4 && words[3] == "ends") return wait([turn] { return turn->now != is::open; });
    if (words.size() == 4 && words[3] == "starts") return wait([turn] { return turn->started; });
    if (words.size() == 6 && words[3] == "has") {
      const auto count = number(words[4]);
      if (!count) return count.failure();
      return wait([turn, count = *count] { return turn->tokens() >= count; });
    }
    return cannot("expected: run until TURN starts, has N tokens, or ends");
  }
  if (words.size() == 5 && words[3] == "owns" && words[4] == "nothing") {
    return wait([this, who = words[2]] {
      const auto& records = stage_->in().store.records();
      return std::none_of(records.begin(), records.end(),
                          [&](const auto& it) { return it.second.owner.name == who; });
    });
  }
  const auto pattern = pattern_at(line, 2);
  if (!pattern) return pattern.failure();
  if (stage_->run(patience, *pattern) || !stage_->fault().empty()) return {};
  return {errc::timed_out, "no such message within 20 s"};
}

// --- what happens to processes -----------------------------------------------------------------------------

result<void> interpreter::kill(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  const bool silent = line.words.size() == 3 && line.words[2] == "silently";
  if (line.words.size() != (silent ? 3 : 2)) return cannot("expected: kill PROCESS [silently]");
  stage_->all().die(**who, silent);
  return {};
}

result<void> interpreter::start(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  if ((*who)->at->alive()) return cannot((*who)->name + " runs already");
  stage_->start(**who);
  return {};
}

result<void> interpreter::stop(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  (*who)->at->stop();
  return {};
}

result<void> interpreter::go_on(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  (*who)->at->go_on();
  return {};
}

result<void> interpreter::clock(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  if (line.words.size() != 3 || !line.words[2].starts_with('+'))
    return cannot("expected: clock PROCESS +TIME");
  const auto by = duration(std::string_view{line.words[2]}.substr(1));
  if (!by) return by.failure();
  (*who)->at->jump(*by);
  return {};
}

result<void> interpreter::drain(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  if (!(*who)->as_node) return cannot((*who)->name + " is no node that runs");
  (*who)->as_node->drain(line.words.size() != 3 || line.words[2] != "off");
  return {};
}

result<void> interpreter::store(const command_line& line) {
  auto& it = stage_->in().store;
  const std::string what = line.words.size() == 2 ? line.words[1] : "";
  if (what != "fails" && what != "lies" && what != "lags" && what != "works")
    return cannot("expected: store fails, lies, lags or works");
  it.failing = what == "fails" ? 1 : 0;
  it.lying = what == "lies" ? 1 : 0;
  it.lagging = what == "lags" ? 1 : 0;
  return {};
}

// --- what happens on the network ---------------------------------------------------------------------------

result<void> interpreter::cut(const command_line& line) {
  return paths(line, [this](const auto& from, const auto& to) { stage_->in().paths.cut(from, to); });
}

result<void> interpreter::isolate(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  for (const auto& [name, it] : stage_->all().members()) {
    stage_->in().paths.cut((*who)->name, name);
    stage_->in().paths.cut(name, (*who)->name);
  }
  return {};
}

result<void> interpreter::reset(const command_line& line) {
  return paths(line, [this](const auto& from, const auto& to) { stage_->in().paths.reset(from, to); });
}

result<void> interpreter::slow(const command_line& line) {
  nanoseconds delay = 50us;
  double rate = 1000;
  options given{line};
  given.take("delay", delay);
  given.take("bytes_per_us", rate);
  if (const auto all = given.rest(); !all) return all.failure();
  return paths(line, [&](const auto& from, const auto& to) {
    auto& path = stage_->in().paths.between(from, to);
    path.delay = delay;
    path.bytes_per_us = rate;
  });
}

result<void> interpreter::heal(const command_line& line) {
  if (line.words.size() == 1) {
    stage_->in().paths.heal_all();
    return {};
  }
  return paths(line, [this](const auto& from, const auto& to) { stage_->in().paths.heal(from, to); });
}

/// drop, hold, repeat and corrupt.
result<void> interpreter::treat(const command_line& line) {
  if (line.words.size() < 2) return cannot("expected: " + line.words[0] + " KIND [from A] [to B] [count=N]");
  const auto pattern = pattern_at(line, 1);
  if (!pattern) return pattern.failure();
  using deed = postman::deed;
  const std::string& verb = line.words[0];
  postman::order order{deed::drop, pattern->kind, pattern->from, pattern->to, 1};
  if (verb == "hold") {
    order.what = deed::hold;
    order.count = std::numeric_limits<std::uint64_t>::max();
  } else if (verb == "repeat") {
    order.what = deed::repeat;
  } else if (verb == "corrupt") {
    order.what = deed::corrupt;
    if (order.kind != "delta_descriptor")
      return cannot("only rows can be corrupted: corrupt delta_descriptor");
  }
  options given{line};
  given.take("count", order.count);
  if (const auto all = given.rest(); !all) return all.failure();
  stage_->post().add(std::move(order));
  return {};
}

result<void> interpreter::let_go(const command_line& line) {
  if (line.words.size() != 2 || line.words[1] != "go") return cannot("expected: let go");
  stage_->post().let_go();
  return {};
}

// --- looking -----------------------------------------------------------------------------------------------

result<void> interpreter::state(const command_line&) {
  for (const std::string& it : stage_->state())
    print_(it);
  return {};
}

result<void> interpreter::counters(const command_line& line) {
  const auto who = process(line, 1);
  if (!who) return who.failure();
  print_(stage_->counters(**who));
  return {};
}

result<void> interpreter::expect(const command_line& line) {
  const auto* turn = line.words.size() == 3 ? stage_->find(line.words[2]) : nullptr;
  if (turn == nullptr || line.words[1] != "equal") return cannot("expected: expect equal TURN");
  if (turn->now != stage::turn::state::finished) return {errc::conflict, line.words[2] + " has not finished"};
  print_(line.words[2] + " is equal to the undisturbed run, " + std::to_string(turn->tokens()) + " tokens");
  return {};
}

}  // namespace baton::apps::sim::scripts
