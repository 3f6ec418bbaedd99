#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/all.hpp>

#include "actors/dialer.hpp"
#include "actors/node_parts.hpp"
#include "actors/runtime.hpp"
#include "transports/inproc_transport.hpp"

namespace baton::actors {

/// One node, assembled: engine, device, data plane, and the actors over them. Ends with `stop` or its
/// destructor.
class node {
 public:
  /// Loads the engine, tests it, listens on both planes, and starts the actors. `network` is for transport
  /// "inproc". `broken` is told on the engine's thread, once, that the engine has failed; then the node is to
  /// be stopped, by another thread.
  static result<std::unique_ptr<node>> start(caf::actor_system& system, const node_options& how,
                                             const engine_factory& make_engine, const directory_ptr& local,
                                             const std::shared_ptr<transports::inproc_network>& network,
                                             std::function<void(const process_id&, const error&)> broken);
  ~node();

  [[nodiscard]] const std::string& control_address() const noexcept { return control_address_; }
  [[nodiscard]] const process_id& self() const noexcept { return parts_->self; }

  /// From now on it wants to own nothing: what it owns moves to standbys that hold all of it.
  void begin_draining() { parts_->leaving.store(true); }
  /// It owns nothing, or nobody is there to take it.
  [[nodiscard]] bool drained() const { return parts_->owns_nothing() || parts_->alone.load(); }

  /// Ends the actors at once, wherever they are, then the data plane; waits for the engine to finish its
  /// batch.
  void stop();

 private:
  explicit node(caf::actor_system& system) : system_(system) {}
  result<void> assemble(const node_options& how, const engine_factory& make_engine,
                        const directory_ptr& local,
                        const std::shared_ptr<transports::inproc_network>& network);
  result<void> make_data_plane(const node_options& how,
                               const std::shared_ptr<transports::inproc_network>& network);
  void spawn_actors(const node_options& how);

  caf::actor_system& system_;
  std::shared_ptr<node_parts> parts_ = std::make_shared<node_parts>();
  std::string control_address_;
  std::string data_address_;
  directory_ptr local_;
  caf::actor supervisor_;
  bool rows_ = false;
};

}  // namespace baton::actors
