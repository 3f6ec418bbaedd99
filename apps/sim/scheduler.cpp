#include "apps/sim/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace baton::apps::sim {

void scheduler::at(nanoseconds when, std::function<void()> what) {
  heap_.push_back({std::max(when, now_), ++asked_, std::move(what)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool scheduler::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const event next = std::move(heap_.back());
  heap_.pop_back();
  now_ = next.when;
  ++done_;
  next.what();
  return true;
}

time_point host::now() const {
  const auto own = nanoseconds{static_cast<std::int64_t>(static_cast<double>(time_.now().count()) * rate_)};
  return time_point{} + 1h + offset_ + own;
}

void host::run(std::function<void()> what) {
  if (!alive_) return;
  if (stopped_ || !backlog_.empty())
    backlog_.push_back(std::move(what));
  else
    what();
}

void host::after(nanoseconds delay, std::function<void()> what) {
  const auto real = nanoseconds{static_cast<std::int64_t>(static_cast<double>(delay.count()) / rate_)};
  time_.after(real, [weak = weak_from_this(), what = std::move(what)]() mutable {
    if (const auto self = weak.lock()) self->run(std::move(what));
  });
}

void host::every(nanoseconds period, const std::function<void()>& what) {
  after(period, [this, period, what] {
    what();
    every(period, what);
  });
}

void host::go_on() {
  if (!stopped_) return;
  stopped_ = false;
  time_.after(0ns, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    // In order, and what comes meanwhile behind them.
    for (std::size_t i = 0; i < self->backlog_.size() && self->alive_ && !self->stopped_; ++i) {
      const auto next = std::move(self->backlog_[i]);
      self->backlog_[i] = nullptr;
      if (next) next();
    }
    std::erase(self->backlog_, nullptr);
    if (!self->alive_) self->backlog_.clear();
  });
}

void host::die() noexcept {
  alive_ = false;
  backlog_.clear();
}

void mailbox::post(std::function<void()> what) {
  auto& time = host_->time();
  // Mostly a few microseconds; now and then the scheduler of the machine takes its time.
  const auto hop = random_.chance(0.01) ? random_.time(20us, 2000us) : random_.time(1us, 20us);
  last_ = std::max(last_, time.now() + hop);
  time.at(last_, [host = host_, what = std::move(what)]() mutable { host->run(std::move(what)); });
}

}  // namespace baton::apps::sim
