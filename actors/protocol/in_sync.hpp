#pragma once

#include <algorithm>

#include "schemas/control.hpp"

namespace baton::actors::protocol {

/// Whether the owner of the group waits for this very incarnation.
[[nodiscard]] inline bool is_in_sync(const group_record& record, const process_id& who) {
  return std::find(record.in_sync.begin(), record.in_sync.end(), who) != record.in_sync.end();
}

}  // namespace baton::actors::protocol
