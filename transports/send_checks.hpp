#pragma once

#include <cstddef>
#include <string>

#include "schemas/errors.hpp"
#include "schemas/limits.hpp"
#include "schemas/memory.hpp"

/// What every body checks before it takes a frame, so that all refuse alike. Pure functions.
namespace baton::transports::detail {

/// What a frame of no bytes still costs in memory; keeps a flood of empty messages within the bound.
inline constexpr std::size_t frame_overhead_bytes = 128;

/// What a frame of `payload_bytes` counts against `limits::connection_queue_bytes`.
constexpr std::size_t queue_cost(std::size_t payload_bytes) {
  return payload_bytes + frame_overhead_bytes;
}

/// Whether a frame of `cost` may join `queued_bytes`. An empty queue takes a frame of any size: rows are
/// borrowed memory, and one frame larger than the bound must still be able to leave.
constexpr bool has_room(std::size_t queued_bytes, std::size_t cost) {
  return queued_bytes == 0 ||
         (cost <= limits::connection_queue_bytes && queued_bytes <= limits::connection_queue_bytes - cost);
}

inline result<void> check_message(std::size_t size_bytes) {
  if (size_bytes > limits::message_bytes)
    return {errc::invalid_argument, "a message of " + std::to_string(size_bytes) + " bytes, at most " +
                                        std::to_string(limits::message_bytes)};
  return {};
}

inline result<void> check_rows(std::size_t descriptor_bytes, std::size_t max_descriptor_bytes,
                               const memory_region& rows) {
  if (descriptor_bytes > max_descriptor_bytes)
    return {errc::invalid_argument, "a descriptor of " + std::to_string(descriptor_bytes) +
                                        " bytes, at most " + std::to_string(max_descriptor_bytes)};
  if (rows.kind == memory_kind::cuda_device)
    return {errc::unsupported, "this transport cannot read device memory"};
  return {};
}

/// Whether rows of `size_bytes` can land there. A landing that is empty, too small or out of the host's reach
/// refuses.
inline bool accepts(const memory_region& landing, std::size_t size_bytes) {
  return !landing.empty() && landing.size_bytes >= size_bytes && landing.kind != memory_kind::cuda_device;
}

inline error connection_gone() {
  return {errc::connection_lost, "no such connection, or it is gone"};
}
inline error queue_full() {
  return {errc::no_room, "the connection's queue is full"};
}

}  // namespace baton::transports::detail
