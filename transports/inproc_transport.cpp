#include "transports/inproc_transport.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "schemas/ids.hpp"
#include "transports/send_checks.hpp"

namespace baton::transports {
namespace {

constexpr std::string_view scheme = "inproc:";

struct node;

/// A message or rows on their way. Owned by the inbox it lies in, then by the receiver's hand.
struct frame {
  bool is_rows = false;
  std::vector<std::byte> head;  // the message, or the descriptor of the rows
  memory_region rows;
  transport::completion done;
  std::size_t cost = 0;
  bool cancelled = false;  // its completion has been taken away: the rows may no longer be read
  bool copying = false;    // the receiver reads the rows now: the completion has to wait
};

/// One connection with its two ends. All of it is guarded by the network's mutex.
struct link {
  struct end {
    node* at = nullptr;
    connection_id id{};
    std::size_t queued_bytes = 0;    // sent from here, not yet taken in there
    std::shared_ptr<frame> in_hand;  // arrived here, being handed to the sink
  };
  std::array<end, 2> ends;
  bool open = true;
};

/// One end of a connection, seen from its node.
struct half {
  std::shared_ptr<link> wire;
  std::size_t side = 0;

  [[nodiscard]] link::end& here() const { return wire->ends[side]; }
  [[nodiscard]] link::end& there() const { return wire->ends[1 - side]; }
};

struct event {
  enum class kind { accepted, arrived, finished, lost };
  kind what;
  half where;
  std::shared_ptr<frame> piece;  // arrived
  transport::completion done;    // finished
  result<void> outcome;          // finished, lost
};

/// The part of a transport that others reach: its inbox, and its view of its connections.
struct node {
  std::deque<event> inbox;
  std::condition_variable changed;
  std::unordered_map<connection_id, half> open;
  std::string name;  // what it listens under, if it does
  std::uint64_t next_id = 1;
  bool stopping = false;

  void push(event what) {
    inbox.push_back(std::move(what));
    changed.notify_all();
  }

  /// Takes out the events that satisfy `wanted`, in order.
  template <class Predicate>
  std::deque<event> take(Predicate wanted) {
    std::deque<event> taken, kept;
    for (auto& each : inbox)
      (wanted(each) ? taken : kept).push_back(std::move(each));
    inbox.swap(kept);
    return taken;
  }
};

/// The sender's memory is free again: reported on the sender's thread. `from` is the receiving half.
void finish(const half& receiver, const std::shared_ptr<frame>& piece, result<void> outcome) {
  if (!piece->done) return;
  const half sender{receiver.wire, 1 - receiver.side};
  receiver.there().at->push(
      {event::kind::finished, sender, nullptr, std::move(piece->done), std::move(outcome)});
  piece->done = nullptr;
}

/// Ends a connection at both ends. What is still on the way is cancelled; a copy in progress finishes first,
/// and the sender's `lost` event waits for it.
void end_link(const half& closer, const error& reason_here, const error& reason_there) {
  auto& wire = closer.wire;
  if (!wire->open) return;
  wire->open = false;
  for (std::size_t side = 0; side < 2; ++side) {
    const half sender{wire, side}, receiver{wire, 1 - side};
    const auto& reason = side == closer.side ? reason_here : reason_there;
    auto undelivered = receiver.here().at->take([&](const event& each) {
      return each.what == event::kind::arrived && each.where.wire == wire && each.where.side == receiver.side;
    });
    if (const auto& held = receiver.here().in_hand; held && !held->copying) {
      held->cancelled = true;
      finish(receiver, held, reason);
    }
    for (auto& each : undelivered)
      finish(receiver, each.piece, reason);
    sender.here().at->open.erase(sender.here().id);
    sender.here().at->push({event::kind::lost, sender, nullptr, nullptr, reason});
  }
}

result<std::string> name_in(std::string_view address) {
  if (!address.starts_with(scheme) || address.size() == scheme.size())
    return {errc::invalid_argument, "not an address of the form inproc:NAME: " + std::string(address)};
  return std::string(address.substr(scheme.size()));
}

}  // namespace

struct inproc_network::state {
  std::mutex mutex;
  std::map<std::string, node*, std::less<>> listeners;
  std::uint64_t next_name = 1;
};

inproc_network::inproc_network() : state_(std::make_shared<state>()) {}
inproc_network::~inproc_network() = default;

struct inproc_transport::impl {
  impl(std::shared_ptr<inproc_network::state> network, frame_sink& sink)
      : network(std::move(network)), sink(sink), thread([this] { run(); }) {}

  /// While this runs, sink calls may still call the transport: it is whole.
  void shut_down() {
    {
      const std::lock_guard lock(network->mutex);
      self.stopping = true;
      if (!self.name.empty()) network->listeners.erase(self.name);
      while (!self.open.empty()) {
        const half last = self.open.begin()->second;  // a copy: ending it erases the entry
        end_link(last, {errc::cancelled, "the transport was closed"},
                 {errc::connection_lost, "the peer was closed"});
      }
      self.changed.notify_all();
    }
    thread.join();
  }

  using lock = std::unique_lock<std::mutex>;

  void run() {
    lock held(network->mutex);
    for (;;) {
      self.changed.wait(held, [&] { return self.stopping || !self.inbox.empty(); });
      if (self.inbox.empty()) return;
      event next = std::move(self.inbox.front());
      self.inbox.pop_front();
      handle(next, held);
    }
  }

  void handle(event& what, lock& held) {
    switch (what.what) {
      case event::kind::accepted:
        return unlocked(held, [&] { sink.on_accepted(what.where.here().id); });
      case event::kind::finished:
        return unlocked(held, [&] {
          what.done(std::move(what.outcome));
          what.done = nullptr;  // what it holds may call us back as it goes
        });
      case event::kind::lost:
        return on_lost(what, held);
      case event::kind::arrived:
        break;
    }
    what.where.here().in_hand = what.piece;
    if (what.piece->is_rows) {
      take_rows(what.where, what.piece, held);
    } else {
      what.where.there().queued_bytes -= what.piece->cost;
      unlocked(held, [&] { sink.on_message(what.where.here().id, what.piece->head); });
    }
    what.where.here().in_hand = nullptr;
  }

  void take_rows(const half& where, const std::shared_ptr<frame>& piece, lock& held) {
    const auto id = where.here().id;
    const std::size_t size_bytes = piece->rows.size_bytes;
    memory_region landing;
    unlocked(held, [&] { landing = sink.on_rows(id, piece->head, size_bytes); });
    const bool accepted = detail::accepts(landing, size_bytes);
    result<void> outcome;
    if (piece->cancelled) {
      outcome = error{errc::connection_lost, "the connection was lost before the rows had landed"};
    } else if (accepted && size_bytes > 0) {
      piece->copying = true;
      unlocked(held, [&] { std::memcpy(landing.address, piece->rows.address, size_bytes); });
      piece->copying = false;
    } else if (!accepted) {
      outcome = error{errc::invalid_argument, "the landing does not hold the rows"};
    }
    if (!piece->cancelled) {
      where.there().queued_bytes -= piece->cost;
      finish(where, piece, {});
      where.there().at->changed.notify_all();  // it may wait for the end of the copy
    }
    if (!landing.empty()) unlocked(held, [&] { sink.on_landed(id, landing, std::move(outcome)); });
  }

  /// Everything of the connection but a copy still in progress was reported before this event was queued.
  void on_lost(event& what, lock& held) {
    self.changed.wait(held, [&] {
      const auto& piece = what.where.there().in_hand;
      return !piece || !piece->copying;
    });
    auto last = self.take([&](const event& each) {
      return each.what == event::kind::finished && each.where.wire == what.where.wire &&
             each.where.side == what.where.side;
    });
    unlocked(held, [&] {
      for (auto& each : last)
        each.done(std::move(each.outcome));
      last.clear();
      sink.on_lost(what.where.here().id, what.outcome.failure());
    });
  }

  template <class Action>
  static void unlocked(lock& held, Action act) {
    held.unlock();
    act();
    held.lock();
  }

  result<void> send(connection_id to, std::shared_ptr<frame> piece) {
    const std::lock_guard held(network->mutex);
    const auto found = self.open.find(to);
    if (found == self.open.end()) return detail::connection_gone();
    const half from = found->second;
    if (!detail::has_room(from.here().queued_bytes, piece->cost)) return detail::queue_full();
    from.here().queued_bytes += piece->cost;
    const half receiver{from.wire, 1 - from.side};
    receiver.here().at->push({event::kind::arrived, receiver, std::move(piece), nullptr, {}});
    return {};
  }

  const std::shared_ptr<inproc_network::state> network;
  frame_sink& sink;
  node self;  // guarded by network->mutex, like all that hangs on it
  std::thread thread;
};

inproc_transport::inproc_transport(const std::shared_ptr<inproc_network>& network, frame_sink& sink)
    : impl_(std::make_unique<impl>(network->state_, sink)) {}

inproc_transport::~inproc_transport() {
  impl_->shut_down();
}

capabilities inproc_transport::abilities() const {
  return {.name = "inproc", .max_descriptor_bytes = limits::descriptor_bytes};
}

result<std::string> inproc_transport::listen(std::string_view address) {
  auto name = name_in(address);
  if (!name) return name.failure();
  auto& network = *impl_->network;
  const std::lock_guard held(network.mutex);
  if (!impl_->self.name.empty()) return {errc::invalid_argument, "this transport listens already"};
  if (*name == "0") {
    do
      *name = "auto-" + std::to_string(network.next_name++);
    while (network.listeners.contains(*name));
  }
  if (!network.listeners.emplace(*name, &impl_->self).second)
    return {errc::io_failed, "address in use: " + std::string(address)};
  impl_->self.name = *name;
  return std::string(scheme) + *name;
}

result<connection_id> inproc_transport::connect(std::string_view address) {
  const auto name = name_in(address);
  if (!name) return name.failure();
  auto& self = impl_->self;
  const std::lock_guard held(impl_->network->mutex);
  if (self.stopping) return {errc::cancelled, "the transport is closing"};
  const half near{std::make_shared<link>(), 0};
  const half far{near.wire, 1};
  near.here() = {&self, connection_id{self.next_id++}, 0, nullptr};
  const auto listener = impl_->network->listeners.find(*name);
  if (listener == impl_->network->listeners.end()) {
    near.wire->open = false;
    self.push({event::kind::lost, near, nullptr, nullptr,
               error{errc::connection_lost, "nobody listens at " + std::string(address)}});
    return near.here().id;
  }
  node& peer = *listener->second;
  far.here() = {&peer, connection_id{peer.next_id++}, 0, nullptr};
  self.open.emplace(near.here().id, near);
  peer.open.emplace(far.here().id, far);
  peer.push({event::kind::accepted, far, nullptr, nullptr, {}});
  return near.here().id;
}

result<void> inproc_transport::send_message(connection_id to, std::vector<std::byte> message) {
  if (auto fits = detail::check_message(message.size()); !fits) return fits;
  auto piece = std::make_shared<frame>();
  piece->cost = detail::queue_cost(message.size());
  piece->head = std::move(message);
  return impl_->send(to, std::move(piece));
}

result<void> inproc_transport::send_rows(connection_id to, std::vector<std::byte> descriptor,
                                         memory_region rows, completion done) {
  if (auto fits = detail::check_rows(descriptor.size(), limits::descriptor_bytes, rows); !fits) return fits;
  auto piece = std::make_shared<frame>();
  piece->is_rows = true;
  piece->cost = detail::queue_cost(descriptor.size() + rows.size_bytes);
  piece->head = std::move(descriptor);
  piece->rows = rows;
  piece->done = std::move(done);
  return impl_->send(to, std::move(piece));
}

void inproc_transport::close(connection_id which) {
  const std::lock_guard held(impl_->network->mutex);
  const auto found = impl_->self.open.find(which);
  if (found == impl_->self.open.end()) return;
  const half closing = found->second;
  end_link(closing, {errc::cancelled, "closed here"}, {errc::connection_lost, "closed by the peer"});
}

std::string inproc_transport::carrier(connection_id) const {
  return "inproc";
}

}  // namespace baton::transports
