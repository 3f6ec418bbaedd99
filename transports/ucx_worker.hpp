#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/errors.hpp"

/// Owners for the C handles of UCX, and the translation of its words into ours. For the bodies in this room
/// only.
namespace baton::transports::detail {

/// What a UCX context is made of.
struct ucx_settings {
  std::string tls;                   ///< UCX_TLS
  std::string devices;               ///< UCX_NET_DEVICES; empty: all
  std::size_t rendezvous_bytes = 0;  ///< UCX_RNDV_THRESH; 0: UCX decides
  bool zero_copy = false;  ///< sends from user memory where the fabric can; see the note in `create`
  bool tls_may_be_overridden = true;  ///< by the user's UCX_TLS
};

/// The one place where a UCX status becomes an error.
error translate(ucs_status_t status, std::string_view doing);

/// Once per process, and only what the user has not set in the environment: quiets UCX's own log to "fatal",
/// since we report errors as values; and sets UCX_POSIX_ERROR_HANDLING=y, without which shared memory cannot
/// be closed, and which UCX 1.13 takes from the environment alone. Call it before other threads read the
/// environment.
void prepare_ucx();

/// A context with its one worker, in wake-up mode. Made, used and destroyed on one thread.
class ucx_worker {
 public:
  /// `io_failed` and the like when UCX has no such transport or device. A setting whose UCX_ variable the
  /// user has set is left to the user.
  static result<std::unique_ptr<ucx_worker>> create(const ucx_settings& settings);

  /// Destroys worker and context. Requests still in flight are dropped: their callbacks never run.
  ~ucx_worker();
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  [[nodiscard]] ucp_worker_h handle() const noexcept { return worker_; }
  /// Readable when there is something to progress, after `arm`. Owned by the worker.
  [[nodiscard]] int event_fd() const noexcept { return event_fd_; }
  [[nodiscard]] std::size_t max_header_bytes() const noexcept { return max_header_bytes_; }

  /// Whether anything was done.
  bool progress() { return ucp_worker_progress(worker_) != 0; }
  /// False: there is more to progress before one may wait on `event_fd`.
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }

  /// Calls `handler(argument, ...)` for whole active messages of `id`.
  result<void> handle_active_message(unsigned id, ucp_am_recv_callback_t handler, void* argument);
  /// The worker's address, for a peer's endpoint.
  result<std::vector<std::byte>> address() const;

 private:
  ucx_worker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::size_t max_header_bytes_ = 0;
};

/// The transports and devices that carry an endpoint's messages and rows, as UCX itself reports them, e.g.
/// "tcp/lo" or "posix/memory". Empty while the endpoint is not yet connected.
std::string lanes_of(ucp_ep_h endpoint);

}  // namespace baton::transports::detail
