#pragma once

#include <string>

#include "actors/engines/engine.hpp"
#include "gpu/device.hpp"

namespace baton::actors::engines {

/// What the start-up self-test found.
struct self_test_report {
  replication_mode mode = replication_mode::replay;
  std::string reason;  ///< one sentence, e.g. why rows cannot be used
};

/// Evaluates a short history, carries its rows through `device` into a second session, and compares: the rows
/// must come back byte for byte, and the next logits bit for bit, also from a range that starts in the
/// middle. Decides how sessions of this engine are replicated. Leaves no session behind. Fails only if the
/// engine cannot evaluate at all.
result<self_test_report> run_self_test(engine& subject, gpu::device& device);

}  // namespace baton::actors::engines
