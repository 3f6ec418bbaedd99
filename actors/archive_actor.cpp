#include "actors/archive_actor.hpp"

#include <utility>

#include "schemas/hash.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto tick_period = 100ms;

spdlog::logger& log() {
  static const auto logger = log_of("archive");
  return *logger;
}

struct archive_state {
  std::shared_ptr<node_parts> node;
  std::unique_ptr<archive::writer> writer;
  bool failing = false;

  using pointer = archive_actor::stateful_pointer<archive_state>;

  void init(pointer self, std::shared_ptr<node_parts> parts) {
    node = std::move(parts);
    const auto& replicas = node->archive->plane->how().replicas;
    archive::writer::options options;
    options.fingerprint = replicas.fingerprint;
    options.bytes_per_token = replicas.bytes_per_token;
    options.object_tokens = node->archive->object_tokens;
    writer = std::make_unique<archive::writer>(options, *node->archive->store);
    self->delayed_send(self, tick_period, tick_atom::value);
  }

  void carry_out(const protocol::replica_effects& effects, const gpu::staging_slot& slot) {
    for (const protocol::replica_effect& effect : effects) {
      if (const auto* rows = std::get_if<protocol::import_rows>(&effect))
        take(*rows, slot);
      else if (const auto* cut = std::get_if<protocol::cut_rows>(&effect))
        writer->cut(cut->session, cut->length, cut->generation);
      else if (const auto* drop = std::get_if<protocol::drop_rows>(&effect))
        this->drop(*drop);
    }
  }

  void drop(const protocol::drop_rows& order) {
    writer->drop(order.session);
    if (order.place_unused) node->archive->places->give_back();
  }

  void take(const protocol::import_rows& rows, const gpu::staging_slot& slot) {
    bool wanted = false;
    node->archive->plane->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
      wanted = replicas.current(rows.session, rows.generation);
      return {};
    });
    if (!wanted) return;
    const std::span<const std::byte> bytes{slot.region().address, rows.count * writer_bytes()};
    result<void> outcome = hash_bytes(bytes) == rows.checksum
                               ? writer->take(rows.session, rows.generation, rows.first, bytes, steady::now())
                               : result<void>{errc::corrupt, "rows whose checksum does not match"};
    carry_out(node->archive->plane->with_replicas([&](protocol::replica_set& replicas) {
      return replicas.on_imported(rows.session, rows.generation, rows.first + rows.count, outcome);
    }),
              {});
  }

  [[nodiscard]] std::size_t writer_bytes() const {
    return node->archive->plane->how().replicas.bytes_per_token;
  }

  void on_tick(pointer self) {
    self->delayed_send(self, tick_period, tick_atom::value);
    const std::uint64_t failures = writer->counted().failures;
    writer->on_tick(steady::now(), [this](session_id session) { return history_of(session); });
    const bool failed = writer->counted().failures != failures;
    if (failed && !std::exchange(failing, true))
      log().warn("store fails where={} waiting_bytes={}", node->archive->store->where(),
                 writer->waiting_bytes());
    if (!failed && writer->waiting_bytes() == 0 && std::exchange(failing, false))
      log().info("store works again where={}", node->archive->store->where());
    self->send(node->primary, archive_figures{writer->counted(), writer->waiting_bytes()});
  }

  [[nodiscard]] std::optional<archive::writer::history> history_of(session_id session) const {
    std::optional<archive::writer::history> out;
    node->archive->plane->with_replicas([&](protocol::replica_set& replicas) -> protocol::replica_effects {
      if (auto held = replicas.snapshot_of(session))
        out = archive::writer::history{std::move(held->log), held->epoch, held->generation};
      return {};
    });
    return out;
  }
};

archive_actor::behavior_type archive_behavior(archive_actor::stateful_pointer<archive_state> self,
                                              std::shared_ptr<node_parts> node) {
  self->state.init(self, std::move(node));
  auto& state = self->state;
  return {[&state](const replica_orders& orders) { state.carry_out(orders.effects, orders.slot); },
          [self, &state](tick_atom) { state.on_tick(self); }};
}

}  // namespace

archive_actor spawn_archive_actor(caf::actor_system& system, std::shared_ptr<node_parts> node) {
  return system.spawn<caf::detached>(archive_behavior, std::move(node));
}

}  // namespace baton::actors
