#include "transports/faulty_transport.hpp"

#include <algorithm>
#include <utility>

#include "schemas/hash.hpp"
#include "transports/send_checks.hpp"

namespace baton::transports {

faulty_transport::faulty_transport(frame_sink& sink, faults how, const maker& make)
    : sink_(sink),
      how_(std::move(how)),
      random_(how_.seed),
      inner_(make(*this)),
      abilities_(inner_->abilities()),
      thread_([this] { run(); }) {}

faulty_transport::~faulty_transport() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    cut_ = false;
    for (const auto& [id, reason] : std::exchange(unseen_, {}))
      to_report_.emplace_back(id, reason);
    for (const auto id : std::exchange(hopeless_, {}))
      to_report_.emplace_back(id, error{errc::cancelled, "the transport was closed"});
  }
  inner_.reset();  // reports the loss of all others, and with it cancels what is delayed
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void faulty_transport::cut() {
  const std::lock_guard lock(mutex_);
  cut_ = true;
}

void faulty_transport::heal() {
  const std::lock_guard lock(mutex_);
  cut_ = false;
  for (const auto& [id, reason] : std::exchange(unseen_, {}))
    to_report_.emplace_back(id, reason);
  for (const auto id : std::exchange(hopeless_, {}))
    to_report_.emplace_back(id, error{errc::connection_lost, "begun during a partition"});
  changed_.notify_all();
}

faulty_transport::tally faulty_transport::so_far() const {
  const std::lock_guard lock(mutex_);
  return tally_;
}

capabilities faulty_transport::abilities() const {
  return abilities_;
}

result<std::string> faulty_transport::listen(std::string_view address) {
  return inner_->listen(address);
}

result<connection_id> faulty_transport::connect(std::string_view address) {
  const std::lock_guard lock(mutex_);
  if (closing_) return {errc::cancelled, "the transport is closing"};
  if (cut_) {
    const connection_id id{next_hopeless_++};
    hopeless_.insert(id);
    live_.insert(id);
    return id;
  }
  auto id = inner_->connect(address);
  if (id) live_.insert(*id);
  return id;
}

result<void> faulty_transport::send_message(connection_id to, std::vector<std::byte> message) {
  if (auto fits = detail::check_message(message.size()); !fits) return fits;
  const auto cost = detail::queue_cost(message.size());
  return send({{}, to, false, std::move(message), {}, nullptr, cost});
}

result<void> faulty_transport::send_rows(connection_id to, std::vector<std::byte> descriptor,
                                         memory_region rows, completion done) {
  if (auto fits = detail::check_rows(descriptor.size(), abilities().max_descriptor_bytes, rows); !fits)
    return fits;
  const auto cost = detail::queue_cost(descriptor.size() + rows.size_bytes);
  return send({{}, to, true, std::move(descriptor), rows, std::move(done), cost});
}

result<void> faulty_transport::send(frame piece) {
  const std::lock_guard lock(mutex_);
  if (closing_) return {errc::cancelled, "the transport is closing"};
  if (!live_.contains(piece.to)) return detail::connection_gone();
  if (how_.delay.count() == 0 && how_.jitter.count() == 0) return forward(piece);
  auto& queued_bytes = delayed_bytes_[piece.to];
  if (!detail::has_room(queued_bytes, piece.cost)) return detail::queue_full();
  queued_bytes += piece.cost;
  piece.due = clock::now() + how_.delay;
  if (how_.jitter.count() > 0)
    piece.due +=
        std::chrono::milliseconds(next_random() % static_cast<std::uint64_t>(how_.jitter.count() + 1));
  if (!delayed_.empty()) piece.due = std::max(piece.due, delayed_.back().due);
  delayed_.push_back(std::move(piece));
  changed_.notify_all();
  return {};
}

/// Under the mutex. On failure the piece still has its completion.
result<void> faulty_transport::forward(frame& piece) {
  if (cut_ || unseen_.contains(piece.to) || hopeless_.contains(piece.to)) {
    ++tally_.swallowed_frames;
    if (piece.done) swallowed_[piece.to].push_back(std::move(piece.done));
    return {};
  }
  if (!piece.is_rows) return inner_->send_message(piece.to, piece.head);
  return inner_->send_rows(piece.to, piece.head, piece.rows, [this, done = piece.done](result<void> outcome) {
    const std::lock_guard lock(sink_mutex_);
    if (done) done(std::move(outcome));
  });
}

void faulty_transport::close(connection_id which) {
  const std::lock_guard lock(mutex_);
  if (hopeless_.erase(which) + unseen_.erase(which) == 0) {
    if (closing_ || !live_.contains(which)) return;
    closed_here_.insert(which);  // its end is seen, partition or not
    return inner_->close(which);
  }
  to_report_.emplace_back(which, error{errc::cancelled, "closed here"});
  changed_.notify_all();
}

std::string faulty_transport::carrier(connection_id which) const {
  const std::lock_guard lock(mutex_);
  return closing_ ? "faulty" : "faulty " + inner_->carrier(which);
}

/// Sends what was held back, and says what the inner transport no longer will.
void faulty_transport::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!to_report_.empty()) {
      const auto [which, reason] = std::move(to_report_.front());
      to_report_.pop_front();
      lock.unlock();
      deliver_lost(which, reason);
      lock.lock();
    } else if (done_) {
      return;
    } else if (delayed_.empty() || closing_) {
      changed_.wait(lock);
    } else if (delayed_.front().due > clock::now()) {
      const auto due = delayed_.front().due;  // the frame may be gone by the time we look again
      changed_.wait_until(lock, due);
    } else {
      frame piece = std::move(delayed_.front());
      delayed_.pop_front();
      const auto sent = forward(piece);
      if (!sent && sent.code() == errc::no_room) {
        piece.due = clock::now() + std::chrono::milliseconds(1);
        delayed_.push_front(std::move(piece));
        continue;
      }
      delayed_bytes_[piece.to] -= piece.cost;
      // The connection is just being lost: its completion waits for that report.
      if (!sent && piece.done) swallowed_[piece.to].push_back(std::move(piece.done));
    }
  }
}

void faulty_transport::deliver_lost(connection_id which, const error& reason) {
  std::vector<completion> pending;
  {
    const std::lock_guard lock(mutex_);
    live_.erase(which);
    closed_here_.erase(which);
    delayed_bytes_.erase(which);
    if (auto found = swallowed_.extract(which)) pending = std::move(found.mapped());
    std::deque<frame> kept;
    for (auto& each : delayed_) {
      if (each.to != which)
        kept.push_back(std::move(each));
      else if (each.done)
        pending.push_back(std::move(each.done));
    }
    delayed_.swap(kept);
  }
  const std::lock_guard lock(sink_mutex_);
  for (auto& each : pending)
    each(reason);
  sink_.on_lost(which, reason);
}

std::uint64_t faulty_transport::next_random() {
  return mix64(random_++);
}

// --- from the inner transport
// -------------------------------------------------------------------------------------------

void faulty_transport::on_accepted(connection_id from) {
  {
    const std::lock_guard lock(mutex_);
    if (cut_) {
      ignored_.insert(from);
      inner_->close(from);
      return;
    }
    live_.insert(from);
  }
  const std::lock_guard lock(sink_mutex_);
  sink_.on_accepted(from);
}

void faulty_transport::on_message(connection_id from, std::span<const std::byte> message) {
  int times = 1;
  {
    const std::lock_guard lock(mutex_);
    if (cut_ || ignored_.contains(from)) {
      ++tally_.swallowed_frames;
      return;
    }
    if (how_.duplicate_messages > 0 &&
        static_cast<double>(next_random() >> 11) * 0x1p-53 < how_.duplicate_messages) {
      ++tally_.duplicated_messages;
      times = 2;
    }
  }
  const std::lock_guard lock(sink_mutex_);
  for (int i = 0; i < times; ++i)
    sink_.on_message(from, message);
}

memory_region faulty_transport::on_rows(connection_id from, std::span<const std::byte> descriptor,
                                        std::size_t size_bytes) {
  bool flip = false;
  {
    const std::lock_guard lock(mutex_);
    if (cut_ || ignored_.contains(from)) {
      ++tally_.swallowed_frames;
      return {};
    }
    const auto number = ++rows_seen_;
    if (how_.drop_rows.contains(number)) {
      ++tally_.dropped_rows;
      return {};
    }
    flip = how_.flip_rows.contains(number) && size_bytes > 0;
  }
  memory_region landing;
  {
    const std::lock_guard lock(sink_mutex_);
    landing = sink_.on_rows(from, descriptor, size_bytes);
  }
  if (flip && !landing.empty()) {
    const std::lock_guard lock(mutex_);
    to_flip_[landing.address] = size_bytes;
  }
  return landing;
}

void faulty_transport::on_landed(connection_id from, memory_region landing, result<void> outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (auto found = to_flip_.extract(landing.address); found && outcome) {
      const auto random = next_random();
      landing.address[random % found.mapped()] ^= std::byte(1U << (random >> 61));
      ++tally_.flipped_rows;
    }
  }
  const std::lock_guard lock(sink_mutex_);
  sink_.on_landed(from, landing, std::move(outcome));
}

void faulty_transport::on_lost(connection_id from, const error& reason) {
  error why = reason;
  {
    const std::lock_guard lock(mutex_);
    if (ignored_.erase(from) > 0) return;
    if (cut_ && !closed_here_.contains(from)) {
      unseen_.emplace(from, reason);
      return;
    }
    if (cut_) why = {errc::cancelled, "closed here"};  // whatever the peer did is not known
  }
  deliver_lost(from, why);
}

}  // namespace baton::transports
