#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// What single values of a deployment file mean.
namespace baton::actors::graph_text {

/// Up to 64 letters, digits, '-', '_' and '.'.
bool is_name(std::string_view text);

/// What follows the last colon, if that is a port.
std::optional<std::uint32_t> port_of(std::string_view address);

/// "shm:NAME".
bool is_memory_address(std::string_view text);

/// "256MiB", "2GiB".
std::optional<std::size_t> bytes_of(std::string_view text);

/// K of "quorum:K" with K from 1 to 9; nothing for any other rule.
std::optional<std::ptrdiff_t> quorum_of(std::string_view commit);

}  // namespace baton::actors::graph_text
