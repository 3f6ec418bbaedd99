#include "transports/tcp_transport.hpp"

#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "schemas/limits.hpp"
#include "transports/poller.hpp"
#include "transports/send_checks.hpp"
#include "transports/tcp_connection.hpp"

namespace baton::transports {

using detail::tcp_connection;
using detail::tcp_frame;

/// The thread, and what other threads ask of it.
class tcp_transport::impl {
 public:
  explicit impl(frame_sink& sink) : sink_(sink), thread_([this] { run(); }) {}

  result<std::string> listen(std::string_view address);
  result<connection_id> connect(std::string_view address);
  result<void> send(connection_id to, tcp_frame frame);
  void close(connection_id which);
  void stop();

 private:
  using clock = std::chrono::steady_clock;
  using act = std::function<void()>;

  /// What other threads know of a connection; guarded by mutex_.
  struct route {
    std::size_t queued_bytes = 0;
    std::vector<tcp_frame> fresh;  // accepted, not yet taken by the thread
  };

  /// Strangers that have not greeted yet: bounded in number and time.
  static constexpr std::size_t most_strangers = 64;
  static constexpr std::chrono::seconds stranger_grace{5};

  void run();
  void take_work();
  void on_ready(int descriptor, unsigned events);
  void accept_all();
  void add(connection_id id, detail::unique_fd socket, bool accepted);
  void write(tcp_connection& to);
  void end(connection_id which, const error& reason);
  void drop_strangers();
  void release(connection_id of, std::size_t cost);
  void post(act what);

  frame_sink& sink_;
  detail::poller poller_;

  std::mutex mutex_;
  std::vector<act> acts_;                                     // guarded by mutex_
  std::unordered_map<connection_id, route> routes_;           // guarded by mutex_: those that take frames
  std::vector<connection_id> ready_;                          // guarded by mutex_: those with fresh frames
  std::uint64_t next_id_ = 1;                                 // guarded by mutex_
  bool asleep_ = false, listening_ = false, ending_ = false;  // guarded by mutex_

  // the thread's own
  std::unordered_map<connection_id, std::unique_ptr<tcp_connection>> live_;
  std::unordered_map<int, connection_id> by_descriptor_;
  std::unordered_map<connection_id, clock::time_point> strangers_;
  detail::unique_fd listener_;
  bool stopping_ = false;
  std::thread thread_;
};

// --- any thread
// ---------------------------------------------------------------------------------------------------------

result<std::string> tcp_transport::impl::listen(std::string_view address) {
  const auto at = detail::parse_address(address, false);
  if (!at) return at.failure();
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return {errc::cancelled, "the transport is closing"};
    if (std::exchange(listening_, true)) return {errc::invalid_argument, "this transport listens already"};
  }
  auto made = detail::listen_at(*at);
  if (!made) {
    const std::lock_guard lock(mutex_);
    listening_ = false;
    return made.failure();
  }
  post([this, descriptor = made->descriptor.release()] {
    listener_ = detail::unique_fd(descriptor);
    poller_.watch(descriptor, EPOLLIN);
  });
  return made->address;
}

result<connection_id> tcp_transport::impl::connect(std::string_view address) {
  const auto to = detail::parse_address(address, false);
  if (!to) return to.failure();
  connection_id id{};
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return {errc::cancelled, "the transport is closing"};
    id = connection_id{next_id_++};
    routes_.try_emplace(id);
  }
  post([this, id, to = *to] {
    auto socket = detail::begin_connect(to);
    add(id, socket ? std::move(*socket) : detail::unique_fd(), false);
    if (!socket) return end(id, socket.failure());
    if (stopping_) end(id, {errc::cancelled, "the transport was closed"});
  });
  return id;
}

result<void> tcp_transport::impl::send(connection_id to, tcp_frame frame) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(to);
    if (found == routes_.end()) return detail::connection_gone();
    auto& route = found->second;
    if (!detail::has_room(route.queued_bytes, frame.cost)) return detail::queue_full();
    route.queued_bytes += frame.cost;
    if (route.fresh.empty()) ready_.push_back(to);
    route.fresh.push_back(std::move(frame));
    wake = std::exchange(asleep_, false);
  }
  if (wake) poller_.wake();
  return {};
}

void tcp_transport::impl::close(connection_id which) {
  std::vector<tcp_frame> fresh;
  {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(which);
    if (found == routes_.end()) return;
    fresh = std::move(found->second.fresh);
    routes_.erase(found);
  }
  // Completions run on the thread. A function must be copyable, so the frames travel by shared pointer.
  auto cancelled = std::make_shared<std::vector<tcp_frame>>(std::move(fresh));
  post([this, which, cancelled] {
    const error reason{errc::cancelled, "closed here"};
    const auto found = live_.find(which);
    if (found != live_.end())
      for (auto& each : *cancelled)
        found->second->push(std::move(each));
    end(which, reason);
  });
}

void tcp_transport::impl::post(act what) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    acts_.push_back(std::move(what));
    wake = std::exchange(asleep_, false);
  }
  if (wake) poller_.wake();
}

void tcp_transport::impl::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  post([this] { stopping_ = true; });
  thread_.join();
}

// --- the thread
// ---------------------------------------------------------------------------------------------------------

void tcp_transport::impl::run() {
  while (!stopping_) {
    take_work();
    if (stopping_) break;
    int timeout_ms = strangers_.empty() ? -1 : 1000;
    {
      const std::lock_guard lock(mutex_);
      if (!acts_.empty() || !ready_.empty()) timeout_ms = 0;
      asleep_ = timeout_ms != 0;
    }
    poller_.wait(timeout_ms, [this](int descriptor, unsigned events) { on_ready(descriptor, events); });
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  take_work();
  while (!live_.empty())
    end(live_.begin()->first, {errc::cancelled, "the transport was closed"});
  take_work();
}

void tcp_transport::impl::take_work() {
  std::vector<act> acts;
  {
    const std::lock_guard lock(mutex_);
    acts.swap(acts_);
  }
  for (auto& each : acts)
    each();
  // Afterwards, so that a connection exists before its frames; what comes meanwhile keeps the thread awake.
  std::vector<std::pair<connection_id, std::vector<tcp_frame>>> batch;
  {
    const std::lock_guard lock(mutex_);
    for (const auto id : std::exchange(ready_, {}))
      if (const auto found = routes_.find(id); found != routes_.end())
        batch.emplace_back(id, std::exchange(found->second.fresh, {}));
  }
  for (auto& [id, fresh] : batch) {
    const auto found = live_.find(id);
    if (found == live_.end()) {  // begun between the two looks: its turn comes with the next
      std::unique_lock lock(mutex_);
      if (const auto waiting = routes_.find(id); waiting != routes_.end()) {
        auto& queue = waiting->second.fresh;
        queue.insert(queue.begin(), std::make_move_iterator(fresh.begin()),
                     std::make_move_iterator(fresh.end()));
        ready_.push_back(id);
        continue;
      }
      lock.unlock();
      for (auto& each : fresh)  // and closed as well
        if (each.done) each.done(error{errc::cancelled, "closed here"});
      continue;
    }
    for (auto& each : fresh)
      found->second->push(std::move(each));
    write(*found->second);
  }
  if (!strangers_.empty()) drop_strangers();
}

void tcp_transport::impl::on_ready(int descriptor, unsigned events) {
  if (descriptor == listener_.get()) return accept_all();
  const auto found = by_descriptor_.find(descriptor);
  if (found == by_descriptor_.end()) return;
  const auto id = found->second;
  auto& connection = *live_.at(id);
  if ((events & EPOLLOUT) != 0) {
    write(connection);
    if (!live_.contains(id)) return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  if (auto read = connection.read_some(sink_); !read) return end(id, read.failure());
  if (connection.announced()) strangers_.erase(id);
}

void tcp_transport::impl::accept_all() {
  while (auto socket = detail::accept_next(listener_.get())) {
    if (strangers_.size() >= most_strangers) continue;
    connection_id id{};
    {
      const std::lock_guard lock(mutex_);
      id = connection_id{next_id_++};
      routes_.try_emplace(id);
    }
    strangers_.emplace(id, clock::now() + stranger_grace);
    add(id, std::move(socket), true);
    write(*live_.at(id));
  }
}

void tcp_transport::impl::add(connection_id id, detail::unique_fd socket, bool accepted) {
  const int descriptor = socket.get();
  live_.emplace(id, std::make_unique<tcp_connection>(id, std::move(socket), accepted));
  if (descriptor < 0) return;
  by_descriptor_.emplace(descriptor, id);
  poller_.watch(descriptor, EPOLLIN | EPOLLOUT);
}

void tcp_transport::impl::write(tcp_connection& to) {
  const auto id = to.id();
  const auto written = to.write_some([&](tcp_frame& frame) {
    release(id, frame.cost);
    if (frame.done) frame.done({});
  });
  if (!written) return end(id, written.failure());
  poller_.watch(to.descriptor(), to.wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void tcp_transport::impl::release(connection_id of, std::size_t cost) {
  const std::lock_guard lock(mutex_);
  if (const auto found = routes_.find(of); found != routes_.end()) found->second.queued_bytes -= cost;
}

/// Everything of the connection is reported, then its loss.
void tcp_transport::impl::end(connection_id which, const error& reason) {
  const auto found = live_.find(which);
  if (found == live_.end()) return;
  std::vector<tcp_frame> fresh;
  {
    const std::lock_guard lock(mutex_);
    if (const auto route = routes_.find(which); route != routes_.end()) {
      fresh = std::move(route->second.fresh);
      routes_.erase(route);
    }
  }
  const auto connection = std::move(found->second);
  live_.erase(found);
  strangers_.erase(which);
  if (connection->descriptor() >= 0) {
    by_descriptor_.erase(connection->descriptor());
    poller_.unwatch(connection->descriptor());
  }
  for (auto& each : connection->end(sink_))
    if (each.done) each.done(reason);
  for (auto& each : fresh)
    if (each.done) each.done(reason);
  if (connection->announced()) sink_.on_lost(which, reason);
}

void tcp_transport::impl::drop_strangers() {
  std::vector<connection_id> late;
  for (const auto& [id, deadline] : strangers_)
    if (clock::now() >= deadline) late.push_back(id);
  for (const auto id : late)
    end(id, {errc::timed_out, "no greeting came"});
}

// --- the interface
// ------------------------------------------------------------------------------------------------------

tcp_transport::tcp_transport(frame_sink& sink) : impl_(std::make_unique<impl>(sink)) {}

tcp_transport::~tcp_transport() {
  impl_->stop();
}

capabilities tcp_transport::abilities() const {
  return {.name = "tcp", .crosses_hosts = true, .max_descriptor_bytes = limits::descriptor_bytes};
}

result<std::string> tcp_transport::listen(std::string_view address) {
  return impl_->listen(address);
}

result<connection_id> tcp_transport::connect(std::string_view address) {
  return impl_->connect(address);
}

result<void> tcp_transport::send_message(connection_id to, std::vector<std::byte> message) {
  if (auto fits = detail::check_message(message.size()); !fits) return fits;
  tcp_frame frame;
  frame.cost = detail::queue_cost(message.size());
  frame.wire = {0, static_cast<std::uint32_t>(message.size()), 0};
  frame.head = std::move(message);
  return impl_->send(to, std::move(frame));
}

result<void> tcp_transport::send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                                      completion done) {
  if (auto fits = detail::check_rows(descriptor.size(), limits::descriptor_bytes, rows); !fits) return fits;
  tcp_frame frame;
  frame.cost = detail::queue_cost(descriptor.size() + rows.size_bytes);
  frame.wire = {1, static_cast<std::uint32_t>(descriptor.size()), rows.size_bytes};
  frame.head = std::move(descriptor);
  frame.rows = rows;
  frame.done = std::move(done);
  return impl_->send(to, std::move(frame));
}

void tcp_transport::close(connection_id which) {
  impl_->close(which);
}

std::string tcp_transport::carrier(connection_id) const {
  return "tcp";
}

}  // namespace baton::transports
