#pragma once

#include <cstdint>
#include <vector>

#include "actors/archive/objects.hpp"
#include "actors/protocol/session_log.hpp"
#include "schemas/archive.hpp"

namespace baton::actors::archive {

/// What an engine must agree in with those who wrote rows.
struct row_format {
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes_per_token = 0;
  std::uint32_t prefill_chunk = 1;  ///< of the engine, as in `evaluation_plan`
};

/// The rows of a history that an archive has: those of the same tokens in the same turns, so evaluated in the
/// same batches, whoever wrote them and under whichever session. The history decides, not the epoch; of
/// several manifests each is used for what it has. Calls may take seconds. Not thread-safe.
class reader {
 public:
  /// Looks at all that has been written under session `from`. What cannot be read there is passed over.
  reader(object_store& store, session_id from, const protocol::session_log& wanted, const row_format& format);

  /// Rows [0, n) of the history are there, by what the manifests say.
  [[nodiscard]] position end() const noexcept { return found_.empty() ? 0 : found_.front().end; }

  /// Some rows from `first` on, in wire order, verified; nothing if there are none that can be read.
  [[nodiscard]] bytes read(position first);

 private:
  struct candidate {
    std::vector<archived_rows> rows;
    position end = 0;  // those before it are good
  };

  [[nodiscard]] bytes read(const archived_rows& rows, position first, position end);

  object_store& store_;
  std::uint64_t bytes_per_token_;
  std::vector<candidate> found_;  // those with most rows first
};

}  // namespace baton::actors::archive
