#pragma once

#include <caf/actor_system_config.hpp>

#include <cstddef>

namespace baton::actors {

/// The configuration of an actor system that speaks Baton: every message of the control plane under its own
/// name, and the middleman set so that a peer that is frozen or cut off is let go of after a while.
struct system_config : caf::actor_system_config {
  explicit system_config(std::size_t threads);
};

}  // namespace baton::actors
