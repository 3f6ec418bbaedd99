#pragma once

#include "schemas/errors.hpp"

namespace baton::apps::host {

/// Makes the death of this process known at once, however much memory it has.
///
/// The kernel takes a killed process apart in order: first its memory, then its descriptors (`do_exit` in
/// Linux: `exit_mm` before `exit_files`). Peers learn of the death by the closing of their connections, so
/// they learn it only after gigabytes of weights and KV have been given back. A small process that shares our
/// memory and nothing else holds it a moment longer: the connections close first, and the memory goes half a
/// second later, when a successor on the same machine is past its first steps.
///
/// It helps when this process alone is killed or crashes. If everything around it is killed as well (a whole
/// control group, a whole machine), peers learn of it as they would without.
///
/// Call it once, from the thread that runs `main`, while few descriptors are open. The process it makes has
/// no parent's signals, no descriptors and no work; it is not reported to `wait`.
result<void> keep_memory_past_our_end();

/// The process ends by itself, and nobody needs its memory held.
void give_memory_back_at_our_end();

}  // namespace baton::apps::host
