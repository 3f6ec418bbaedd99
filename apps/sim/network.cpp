#include "apps/sim/network.hpp"

#include <algorithm>

namespace baton::apps::sim {

namespace {

constexpr nanoseconds connect_timeout = 1s;
/// Both planes send signs of life, and give up a connection on which none has come for so long.
constexpr nanoseconds keepalive = 2s;

}  // namespace

// --- connection --------------------------------------------------------------------------------------------

connection::connection(network& of, const std::shared_ptr<host>& opener,
                       const std::shared_ptr<host>& listener)
    : network_(of) {
  ends_[0].at = opener;
  ends_[0].name = opener->self().name;
  ends_[1].at = listener;
  ends_[1].name = listener->self().name;
}

bool connection::send(int from, std::size_t bytes, std::function<void()> arrives, contents seen) {
  if (ends_[from].gone) return false;
  carry(1 - from, {bytes, std::move(arrives), std::move(seen)});
  return true;
}

void connection::carry(int to, frame what) {
  end& target = ends_[to];
  if (target.gone) return;
  network::path& path = network_.between(ends_[1 - to].name, target.name);
  if (path.cut || !target.held.empty()) {
    target.held.push_back(std::move(what));
    return;
  }
  const nanoseconds now = network_.time_.now();
  const auto transfer =
      nanoseconds{static_cast<std::int64_t>(static_cast<double>(what.bytes) * 1000 / path.bytes_per_us)};
  path.busy_until = std::max(path.busy_until, now) + transfer;
  const nanoseconds delay = path.delay + network_.random_.time(0ns, path.jitter);
  target.last_arrival = std::max(target.last_arrival, path.busy_until + delay);
  network_.time_.at(target.last_arrival, [self = shared_from_this(), to, what = std::move(what)]() mutable {
    const auto at = self->ends_[to].at.lock();
    if (!at || self->ends_[to].gone) return;
    at->run([self, to, what = std::move(what)] { self->arrive(to, what); });
  });
}

void connection::arrive(int to, const frame& what) {
  if (ends_[to].gone) return;
  std::optional<any_message> message;
  if (network_.tap_ != nullptr && what.seen.read != nullptr) message = what.seen.read(*what.seen.bytes);
  int times = 1;
  if (message)
    times = network_.tap_->on_arrival(ends_[1 - to].name, ends_[to].name, *message,
                                      [self = shared_from_this(), to, arrives = what.arrives] {
                                        if (const auto at = self->ends_[to].at.lock())
                                          at->run([self, to, arrives] {
                                            if (!self->ends_[to].gone) arrives();
                                          });
                                      });
  for (; times > 0 && !ends_[to].gone; --times)
    what.arrives();
}

void connection::lose(int side, nanoseconds after) {
  end& it = ends_[side];
  if (it.gone || it.losing) return;
  it.losing = true;
  network_.time_.after(after, [self = shared_from_this(), side] {
    const auto at = self->ends_[side].at.lock();
    if (!at) return;
    at->run([self, side] {
      end& losing = self->ends_[side];
      if (losing.gone) return;
      losing.gone = true;
      losing.held.clear();
      if (const auto handler = std::move(losing.lost)) handler();
    });
  });
}

void connection::close(int side) {
  end& it = ends_[side];
  if (it.gone) return;
  it.gone = true;
  it.lost = nullptr;
  const int other = 1 - side;
  // The end of the stream travels behind what was sent before.
  carry(other, {0, [self = shared_from_this(), other] { self->lose(other, 0ns); }, {}});
}

void connection::reset() {
  auto& random = network_.random_;
  lose(0, random.time(0ns, 3ms));
  lose(1, random.time(0ns, 3ms));
}

void connection::host_died(const host& which, bool silent) {
  for (int side = 0; side < 2; ++side) {
    if (ends_[side].at.lock().get() != &which || ends_[side].gone) continue;
    ends_[side].gone = true;
    ends_[side].lost = nullptr;
    if (silent) continue;
    const int other = 1 - side;
    carry(other, {0, [self = shared_from_this(), other] { self->lose(other, 0ns); }, {}});
  }
}

void connection::break_stale(const std::string& name) {
  for (int side = 0; side < 2; ++side)
    if (ends_[side].name == name && ends_[side].gone) lose(1 - side, network_.random_.time(100us, 200ms));
}

void connection::give_up(const std::string& deaf, const std::string& mute) {
  for (int side = 0; side < 2; ++side) {
    const int other = 1 - side;
    if (ends_[side].name != deaf || ends_[other].name != mute || ends_[side].gone) continue;
    lose(side, 0ns);
    carry(other, {0, [self = shared_from_this(), other] { self->lose(other, 0ns); }, {}});
  }
}

void connection::release(const std::string& from, const std::string& to) {
  for (int side = 0; side < 2; ++side) {
    if (ends_[side].name != to || ends_[1 - side].name != from) continue;
    std::deque<frame> held = std::move(ends_[side].held);
    ends_[side].held.clear();
    for (frame& it : held)
      carry(side, std::move(it));
  }
}

// --- network -----------------------------------------------------------------------------------------------

void connection::forget() {
  for (end& it : ends_) {
    it.held.clear();
    it.lost = nullptr;
  }
}

network::~network() {
  for (const auto& it : made_)
    if (const auto known = it.lock()) known->forget();
}

template <class Do>
void network::each(Do what) {
  std::erase_if(connections_, [](const auto& it) {
    const auto known = it.lock();
    return !known || known->dead();
  });
  const auto all = connections_;
  for (const auto& it : all)
    if (const auto known = it.lock()) what(*known);
}

void network::cut(const std::string& from, const std::string& to) {
  path& it = between(from, to);
  it.cut = true;
  time_.after(keepalive, [this, &it, from, to, cut = ++it.cuts] {
    if (it.cut && it.cuts == cut) each([&](connection& known) { known.give_up(to, from); });
  });
}

void network::heal(const std::string& from, const std::string& to) {
  path& it = between(from, to);
  if (!std::exchange(it.cut, false)) return;
  each([&](connection& known) { known.release(from, to); });
}

void network::heal_all() {
  for (auto& [names, it] : paths_) {
    it.delay = 50us;
    it.jitter = 20us;
    it.bytes_per_us = 1000;
    it.busy_until = std::min(it.busy_until, time_.now() + 1ms);
    heal(names.first, names.second);
  }
}

std::shared_ptr<host> network::at(const std::string& address) const {
  const auto found = listening_.find(address);
  if (found == listening_.end()) return nullptr;
  auto who = found->second.lock();
  return who && who->alive() ? who : nullptr;
}

void network::connect(const std::shared_ptr<host>& from, const std::string& address,
                      std::function<void(std::shared_ptr<connection>)> up, std::function<void()> failed) {
  const nanoseconds there = 100us + random_.time(0ns, 200us);
  time_.after(there, [this, from, address, up = std::move(up), failed = std::move(failed)]() mutable {
    if (!from->alive()) return;
    const auto to = at(address);
    const bool cut = to && (between(from->self().name, to->self().name).cut ||
                            between(to->self().name, from->self().name).cut);
    if (!to || cut) {
      time_.after(cut ? connect_timeout : 100us,
                  [from, failed = std::move(failed)]() mutable { from->run(std::move(failed)); });
      return;
    }
    auto made = std::make_shared<connection>(*this, from, to);
    connections_.push_back(made);
    made_.push_back(connections_.back());
    time_.after(100us, [from, made, up = std::move(up), failed = std::move(failed)] {
      from->run([made, up, failed] { made->open(0) ? up(made) : failed(); });
    });
  });
}

void network::died(const host& which, bool silent) {
  each([&](connection& known) { known.host_died(which, silent); });
}

void network::restarted(const std::string& name) {
  each([&](connection& known) { known.break_stale(name); });
}

void network::reset(const std::string& a, const std::string& b) {
  each([&](connection& known) {
    if (known.links(a, b)) known.reset();
  });
}

}  // namespace baton::apps::sim
