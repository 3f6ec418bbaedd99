#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Every bound of the system, with its reason. Nothing that a peer, a client or a slow link does grows memory
/// past these.
namespace baton::limits {

using std::chrono::milliseconds;

// --- messages
// ---------------------------------------------------------------------------------------------------------

/// Largest message of the data plane: the records of `record_tokens` and much room to spare.
inline constexpr std::size_t message_bytes = 1U << 20;
/// Largest message of the control plane: the prompt of the longest session, 4 MiB, and as much again.
inline constexpr std::size_t control_bytes = 8U << 20;
/// Segments of a message. Ours are written in segments that grow, 14 at most; each costs a reader memory.
inline constexpr std::uint32_t message_segments = 64;
/// Deepest nesting we read. Our schemas nest 5 deep; anything deeper is not ours.
inline constexpr int message_nesting = 12;
/// Words a reader may traverse, as a multiple of the message: guards against amplification by shared
/// pointers.
inline constexpr std::size_t traversal_factor = 4;
/// Memory that a message may take as a value, as a multiple of its bytes. Ours take up to 6 (a list of
/// records that close turns); what takes more repeats itself by shared pointers, or has lists of elements of
/// no size.
inline constexpr std::size_t decoded_factor = 16;
/// Largest delta descriptor. UCX 1.13 carries at most 8140 bytes of active-message header.
inline constexpr std::size_t descriptor_bytes = 4096;
static_assert(descriptor_bytes < message_bytes && descriptor_bytes <= 8140);

// --- sessions
// ---------------------------------------------------------------------------------------------------------

/// Longest token log of one session: the longest context among models in use (1M tokens).
inline constexpr std::uint32_t session_tokens = 1U << 20;
static_assert(session_tokens * sizeof(std::int32_t) * 2 <= control_bytes);
/// Tokens in one record message: 64k tokens are 256 KiB, well under `message_bytes`.
inline constexpr std::uint32_t record_tokens = 1U << 16;
static_assert(record_tokens * sizeof(std::int32_t) * 2 <= message_bytes);
/// Sessions one node holds as primary and standby together.
inline constexpr std::size_t node_sessions = 4096;
/// Turns remembered per session; each is a few words.
inline constexpr std::size_t session_turns = 1U << 14;

// --- output commit and replication
// ------------------------------------------------------------------------------------

/// Tokens an engine may run ahead of what is committed before it waits: bounds the unreleased tail.
inline constexpr std::uint32_t uncommitted_tokens = 256;
/// A busy engine without progress for this long is dead: no batch takes that, nor the wait for two others.
inline constexpr std::chrono::milliseconds engine_stalled_after{30'000};
/// Prompts that a gateway remembers for the nodes that died of them; past it the cluster has other troubles.
inline constexpr std::size_t poison_prompts = 256;
/// Rows after which an owner that makes no token says that it gets on, see `turn_tokens`.
inline constexpr std::uint32_t progress_rows = 64;
/// Rows of one delta: larger backfills are cut, so that one session's history never blocks the link for long.
inline constexpr std::uint32_t delta_tokens = 64;
/// Deltas in flight per link. With the 2 MiB of a block of a large model this is 16 MiB, several round trips'
/// worth.
inline constexpr std::size_t link_window_deltas = 8;
/// Bytes a transport queues per connection before it refuses more.
inline constexpr std::size_t connection_queue_bytes = 64U << 20;
/// Probes of one resynchronisation: exponentially spaced, so 32 cover any log.
inline constexpr std::size_t resync_probes = 32;

// --- archives
// ---------------------------------------------------------------------------------------------------------

/// Requests of a gateway that wait for what an object store has of their conversations; more begin anew.
inline constexpr std::size_t recalls_waiting = 1024;
/// Objects that are looked for, one after the other, where a conversation without a name may be: each is a
/// round trip, and the first is there unless the client went back by a turn.
inline constexpr std::size_t recall_keys = 4;
/// Conversations of a gateway that wait to be written, some KiB each, a few MiB at most; more are not.
inline constexpr std::size_t keeps_waiting = 256;

// --- time
// -------------------------------------------------------------------------------------------------------------

/// Heartbeat period, silence after which a node is suspected, and lease: see docs/protocol.md section L.
inline constexpr milliseconds heartbeat{20};
inline constexpr milliseconds suspect_after{100};
inline constexpr milliseconds lease{1000};
static_assert(heartbeat * 4 <= suspect_after && suspect_after * 2 <= lease);
/// A link whose oldest unacknowledged record is older than this is closed and reconnected.
inline constexpr milliseconds acknowledgement_deadline{500};
/// A connection of the control plane that does not stand by then is begun anew: the kernel itself would try
/// at longer and longer intervals.
inline constexpr milliseconds connect_deadline{1000};
/// Finite time-out of every remote request.
inline constexpr milliseconds request_timeout{2000};
/// A request begins anew if the object store has not said by then what it has of it: rather than make its
/// client wait any longer, all of it is evaluated.
inline constexpr milliseconds recall_deadline{5000};

// --- the edge
// ---------------------------------------------------------------------------------------------------------

/// Largest HTTP request body: a 128k-token prompt as JSON text is about 1 MiB.
inline constexpr std::size_t http_body_bytes = 8U << 20;
inline constexpr std::size_t http_header_bytes = 32U << 10;
/// Bytes buffered towards a slow reader before its stream is closed.
inline constexpr std::size_t client_buffer_bytes = 1U << 20;
/// Silence on a stream after which an SSE comment keeps proxies from closing it.
inline constexpr milliseconds keep_alive{1000};
/// Stop strings per request and bytes of each.
inline constexpr std::size_t stop_strings = 16;
inline constexpr std::size_t stop_string_bytes = 1024;

}  // namespace baton::limits
