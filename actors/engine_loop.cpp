#include "actors/engine_loop.hpp"

#include <algorithm>
#include <utility>

#include "actors/engines/sampler.hpp"
#include "actors/protocol/evaluation_plan.hpp"
#include "actors/protocol/turn_end.hpp"
#include "schemas/limits.hpp"

namespace baton::actors {

void engine_loop::run(const protocol::run_engine& order) {
  if (broken_) return;
  if (!engine_.holds(order.session))
    if (const auto opened = engine_.open(order.session); !opened) {
      out_.failed({order.session, order.run, opened.failure()});
      return;
    }
  cut(order.session, order.rows);
  running it;
  it.run = order.run;
  it.tokens = order.tokens;
  it.turns = order.turns;
  it.allowed = order.allowed;
  runs_.insert_or_assign(order.session, std::move(it));
  if (std::find(order_.begin(), order_.end(), order.session) == order_.end()) order_.push_back(order.session);
  exported_[order.session] = engine_.length(order.session);
}

void engine_loop::allow(const protocol::allow_engine& order) {
  const auto found = runs_.find(order.session);
  if (found != runs_.end() && found->second.run == order.run)
    found->second.allowed = std::max(found->second.allowed, order.allowed);
}

void engine_loop::stop(session_id session, protocol::run_number run) {
  const auto found = runs_.find(session);
  if (found == runs_.end() || found->second.run != run) return;
  runs_.erase(found);
  std::erase(order_, session);
}

void engine_loop::pause(session_id session, protocol::run_number run) {
  const auto found = runs_.find(session);
  if (found == runs_.end() || found->second.run != run) return;
  protocol::engine_step report;
  report.session = session;
  report.run = run;
  report.rows = engine_.length(session);
  report.evaluated = found->second.evaluated;
  report.paused = true;
  export_fresh(session, true);
  stop(session, run);
  out_.step(std::move(report));
}

void engine_loop::cut(session_id session, position rows) {
  if (broken_) return;
  if (engine_.length(session) <= rows) return;
  if (!engine_.truncate(session, rows)) {
    // A model that cannot forget a tail begins again from nothing.
    engine_.close(session);
    exported_.erase(session);
    return;
  }
  if (const auto found = exported_.find(session); found != exported_.end())
    found->second = std::min(found->second, rows);
}

void engine_loop::cut(const protocol::cut_engine& order) {
  cut(order.session, order.rows);
  generations_[order.session] = order.generation;  // also ahead of the session's first run
}

void engine_loop::drop(session_id session) {
  generations_.erase(session);
  runs_.erase(session);
  std::erase(order_, session);
  exported_.erase(session);
  if (!broken_) engine_.close(session);
}

void engine_loop::import(const import_order& order) {
  if (broken_) return;
  import_done done{order.session, order.generation, order.first + order.image->count, {}, order.restored};
  if (!engine_.holds(order.session)) done.outcome = engine_.open(order.session);
  if (done.outcome) done.outcome = engine_.import_rows(order.session, order.first, *order.image);
  out_.imported(std::move(done));
}

bool engine_loop::export_rows(session_id session, position first, std::uint32_t count) {
  exported_rows rows{session, generations_[session], first, std::make_shared<gpu::kv_image>()};
  if (!engine_.export_rows(session, first, count, *rows.image)) return false;
  out_.exported(std::move(rows));
  return true;
}

void engine_loop::export_range(const export_order& order) {
  if (broken_) return;
  const position held = engine_.length(order.session);
  if (order.first < held) export_rows(order.session, order.first, std::min(order.count, held - order.first));
}

void engine_loop::export_fresh(session_id session, bool all) {
  position& exported = exported_[session];
  const position held = engine_.length(session);
  if (!policy_.on) {
    exported = held;
    return;
  }
  while (held > exported && (all || held - exported >= policy_.every_tokens)) {
    const auto count = std::min<std::uint32_t>(held - exported, limits::delta_tokens);
    if (!export_rows(session, exported, count)) return;
    exported += count;
  }
}

bool engine_loop::runnable(const running& it) {
  return !it.finished && it.tokens.size() < it.allowed;
}

bool engine_loop::has_work() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& it) { return runnable(it.second); });
}

position engine_loop::missing(session_id session, const running& it) const {
  return static_cast<position>(it.tokens.size()) - engine_.length(session);
}

/// Herd control: of the sessions with more than the newest token to evaluate (prompts, and turns taken over),
/// the one that came first, and of the others the one with least to do. However many come at once, those that
/// generate wait for two batches at most, short ones are quick, and none starves.
std::array<session_id, 2> engine_loop::choose_catching_up() const {
  std::vector<session_id> behind;
  for (const session_id session : order_)
    if (const running& it = runs_.at(session); missing(session, it) > 1 && runnable(it))
      behind.push_back(session);
  const auto take_least = [&behind](const auto& key) {
    const auto least = std::ranges::min_element(behind, {}, key);
    if (least == behind.end()) return session_id{};
    const session_id session = *least;
    behind.erase(least);
    return session;
  };
  const session_id first = take_least([this](session_id session) { return runs_.at(session).run; });
  const session_id shortest = take_least([this](session_id session) {
    const running& it = runs_.at(session);
    return std::pair{missing(session, it), it.run};
  });
  return {first, shortest};
}

std::vector<session_id> engine_loop::choose() const {
  const auto catching_up = choose_catching_up();
  std::vector<session_id> chosen;
  for (const session_id session : order_) {
    const running& it = runs_.at(session);
    const bool admitted = missing(session, it) <= 1 || session == catching_up[0] || session == catching_up[1];
    if (admitted && runnable(it) && chosen.size() < engine_.max_batch()) chosen.push_back(session);
  }
  return chosen;
}

engines::evaluation engine_loop::plan(session_id session, const running& it) const {
  const position rows = engine_.length(session);
  const auto length = static_cast<position>(it.tokens.size());
  // Where sessions share batches, shapes cannot be repeated anyway: missing tokens go in chunks as large as
  // possible.
  const std::uint32_t count =
      engine_.max_batch() == 1
          ? protocol::evaluation_plan{it.turns, engine_.prefill_chunk()}.batch_at(rows, length)
          : std::min(engine_.prefill_chunk(), length - rows);
  return {session, rows, std::span{it.tokens}.subspan(rows, count), rows + count == length};
}

bool engine_loop::step() {
  const std::vector<session_id> chosen = choose();
  if (chosen.empty()) return false;
  std::vector<engines::evaluation> batch;
  batch.reserve(chosen.size());
  for (const session_id session : chosen) {
    std::erase(order_, session);
    order_.push_back(session);
    batch.push_back(plan(session, runs_.at(session)));
  }
  if (const auto evaluated = engine_.evaluate(batch); !evaluated) {
    if (evaluated.code() == errc::engine_failed) {
      broken_ = true;
      runs_.clear();  // so nothing is stepped or paused any more
      order_.clear();
      out_.broken(evaluated.failure());
      return true;
    }
    for (const session_id session : chosen)
      fail(session, evaluated.failure());
    return true;
  }
  for (std::size_t i = 0; i < batch.size(); ++i)
    after(chosen[i], runs_.at(chosen[i]), i, batch[i]);
  return true;
}

void engine_loop::after(session_id session, running& it, std::size_t index, const engines::evaluation& done) {
  it.evaluated += done.tokens.size();
  protocol::engine_step report;
  report.session = session;
  report.run = it.run;
  report.rows = engine_.length(session);
  report.evaluated = it.evaluated;
  if (done.want_logits) {
    const turn_header& turn = it.turns.back();
    const auto at = static_cast<position>(it.tokens.size());
    engines::sampled picked = engines::sample(engine_.logits(index), turn.parameters.sampling, at, it.tokens);
    it.tokens.push_back(picked.token);
    report.has_token = true;
    report.at = at;
    report.token = picked.token;
    report.report = {picked.logprob, std::move(picked.alternatives)};
    it.finished = protocol::is_complete(turn, it.tokens, engine_.context_tokens());
    report.finished = it.finished;
  }
  // The token goes out before its rows: it is what the client waits for.
  const bool finished = it.finished;
  const bool prompt = done.tokens.size() > 1;
  out_.step(std::move(report));
  export_fresh(session, finished || prompt);
  if (finished) {
    runs_.erase(session);
    std::erase(order_, session);
  }
}

void engine_loop::fail(session_id session, const error& why) {
  const auto found = runs_.find(session);
  out_.failed({session, found->second.run, why});
  runs_.erase(found);
  std::erase(order_, session);
}

}  // namespace baton::actors
