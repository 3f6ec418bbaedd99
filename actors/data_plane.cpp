#include "actors/data_plane.hpp"

#include <utility>

#include "schemas/codec.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

constexpr const char* software_version = "baton/0.1";

spdlog::logger& log() {
  static const auto logger = log_of("data_plane");
  return *logger;
}

}  // namespace

data_plane::data_plane(options how, gpu::device& device, order_handler orders)
    : how_(std::move(how)),
      device_(device),
      orders_(std::move(orders)),
      fingerprint_hash_(how_.fingerprint.hash()),
      replicas_(how_.replicas) {}

void data_plane::send(transports::connection_id to, const link_frame& frame) {
  if (const auto sent = transport_->send_message(to, encode(frame));
      !sent && sent.code() != errc::connection_lost)
    log().warn("frame not sent reason={}", sent.failure().what);
}

void data_plane::acknowledge(protocol::replica_effects& effects) {
  std::map<protocol::peer_handle, acks_frame> acks;
  std::erase_if(effects, [&](const protocol::replica_effect& effect) {
    const auto* ack = std::get_if<protocol::send_ack>(&effect);
    if (ack != nullptr) acks[ack->to].acks.push_back(ack->ack);
    return ack != nullptr;
  });
  for (auto& [peer, frame] : acks)
    send(transports::connection_id{peer}, std::move(frame));
}

void data_plane::hand_on(protocol::replica_effects effects, gpu::staging_slot slot) {
  if (!effects.empty()) orders_(std::move(effects), std::move(slot));
}

result<transports::connection_id> data_plane::connect(const process_id& standby, const std::string& address,
                                                      frame_handler frames, loss_handler lost) {
  const std::lock_guard lock{guard_};  // so that no frame of it arrives before its handlers stand
  auto connection = transport_->connect(address);
  if (!connection) return connection;
  outbound_.emplace(*connection, outbound{std::move(frames), std::move(lost)});
  send(*connection, link_hello{how_.self, standby, software_version, how_.fingerprint.fields});
  return connection;
}

protocol::replica_effects data_plane::with_replicas(
    const std::function<protocol::replica_effects(protocol::replica_set&)>& change) {
  const std::lock_guard lock{guard_};
  protocol::replica_effects effects = change(replicas_);
  acknowledge(effects);
  return effects;
}

std::vector<protocol::replica_set::group_summary> data_plane::summaries() const {
  const std::lock_guard lock{guard_};
  return replicas_.summaries();
}

protocol::replica_set::counters data_plane::counted() const {
  const std::lock_guard lock{guard_};
  return replicas_.counted();
}

void data_plane::on_accepted(transports::connection_id from) {
  const std::lock_guard lock{guard_};
  inbound_.emplace(from, inbound{});
}

void data_plane::greet(transports::connection_id from, const link_hello& hello) {
  engines::fingerprint theirs;
  theirs.fields = hello.fingerprint;
  link_refusal refusal;
  if (hello.to != how_.self) {
    refusal = {errc::unavailable, "this is " + how_.self.name + " in another incarnation"};
  } else if (hello.software != software_version) {
    refusal = {errc::fingerprint_mismatch,
               "software: mine " + std::string{software_version} + ", theirs " + hello.software};
  } else if (const auto difference = how_.fingerprint.difference(theirs)) {
    refusal = {errc::fingerprint_mismatch, *difference};
  } else {
    inbound& peer = inbound_.at(from);
    peer.welcomed = true;
    peer.peer = hello.from;
    send(from, link_welcome{how_.self, how_.rows});
    return;
  }
  log().warn("link refused from={} reason={}", hello.from.name, refusal.reason);
  send(from, refusal);  // the other side closes
}

void data_plane::from_primary(transports::connection_id from, const link_frame& frame) {
  protocol::replica_effects rest;
  const auto take = [&](protocol::replica_effects effects) {
    acknowledge(effects);
    rest.insert(rest.end(), std::make_move_iterator(effects.begin()), std::make_move_iterator(effects.end()));
  };
  {
    const std::lock_guard lock{guard_};
    if (const auto* hello = std::get_if<link_hello>(&frame)) {
      greet(from, *hello);
      return;
    }
    if (!inbound_.at(from).welcomed) return;
    if (const auto* records = std::get_if<records_frame>(&frame)) {
      for (const session_records& session : records->sessions)
        take(replicas_.on_records(raw(from), session));
    } else if (const auto* resync = std::get_if<resync_frame>(&frame)) {
      take(replicas_.on_resync(raw(from), *resync));
    } else if (const auto* appointment = std::get_if<appointment_frame>(&frame)) {
      rest.emplace_back(protocol::appointed{appointment->group, appointment->epoch});
    }
  }
  hand_on(std::move(rest), {});
}

void data_plane::on_message(transports::connection_id from, std::span<const std::byte> message) {
  auto frame = decode<link_frame>(message);
  if (!frame) {
    log().warn("frame dropped reason={}", frame.failure().what);
    return;
  }
  frame_handler handler;
  {
    const std::lock_guard lock{guard_};
    if (const auto found = outbound_.find(from); found != outbound_.end())
      handler = found->second.frames;
    else if (!inbound_.contains(from))
      return;
  }
  if (handler)
    handler(from, std::make_shared<const link_frame>(std::move(*frame)));
  else
    from_primary(from, *frame);
}

memory_region data_plane::on_rows(transports::connection_id from, std::span<const std::byte> descriptor,
                                  std::size_t size_bytes) {
  const auto rows = decode<delta_descriptor>(descriptor);
  if (!rows) {
    log().warn("rows dropped reason={}", rows.failure().what);
    return {};
  }
  protocol::replica_effects rest;
  memory_region region;
  {
    const std::lock_guard lock{guard_};
    const auto peer = inbound_.find(from);
    if (peer == inbound_.end() || !peer->second.welcomed) return {};
    protocol::replica_effects effects;
    if (rows->bytes != size_bytes) {
      effects = replicas_.on_landing_failed(raw(from), *rows, errc::malformed);
    } else if (replicas_.admit(raw(from), *rows, effects)) {
      if (auto slot = device_.staging().acquire(size_bytes)) {
        region = {slot->region().address, size_bytes, slot->region().kind};
        landings_.emplace(region.address, landing{from, *rows, std::move(*slot)});
      } else {
        auto failed = replicas_.on_landing_failed(raw(from), *rows, errc::no_room);
        effects.insert(effects.end(), failed.begin(), failed.end());
      }
    }
    acknowledge(effects);
    rest = std::move(effects);
  }
  hand_on(std::move(rest), {});
  return region;
}

void data_plane::on_landed(transports::connection_id from, memory_region region, result<void> outcome) {
  protocol::replica_effects effects;
  gpu::staging_slot slot;
  {
    const std::lock_guard lock{guard_};
    const auto found = landings_.find(region.address);
    BATON_ASSERT(found != landings_.end());  // the transport reports each landing once
    landing landed = std::move(found->second);
    landings_.erase(found);
    slot = std::move(landed.slot);
    if (outcome) {
      effects = replicas_.on_landed(landed.rows, 0);
    } else {
      if (transport_->abilities().late_writes) slot.quarantine();
      slot = {};
      effects = replicas_.on_landing_failed(raw(from), landed.rows, outcome.code());
    }
    acknowledge(effects);
  }
  hand_on(std::move(effects), std::move(slot));
}

void data_plane::on_lost(transports::connection_id from, const error& reason) {
  loss_handler handler;
  {
    const std::lock_guard lock{guard_};
    inbound_.erase(from);
    if (const auto found = outbound_.find(from); found != outbound_.end()) {
      handler = std::move(found->second.lost);
      outbound_.erase(found);
    }
  }
  if (handler) handler(from, reason);
}

}  // namespace baton::actors
