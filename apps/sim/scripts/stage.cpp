#include "apps/sim/scripts/stage.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace baton::apps::sim::scripts {

using namespace actors;

namespace {

constexpr std::uint64_t fixed_seed = 1;  // names of runs and sessions are drawn from it, nothing else

std::string_view name_of(stage::turn::state state) {
  static constexpr std::array<std::string_view, 5> names{"open", "finished", "failed", "cancelled", "lost"};
  return names[static_cast<std::size_t>(state)];
}

/// In one line: what is not printable as \xNN.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
      out += escaped.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

const std::vector<std::string_view>& effect_kinds() {
  static const std::vector<std::string_view> names{"store", "started", "text", "finished", "failed"};
  return names;
}

std::size_t stage::turn::tokens() const {
  return given.last() == 0 ? 0 : given.last() + 1 - given.request().prompt_text.size();
}

stage::stage(settings how, left_out without, std::function<void(const std::string&)> print)
    : print_(std::move(print)),
      in_(fixed_seed, luck::even),
      all_(in_, {[this] { return sessions(); },
                 [this](const std::shared_ptr<gateway>& gone) {
                   for (auto& [name, it] : turns_)
                     if (it.now == turn::state::open && it.at.lock() == gone) on_end(name, turn::state::lost);
                 }}),
      wording_([this](session_id which) { return session_name(which); }),
      post_(in_.data, [this](const std::string& from, const std::string& to, const any_message& what,
                             std::string_view done) { on_message(from, to, what, done); }),
      oracle_(how) {
  in_.how = std::move(how);
  in_.without = without;
  in_.equip();
  in_.store.seen = [this](const group_record& record, std::string_view what) {
    show("store", "store " + std::string{what} + ": " + wording_.record(record));
  };
  all_.name_members();
  for (auto& [name, it] : all_.members())
    start(it);
  all_.sweep();
}

void stage::start(cluster::member& who) {
  const bool runs = all_.start(who);
  wording_.on_start(who.at->self());
  if (!runs) print_(who.name + " does not start: the store refuses");
}

// --- the trace ---------------------------------------------------------------------------------------------

void stage::show(std::string_view kind, const std::string& line) {
  if (!shown.contains(kind)) return;
  std::string stamp;
  if (times) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%10.3f ms  ", static_cast<double>(in_.time.now().count()) / 1e6);
    stamp = text.data();
  }
  print_(stamp + line);
}

void stage::on_message(const std::string& from, const std::string& to, const any_message& what,
                       std::string_view done) {
  const std::string_view kind = kind_of(what);
  std::string line = from + " > " + to + "  " + std::string{kind};
  const std::string fields = wording_.fields(what);
  if (!fields.empty()) line += "  " + fields;
  if (!done.empty()) line += "  [" + std::string{done} + "]";
  if (shown_from.empty() || shown_from == from) show(kind, line);
  if (done == "lost" || done == "held" || !wanted_) return;
  if (wanted_->kind == kind && (wanted_->from.empty() || wanted_->from == from) &&
      (wanted_->to.empty() || wanted_->to == to))
    wanted_.reset();
}

std::vector<std::string> stage::sessions() const {
  std::set<std::string> all;
  for (const auto& [name, it] : turns_)
    all.insert(it.given.request().session);
  return {all.begin(), all.end()};
}

std::optional<std::string> stage::session_name(session_id which) {
  for (const std::string& name : sessions())
    for (const auto& [who, it] : all_.members()) {
      const auto* known = it.as_gateway ? it.as_gateway->core().find_session(name) : nullptr;
      if (known != nullptr) names_[known->id] = name;
    }
  const auto found = names_.find(which);
  return found == names_.end() ? std::nullopt : std::optional{found->second};
}

// --- clients -----------------------------------------------------------------------------------------------

stage::turn* stage::find(const std::string& name) {
  const auto found = turns_.find(name);
  return found == turns_.end() ? nullptr : &found->second;
}

result<void> stage::open(const std::string& name, const std::string& gateway, completion_request request,
                         std::size_t keep) {
  const auto* to = all_.at(gateway);
  if (to == nullptr || !to->as_gateway) return {errc::unavailable, "no gateway " + gateway};
  const auto [made, fresh] = turns_.try_emplace(name, in_, name);
  if (!fresh) return {errc::invalid_argument, "there is a turn " + name + " already"};
  order_.push_back(name);
  request.prompt_text = histories_[request.session].substr(0, keep) + request.prompt_text;
  turn& it = made->second;
  it.given.begin(std::move(request));
  it.at = to->as_gateway;
  it.handle = to->as_gateway->submit(it.given.request(),
                                     [this, name](const turn_event& event) { on_event(name, event); });
  return {};
}

void stage::cancel(const std::string& name) {
  turn& it = turns_.at(name);
  const auto at = it.at.lock();
  if (!at || it.now != turn::state::open) return;
  at->cancel(it.handle);
  on_end(name, turn::state::cancelled);
}

void stage::on_event(const std::string& name, const turn_event& event) {
  turn& it = turns_.at(name);
  if (it.now != turn::state::open) return in_.blame("INV2: " + name + " hears of a turn that is over");
  if (const auto* started = std::get_if<turn_started>(&event)) {
    if (std::exchange(it.started, true)) in_.blame("INV2: " + name + " starts twice");
    show("started", name + " starts, " + std::to_string(started->prompt_tokens) + " prompt tokens, " +
                        std::to_string(started->cached_tokens) + " cached");
  } else if (const auto* text = std::get_if<turn_text>(&event)) {
    it.given.on_text(*text);
    show("text", name + " reads " + quoted(text->text) + " to " + std::to_string(text->last) + ", from " +
                     text->node + " e" + std::to_string(raw(text->epoch)));
  } else if (const auto* finished = std::get_if<turn_finished>(&event)) {
    if (!it.given.on_finished(*finished)) return;
    show("finished", name + " ends: " + (finished->reason == finish_reason::length ? "length" : "stop") +
                         ", " + std::to_string(finished->prompt_tokens) + "+" +
                         std::to_string(finished->completion_tokens) + " tokens, " +
                         std::to_string(finished->failovers) + " failovers, " +
                         std::to_string(finished->recomputed_tokens) + " computed again");
    // From within a call of the gateway: what follows waits until that is over.
    in_.time.after(0ns, [this, name] { on_end(name, turn::state::finished); });
  } else if (const auto* failed = std::get_if<turn_failed>(&event)) {
    show("failed", name + " fails: " + std::string{baton::name_of(failed->reason.code)});
    in_.time.after(0ns, [this, name] { on_end(name, turn::state::failed); });
  }
}

void stage::on_end(const std::string& name, turn::state how) {
  turn& it = turns_.at(name);
  it.now = how;
  it.given.check(oracle_, it.at.lock(), how == turn::state::finished);
  histories_[it.given.request().session] = it.given.request().prompt_text + it.given.text();
}

// --- time --------------------------------------------------------------------------------------------------

bool stage::run(nanoseconds most, const std::function<bool()>& met) {
  const nanoseconds until = in_.time.now() + most;
  while (in_.fault.empty() && in_.time.now() < until) {
    if (met()) return true;
    if (!in_.time.step()) break;
  }
  return in_.fault.empty() && met();
}

bool stage::run(nanoseconds most, const pattern& wanted) {
  wanted_ = wanted;
  const bool came = run(most, [this] { return !wanted_; });
  wanted_.reset();
  return came;
}

void stage::run_for(nanoseconds time) {
  const auto over = std::make_shared<bool>(false);
  in_.time.after(time, [over] { *over = true; });
  run(time + 1ns, [over] { return *over; });
}

bool stage::whole() {
  if (!all_.sets_are_full()) return false;
  for (const std::string& name : all_.gateway_names()) {
    const auto& it = *all_.at(name);
    if (!it.as_gateway || it.at->stopped()) continue;
    const auto& known = it.as_gateway->core().view().groups;
    if (known.size() != in_.store.records().size()) return false;
    for (const group_record& record : known)
      if (record != in_.store.records().at(record.group)) return false;
  }
  return !in_.store.records().empty();
}

const gateway_session* stage::session_of(const std::string& name) {
  for (const std::string& by : all_.gateway_names()) {
    const auto& it = all_.at(by)->as_gateway;
    const auto* found = it ? it->core().find_session(name) : nullptr;
    if (found != nullptr) return found;
  }
  return nullptr;
}

bool stage::synced() {
  for (const std::string& name : sessions()) {
    const gateway_session* session = session_of(name);
    const auto record =
        session == nullptr ? in_.store.records().end() : in_.store.records().find(session->group);
    const auto* owner = record == in_.store.records().end() ? nullptr : all_.at(record->second.owner.name);
    if (owner == nullptr || !owner->as_node) return false;
    const auto* log = owner->as_node->log_of(session->id);
    if (log == nullptr) return false;
    for (const std::string& other : all_.node_names()) {
      const auto& it = all_.at(other)->as_node;
      if (!it || it == owner->as_node || it->on().stopped()) continue;
      const auto* held = it->log_of(session->id);
      if (held == nullptr || held->point() != log->point()) return false;
      if (it->synced(session->id) < owner->as_node->rows(session->id)) return false;
    }
  }
  return true;
}

// --- looking -----------------------------------------------------------------------------------------------

std::vector<std::string> stage::state() {
  std::vector<std::string> lines = all_.state();
  for (const std::string& name : order_) {
    const turn& it = turns_.at(name);
    lines.push_back("turn " + name + " " + std::string{name_of(it.now)} + ", " + std::to_string(it.tokens()) +
                    " tokens");
  }
  return lines;
}

std::string stage::counters(const cluster::member& who) const {
  std::string all;
  const auto add = [&all](std::string_view what, std::uint64_t count) {
    if (count > 0) all.append(all.empty() ? "" : ", ").append(what).append(" ").append(std::to_string(count));
  };
  if (who.as_node) {
    const auto counted = who.as_node->refusals();
    add("stale", counted.stale);
    add("gaps", counted.gaps);
    add("forks", counted.forks);
    add("corrupt", counted.corrupt);
    add("refused_rows", counted.refused_rows);
  } else if (who.as_gateway) {
    const auto& counted = who.as_gateway->core().counted();
    add("stale", counted.stale);
    add("duplicates", counted.duplicates);
    add("diverged", counted.diverged);
    add("failed", counted.failed);
    add("cancelled", counted.cancelled);
    add("reopened", counted.reopened);
  }
  return who.name + ": " + (all.empty() ? "nothing" : all);
}

}  // namespace baton::apps::sim::scripts
