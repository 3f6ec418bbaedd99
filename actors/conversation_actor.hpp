#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <caf/all.hpp>

#include "actors/gateway_archive.hpp"
#include "transports/stores/object_store.hpp"

namespace baton::actors {

/// What `recall_conversation` has come to: nothing if none is there that can be read.
struct recalled_conversation {
  std::optional<archived_conversation> found;
};

/// Owns a gateway's object store, on a thread of its own: a disk or a network may take seconds, and clients
/// are served meanwhile. One request after the other, in order.
///
/// | message | reply | effect |
/// |---|---|---|
/// | `recall_conversation` | `recalled_conversation`, always | |
/// | `keep_conversation` | whether it is written | what is obsolete then is removed; what is not written is
/// not tried again |
using conversation_actor = caf::typed_actor<caf::replies_to<recall_conversation>::with<recalled_conversation>,
                                            caf::replies_to<keep_conversation>::with<bool>>;

conversation_actor spawn_conversation_actor(caf::actor_system& system,
                                            std::unique_ptr<transports::stores::object_store> store);

}  // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::recall_conversation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::recalled_conversation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::keep_conversation)
