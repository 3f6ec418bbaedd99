#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <cstddef>
#include <memory>

namespace baton::actors {

/// The configuration of an actor system that speaks Baton: every message of the control plane under its own
/// name, and the middleman set so that a peer that is frozen or cut off is let go of after a while.
struct system_config : caf::actor_system_config {
  explicit system_config(std::size_t threads);
};

/// An actor system and its configuration. It is never taken apart: CAF 0.17 may wait there for ever, for an
/// actor of its own that its broker still refers to (the address sanitizer reports that cycle as a leak of
/// `basp_broker`). What is left behind are its idle threads; end all actors before.
class held_system {
 public:
  explicit held_system(std::size_t threads);
  ~held_system();
  held_system(const held_system&) = delete;
  held_system& operator=(const held_system&) = delete;

  [[nodiscard]] caf::actor_system& get() noexcept { return body_->system; }

 private:
  struct body {
    explicit body(std::size_t threads) : config(threads), system(config) {}
    system_config config;
    caf::actor_system system;
  };
  std::unique_ptr<body> body_;
};

}  // namespace baton::actors
