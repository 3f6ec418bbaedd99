#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "actors/node_parts.hpp"

namespace baton::actors {

/// Owns the model and its batch loop, on a thread of its own: evaluates, samples, exports fresh rows, and
/// imports replicated ones between steps. Between any two evaluations it takes the orders that have arrived,
/// so a long prompt never holds up other sessions or imports for more than one batch.
///
/// - `run_engine`: the session joins the loop; `engine_step` to the primary after each batch, until finished.
/// - `allow_engine`: the log may grow further.
/// - `pause_engine`: the run ends with its rows exported, and a last `engine_step` says so.
/// - `stop_engine`: the run ends; nothing more of it is reported.
/// - `cut_engine`, `drop_engine`: rows are forgotten.
/// - `import_order`: rows are appended, then `import_done` to the standby.
/// - `export_order`: rows are exported for a link that lacks them.
/// - `export_policy`: after how many tokens fresh rows go out; sent back once it holds.
engine_actor spawn_engine_actor(caf::actor_system& system, std::shared_ptr<node_parts> node);

}  // namespace baton::actors
