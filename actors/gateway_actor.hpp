#pragma once

#include <memory>

#include "actors/completion_service.hpp"
#include "actors/conversation_actor.hpp"
#include "actors/dialer.hpp"
#include "actors/interfaces.hpp"
#include "actors/runtime.hpp"

namespace baton::actors {

/// Faces clients, through `completion_service`: carries out what its `gateway_core` decides, reaches the
/// orchestrator and the nodes, publishes its state and metrics. What it has released is the last word on a
/// session; it can bring any node to that point.
///
/// | message | reply | effect |
/// |---|---|---|
/// | `seal` | `seal_reply` | lower epochs are refused from now on; the open turns go to the new owner |
/// | `turn_tokens` | | released to the client if they fit |
/// | `turn_failure` | | the turn is opened again, or fails |
/// | `cluster_view` | | nodes are dialed, routes change |
/// | locate, a session's name | its group, 0 if unknown | |
///
/// What it cannot wait for, an object store, a `conversation_actor` of its own does. An error names what is
/// wrong with that store.
struct gateway_handles {
  gateway_actor actor;
  conversation_actor conversations;  ///< none without an archive; ends after the gateway
  std::shared_ptr<completion_service> service;
};
result<gateway_handles> spawn_gateway_actor(caf::actor_system& system, gateway_options how, process_id self,
                                            std::shared_ptr<const engines::tokenizer> text,
                                            directory_ptr local);

}  // namespace baton::actors
