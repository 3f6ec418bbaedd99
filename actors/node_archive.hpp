#pragma once

#include <memory>

#include <caf/all.hpp>

#include "actors/node_parts.hpp"
#include "actors/runtime.hpp"

namespace baton::actors {

/// Opens the store of `how.archive` and makes the node's way there; `parts.plane` and `parts.engine` must be
/// there already. An error names the store.
result<std::unique_ptr<archive_parts>> make_archive(const std::shared_ptr<node_parts>& parts,
                                                    const node_options& how);

/// Starts its actors.
void spawn_archive(caf::actor_system& system, const std::shared_ptr<node_parts>& parts);

}  // namespace baton::actors
