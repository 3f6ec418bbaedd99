#pragma once

#include <array>
#include <string_view>

#include "tests/fuzz/input.hpp"

/// The fuzz targets: each takes any bytes, and ends the process by an assertion if a property does not hold.
namespace baton::fuzz {

void client_stream(input bytes);
void control_message(input bytes);
void delta_descriptor(input bytes);
void deployment(input bytes);
void link_frame(input bytes);
void openai_request(input bytes);
void replica_set(input bytes);
void session_log(input bytes);
void tcp_stream(input bytes);
void text_stream(input bytes);
void ucx_greeting(input bytes);
/// Has a planted bug, which must be found; see `canary.cpp`.
void canary(input bytes);

struct target {
  std::string_view name;  ///< also of its corpus folder
  void (*run)(input bytes);
};

/// All but the canary.
inline constexpr std::array targets{
    target{"client_stream", client_stream},
    target{"control_message", control_message},
    target{"delta_descriptor", delta_descriptor},
    target{"deployment", deployment},
    target{"link_frame", link_frame},
    target{"openai_request", openai_request},
    target{"replica_set", replica_set},
    target{"session_log", session_log},
    target{"tcp_stream", tcp_stream},
    target{"text_stream", text_stream},
    target{"ucx_greeting", ucx_greeting},
};

}  // namespace baton::fuzz
