#pragma once

#include <memory>

#include "apps/demo/cluster.hpp"
#include "apps/demo/scenario.hpp"

namespace baton::apps::demo {

struct demo_options {
  cluster_options cluster;
  scenario_options scenario;
  bool json = false;
};

/// The model file to use if the command line names none: $BATON_MODEL, or the one this build was configured
/// with; "" if there is neither.
std::string default_model();

/// Tokens of the engine's context that a scenario needs besides its prompt.
std::uint32_t tokens_beside_prompt(const scenario_options& how);

/// Fills in what follows from other options: the model, the context of the engine, whether a network is
/// needed. `invalid_argument` for what cannot be.
result<void> complete(demo_options& how);

/// The text side of a cluster's engine.
result<std::shared_ptr<const actors::engines::tokenizer>> make_text(const cluster_options& how);

/// Starts a cluster, runs the scenario on it, and ends it.
result<scenario_result> run_once(const demo_options& how, host::interrupt& signals, host::terminal& screen);

/// Says an error on standard error and returns the exit code for it.
int refuse(const error& why, host::terminal& screen);

/// `baton demo`. Returns the exit code: success only if the answers are equal.
int demo_command(demo_options how);

}  // namespace baton::apps::demo
