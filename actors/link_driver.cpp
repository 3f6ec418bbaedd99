#include "actors/link_driver.hpp"

#include <utility>

#include "schemas/codec.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using namespace std::chrono_literals;

constexpr auto reconnect_after = 100ms;
constexpr auto reconnect_after_refusal = 1s;

spdlog::logger& log() {
  static const auto logger = log_of("replicator");
  return *logger;
}

}  // namespace

link_driver::link_driver(transports::transport& transport, protocol::link_sender::options how,
                         std::string standby, outlets out)
    : transport_(transport), standby_(std::move(standby)), out_(std::move(out)), sender_(how) {}

// --- the connection ----------------------------------------------------------------------------------------

void link_driver::connect(time_point now) {
  const auto connected = out_.connect(target_.node, target_.data_address);
  retry_at_ = now + reconnect_after;
  greet_until_ = now + limits::request_timeout;
  if (connected) connection_ = *connected;
}

void link_driver::disconnect() {
  if (!connection_) return;
  transport_.close(*connection_);
  on_down();
}

void link_driver::on_down() {
  connection_.reset();
  sender_.on_disconnected();
  if (!welcomed_) return;
  welcomed_ = false;
  log().info("link down standby={}", standby_);
  out_.report(link_report{standby_, peer_, false, carrier_});
}

void link_driver::on_target(const link_target& next, time_point now) {
  if (next.node == target_.node && next.data_address == target_.data_address) return;
  disconnect();
  target_ = next;
  if (!target_.data_address.empty()) connect(now);
}

void link_driver::on_lost(const connection_lost& lost) {
  if (!connection_ || *connection_ != lost.connection) return;
  log().debug("connection lost standby={} reason={}", standby_, lost.reason.what);
  on_down();
}

void link_driver::on_frame(const inbound_frame& inbound, time_point now) {
  if (!connection_ || *connection_ != inbound.connection) return;
  if (const auto* welcome = std::get_if<link_welcome>(inbound.frame.get())) {
    on_welcome(*welcome, now);
  } else if (const auto* refusal = std::get_if<link_refusal>(inbound.frame.get())) {
    on_refusal(*refusal, now);
  } else if (const auto* acks = std::get_if<acks_frame>(inbound.frame.get())) {
    for (const replica_ack& ack : acks->acks) {
      carry_out(sender_.on_ack(ack, now));
      if (!connection_) return;  // what follows is of a link that has gone down
    }
  }
}

void link_driver::on_welcome(const link_welcome& welcome, time_point now) {
  welcomed_ = true;
  peer_ = welcome.from;
  carrier_ = transport_.carrier(*connection_);
  last_refusal_.clear();
  log().info("link up standby={} carrier={}", standby_, carrier_);
  out_.report(link_report{standby_, peer_, true, carrier_});
  carry_out(sender_.on_connected(now, welcome.rows));
}

void link_driver::on_refusal(const link_refusal& refusal, time_point now) {
  if (refusal.reason != last_refusal_)
    log().error("link refused standby={} reason={}", standby_, refusal.reason);
  last_refusal_ = refusal.reason;
  disconnect();
  retry_at_ = now + reconnect_after_refusal;
}

void link_driver::on_tick(time_point now) {
  if (connection_ && !welcomed_ && now > greet_until_) disconnect();  // no answer to our hello
  if (!connection_ && !target_.data_address.empty() && now >= retry_at_) connect(now);
  if (welcomed_) carry_out(sender_.on_tick(now));
}

link_figures link_driver::figures() const {
  return {standby_, carrier_, welcomed_, sender_.counted(), sender_.lag_tokens()};
}

// --- what the sender decides -------------------------------------------------------------------------------

void link_driver::carry_out(protocol::link_effects effects, const gpu::staging_slot* slot) {
  for (protocol::link_effect& effect : effects) {
    if (auto* frame = std::get_if<protocol::send_frame>(&effect)) {
      BATON_ASSERT(connection_);  // the sender sends only while it is connected
      check(transport_.send_message(*connection_, encode(frame->frame)));
    } else if (auto* rows = std::get_if<protocol::send_rows>(&effect)) {
      BATON_ASSERT(connection_ && slot != nullptr);  // rows are sent when they have been packed, not later
      check(send_rows(*rows, *slot));
    } else if (std::holds_alternative<protocol::link_stalled>(effect)) {
      log().warn("link stalled standby={}", standby_);
      disconnect();
      return;
    } else {
      out_.news(link_news{standby_, std::move(effect)});
    }
    if (!connection_) return;  // a failed send has taken the link down
  }
}

void link_driver::check(const result<void>& sent) {
  if (sent) return;
  log().warn("link send failed standby={} reason={}", standby_, sent.failure().what);
  disconnect();
}

result<void> link_driver::send_rows(const protocol::send_rows& rows, const gpu::staging_slot& slot) {
  const memory_region whole = slot.region();
  const memory_region part{whole.address, rows.rows.bytes, whole.kind};
  // The completion holds the slot: memory in flight is never reused (design rule 11).
  return transport_.send_rows(*connection_, encode(rows.rows), part, [slot](const result<void>&) {});
}

void link_driver::on_begin(const protocol::begin_replication& order, time_point now) {
  carry_out(sender_.on_session(order.group, order.epoch, order.log, order.rows, now, order.cuts));
}

void link_driver::on_records(const protocol::replicate_records& order, time_point now) {
  carry_out(sender_.on_records(order.step, now));
}

void link_driver::on_end(const protocol::end_replication& order) {
  carry_out(sender_.on_session_ended(order.session, order.drop));
}

void link_driver::on_appoint(const protocol::appoint& order) {
  if (welcomed_) check(transport_.send_message(*connection_, encode(link_frame{order.what})));
}

void link_driver::on_rows_held(const rows_held& held) {
  sender_.on_rows_held(held.session, held.rows);
}

void link_driver::on_packed(const packed_slot& packed, time_point now) {
  if (!packed.slot.held()) return sender_.on_made(packed.rows.session, packed.rows.end());
  bool sent = false;
  carry_out(sender_.on_packed(packed.rows, sent, now), &packed.slot);
}

}  // namespace baton::actors
