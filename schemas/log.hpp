#pragma once

#include <memory>
#include <string_view>

#include <spdlog/spdlog.h>

/// Logging: a lowercase event phrase, then `name=value` fields. info: changes of role or membership; debug:
/// objects; trace: messages. Never token text, prompt text, keys or KV bytes.
namespace baton {

/// The logger of a room, e.g. "transports". Thread-safe; made at first use.
std::shared_ptr<spdlog::logger> log_of(std::string_view room);

/// Level ("trace" to "off") and the name of this process, which each line carries. Call before threads start.
void configure_log(std::string_view level, std::string_view process);

}  // namespace baton
