#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/data_plane.hpp"
#include "actors/engines/engine.hpp"
#include "actors/interfaces.hpp"
#include "gpu/device.hpp"
#include "transports/stores/object_store.hpp"
#include "transports/transport.hpp"

namespace baton::actors {

/// A node's way into an object store: a link like those to standbys, whose other end is in the same process
/// and writes what it receives (actors/archive). Its memory is its own, so that a slow store takes none from
/// standbys.
struct archive_parts {
  std::unique_ptr<transports::stores::object_store> store;
  std::unique_ptr<gpu::device> device;
  std::unique_ptr<data_plane> plane;
  std::unique_ptr<transports::transport> transport;
  std::shared_ptr<protocol::engine_places> places;
  std::uint32_t object_tokens = 0;

  replicator_actor replicator;
  archive_actor writer;
  restore_actor restorer;
};

/// The parts of one node, shared by its actors. Filled in by `node` before the first message is sent,
/// constant from then on, but for the atomics.
struct node_parts {
  process_id self;
  std::uint32_t every_tokens = 1;

  std::unique_ptr<gpu::device> device;
  std::unique_ptr<engines::engine>
      engine;  ///< touched by the engine actor's thread only, but for `prepare_image`
  std::shared_ptr<protocol::engine_places> places;
  std::unique_ptr<data_plane> plane;
  std::unique_ptr<transports::transport> transport;

  engine_actor engine_loop;
  gpu_actor gpu;
  standby_actor standby;
  primary_core_actor primary;
  std::map<std::string, replicator_actor> replicators;  ///< by name of the standby
  std::unique_ptr<archive_parts> archive;               ///< nullptr: there is none

  std::atomic<std::uint64_t> progress{0};  ///< evaluations and orders the engine loop has finished
  std::atomic<bool> busy{false};
  std::atomic<bool> leaving{false};  ///< asked to own nothing any more; heartbeats say so
  std::atomic<bool> alone{true};     ///< by the last view, nobody could take over what this node owns

  /// Told on the engine's thread that the engine has failed; must not wait for the node.
  std::function<void(const error&)> break_down;

  /// The primary publishes where it stands; heartbeats and reports read it.
  void publish(std::vector<group_status> owned, std::string figures) {
    const std::lock_guard lock{published_guard_};
    owned_ = std::move(owned);
    figures_ = std::move(figures);
  }

  /// Groups owned, as last published, and groups held as a standby, as of now.
  [[nodiscard]] std::vector<group_status> statuses() const {
    std::vector<group_status> out;
    {
      const std::lock_guard lock{published_guard_};
      out = owned_;
    }
    for (const auto& held : plane->summaries())
      out.push_back({held.group, held.epoch, false, held.sessions, held.synced_tokens, held.lag_tokens});
    return out;
  }

  /// Whether it owns no group, as last published.
  [[nodiscard]] bool owns_nothing() const {
    const std::lock_guard lock{published_guard_};
    return owned_.empty();
  }

  [[nodiscard]] std::string figures() const {
    const std::lock_guard lock{published_guard_};
    return figures_;
  }

 private:
  mutable std::mutex published_guard_;
  std::vector<group_status> owned_;
  std::string figures_;
};

}  // namespace baton::actors
