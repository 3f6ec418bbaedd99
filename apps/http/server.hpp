#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/completion_service.hpp"
#include "schemas/errors.hpp"
#include "schemas/limits.hpp"

namespace baton::apps::http {

/// How a server listens, and its bounds. Tests make the bounds small; production takes them as they are.
struct server_options {
  std::string listen = "127.0.0.1:8080";  ///< "host:port", "[v6]:port"; port 0 takes any free one
  unsigned threads = 1;                   ///< one serves ten thousand streams of a few events a second

  std::size_t body_bytes = limits::http_body_bytes;
  std::size_t header_bytes = limits::http_header_bytes;
  std::size_t client_buffer_bytes = limits::client_buffer_bytes;
  std::chrono::milliseconds keep_alive = limits::keep_alive;

  /// Clients at once. A process may often hold 20000 descriptors; the rest of it needs some as well.
  std::size_t connections = 16384;
  /// An idle connection is closed after this; longer than the 60 s that proxies commonly keep theirs.
  std::chrono::milliseconds idle_timeout{75'000};
  /// A request must have arrived this long after its first byte: 8 MiB over 3 Mbit/s.
  std::chrono::milliseconds request_timeout{30'000};
  /// A client that takes not a byte for this long is gone.
  std::chrono::milliseconds write_timeout{30'000};
};

/// The OpenAI-compatible HTTP server over a `completion_service`:
///
///   POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /v1/models/<name>, GET /health,
///   GET /metrics, GET /baton/status
///
/// It runs on threads of its own. Where a client leaves, stalls or is too slow, its turn is cancelled.
class server {
 public:
  /// Listens and serves. `service` must outlive the server; its events may arrive later than that.
  /// `invalid_argument`: the address does not parse; `io_failed`: it cannot be listened on.
  static result<std::unique_ptr<server>> start(actors::completion_service& service, server_options options);

  /// As `stop`.
  ~server();

  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// The port it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Takes no more connections, ends each open turn with an error that says so, cancels it, and returns
  /// within two seconds. May be called more than once, from any thread but one of the server's own: not from
  /// within the service.
  void stop();

 private:
  struct state;
  explicit server(std::unique_ptr<state> inner);

  std::unique_ptr<state> state_;
};

}  // namespace baton::apps::http
