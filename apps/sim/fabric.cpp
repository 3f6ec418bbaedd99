#include "apps/sim/fabric.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "schemas/limits.hpp"

namespace baton::apps::sim {

result<std::string> sim_transport::listen(std::string_view address) {
  const std::string at{address};
  fabric_.listening[at] = weak_from_this();
  fabric_.paths.listen(at, host_);
  return at;
}

void sim_transport::at(nanoseconds when, std::function<void(sim_transport&)> what) {
  host_->time().at(when, [weak = weak_from_this(), what = std::move(what)] {
    const auto here = weak.lock();
    if (!here) return;
    here->host_->run([weak, what] {
      if (const auto self = weak.lock()) what(*self);
    });
  });
}

sim_transport::line* sim_transport::find(connection_id which) {
  const auto found = lines_.find(which);
  return found == lines_.end() || found->second.closing ? nullptr : &found->second;
}

std::optional<transports::connection_id> sim_transport::over(const connection* wire) const {
  for (const auto& [id, it] : lines_)
    if (it.wire.get() == wire) return id;
  return std::nullopt;
}

result<transports::connection_id> sim_transport::connect(std::string_view address) {
  const connection_id id{next_++};
  lines_.emplace(id, line{});
  fabric_.paths.connect(
      host_, std::string{address},
      [weak = weak_from_this(), id, at = std::string{address}](const std::shared_ptr<connection>& wire) {
        if (const auto self = weak.lock()) self->up(id, wire, at);
      },
      [weak = weak_from_this(), id] {
        if (const auto self = weak.lock()) self->lose(id, {errc::connection_lost, "nobody answers"});
      });
  return id;
}

void sim_transport::up(connection_id which, const std::shared_ptr<connection>& wire,
                       const std::string& address) {
  line* it = find(which);
  const auto peer = fabric_.listening[address].lock();
  if (it == nullptr || !peer) {
    wire->close(0);
    if (it != nullptr) lose(which, {errc::connection_lost, "nobody listens"});
    return;
  }
  it->wire = wire;
  it->peer = peer;
  wire->on_lost(0, [weak = weak_from_this(), which] {
    if (const auto self = weak.lock()) self->lose(which, {errc::connection_lost, "reset"});
  });
  wire->send(0, 64, [peer = it->peer, wire, from = weak_from_this()] {
    if (const auto listener = peer.lock()) listener->accept(wire, from);
  });
  for (const auto& send : std::exchange(it->waiting, {}))
    send();
}

void sim_transport::accept(const std::shared_ptr<connection>& wire,
                           const std::weak_ptr<sim_transport>& from) {
  const connection_id id{next_++};
  line made;
  made.wire = wire;
  made.side = 1;
  made.peer = from;
  lines_.emplace(id, std::move(made));
  wire->on_lost(1, [weak = weak_from_this(), id] {
    if (const auto self = weak.lock()) self->lose(id, {errc::connection_lost, "reset"});
  });
  sink_.on_accepted(id);
}

void sim_transport::put(line& on, std::size_t size, contents seen,
                        std::function<void(sim_transport&, connection_id)> arrives) {
  on.wire->send(
      on.side, size,
      [peer = on.peer, wire = on.wire.get(), arrives = std::move(arrives)] {
        const auto at = peer.lock();
        if (!at) return;
        if (const auto id = at->over(wire); id && at->find(*id) != nullptr) arrives(*at, *id);
      },
      std::move(seen));
}

result<void> sim_transport::send_message(connection_id to, std::vector<std::byte> message) {
  line* it = find(to);
  if (it == nullptr) return {errc::connection_lost, "no such connection"};
  BATON_ASSERT(message.size() <= limits::message_bytes);
  const auto sent = std::make_shared<const std::vector<std::byte>>(std::move(message));
  const auto send = [weak = weak_from_this(), to, sent] {
    const auto self = weak.lock();
    line* on = self ? self->find(to) : nullptr;
    if (on != nullptr)
      self->put(*on, sent->size(), contents_of<link_frame>(sent),
                [sent](sim_transport& at, connection_id id) { at.sink_.on_message(id, *sent); });
  };
  if (it->wire)
    send();
  else
    it->waiting.emplace_back(send);
  return {};
}

result<void> sim_transport::send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                                      completion done) {
  line* it = find(to);
  if (it == nullptr) return {errc::connection_lost, "no such connection"};
  BATON_ASSERT(descriptor.size() <= limits::descriptor_bytes);
  const auto head = std::make_shared<const std::vector<std::byte>>(std::move(descriptor));
  const auto body =
      std::make_shared<const std::vector<std::byte>>(rows.address, rows.address + rows.size_bytes);
  const std::uint64_t number = next_++;
  it->sending.emplace(number, std::move(done));
  const auto send = [weak = weak_from_this(), to, head, body, number] {
    const auto self = weak.lock();
    line* on = self ? self->find(to) : nullptr;
    if (on == nullptr) return;
    self->put(*on, head->size() + body->size(), contents_of<delta_descriptor>(head),
              [weak, head, body, number](sim_transport& at, connection_id id) {
                at.land(id, head, body);
                // The sender's memory is free again a moment later.
                const auto wire = at.lines_.at(id).wire;
                if (const auto sender = weak.lock())
                  sender->at(at.host_->time().now() + 20us,
                             [wire, number](sim_transport& from) { from.sent(wire.get(), number); });
              });
  };
  if (it->wire)
    send();
  else
    it->waiting.emplace_back(send);
  return {};
}

void sim_transport::sent(const connection* wire, std::uint64_t number) {
  const auto id = over(wire);
  if (!id) return;
  auto found = lines_.at(*id).sending.extract(number);
  if (!found.empty() && found.mapped()) found.mapped()({});
}

void sim_transport::land(connection_id id, const bytes& descriptor, const bytes& rows) {
  const memory_region region = sink_.on_rows(id, *descriptor, rows->size());
  line* it = find(id);
  if (region.address == nullptr || it == nullptr) return;
  BATON_ASSERT(region.size_bytes >= rows->size());
  std::memcpy(region.address, rows->data(), rows->size());
  auto& random = fabric_.paths.random();
  if (!rows->empty() && random.chance(fabric_.flip_rows)) {
    ++fabric_.flipped;
    region.address[random.between<std::size_t>(0, rows->size() - 1)] ^= std::byte{4};
  }
  it->landing.emplace(region.address, region);
  const nanoseconds longest = fabric_.late_writes ? nanoseconds{2ms} : nanoseconds{50us};
  it->last_landing = std::max(it->last_landing, host_->time().now() + random.time(1us, longest));
  at(it->last_landing, [id, region](sim_transport& self) {
    line* on = self.find(id);
    if (on != nullptr && on->landing.erase(region.address) > 0) self.sink_.on_landed(id, region, {});
  });
}

void sim_transport::write_late(const memory_region& to) {
  const std::vector<std::byte> left{to.address, to.address + to.size_bytes};
  at(host_->time().now() + fabric_.paths.random().time(100us, 20ms), [to, left](sim_transport& self) {
    if (!std::equal(left.begin(), left.end(), to.address)) ++self.fabric_.overwrites;
    to.address[0] ^= std::byte{1};
  });
}

void sim_transport::close(connection_id which) {
  line* it = find(which);
  if (it == nullptr) return;
  it->closing = true;
  if (it->wire) it->wire->close(it->side);
  at(host_->time().now(), [which](sim_transport& self) {
    self.lose(which, {errc::cancelled, "closed here"});
  });
}

void sim_transport::lose(connection_id which, const error& why) {
  auto found = lines_.extract(which);
  if (found.empty()) return;
  line& it = found.mapped();
  if (it.wire && it.wire->open(it.side)) it.wire->close(it.side);
  for (auto& [number, done] : it.sending)
    if (done) done({errc::cancelled, why.what});
  if (fabric_.late_writes)
    for (const auto& [address, region] : it.landing)
      write_late(region);
  for (const auto& [address, region] : it.landing)
    sink_.on_landed(which, region, {errc::connection_lost, why.what});
  sink_.on_lost(which, why);
}

}  // namespace baton::apps::sim
