#pragma once

#include <memory>

#include "actors/engines/tokenizer.hpp"
#include "actors/graph.hpp"
#include "actors/runtime.hpp"

namespace baton::apps {

/// Makes engines as a deployment describes them. `unsupported`, when called, for llama in a build without it.
actors::engine_factory make_engine_factory(const actors::engine_settings& how);

/// The text side of such an engine.
result<std::shared_ptr<const actors::engines::tokenizer>> make_tokenizer(const actors::engine_settings& how);

}  // namespace baton::apps
