#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "apps/host/interrupt.hpp"
#include "schemas/errors.hpp"

/// A small blocking HTTP client that reads streams of server-sent events as they come, with the time of each.
namespace baton::apps::demo {

using host::time_point;

struct sse_event {
  std::string id;
  std::string data;
  time_point at;  ///< when its last byte was read
};

/// Cuts a stream of bytes into events. Pure. Comments are dropped; lines end by LF or CRLF.
class sse_parser {
 public:
  void feed(std::string_view bytes, time_point at);
  /// The next event that is complete.
  std::optional<sse_event> next();

 private:
  void take_line(std::string_view line, time_point at);

  std::string partial_;
  sse_event open_;
  bool has_data_ = false;
  std::deque<sse_event> ready_;
};

struct http_answer {
  unsigned status = 0;
  std::string body;
};

/// One response that is still coming in. Ends with the connection (it speaks HTTP/1.0).
class http_stream {
 public:
  ~http_stream();
  http_stream(http_stream&& other) noexcept;
  http_stream& operator=(http_stream&&) = delete;
  http_stream(const http_stream&) = delete;
  http_stream& operator=(const http_stream&) = delete;

  [[nodiscard]] unsigned status() const noexcept { return status_; }
  /// The next event; nothing at the end of the response. `timed_out`, `cancelled`, `connection_lost`.
  result<std::optional<sse_event>> next(time_point deadline);
  /// All of the body that is left.
  result<std::string> rest(time_point deadline);

 private:
  friend class http_client;
  http_stream(int socket, host::interrupt& signals) : socket_(socket), signals_(&signals) {}

  result<void> connect(const std::string& address, time_point deadline);
  result<void> send(std::string_view bytes, time_point deadline);
  result<void> read_head(time_point deadline);
  /// False at the end.
  result<bool> read_some(std::string& into, time_point deadline);

  int socket_;
  host::interrupt* signals_;
  unsigned status_ = 0;
  std::string early_;  // body bytes that came with the head
  sse_parser parser_;
};

class http_client {
 public:
  /// `address`: "IPv4:port". `network_namespace`: the one to connect from; -1 is ours.
  http_client(std::string address, int network_namespace, host::interrupt& signals)
      : address_(std::move(address)), network_namespace_(network_namespace), signals_(&signals) {}

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  result<http_answer> get(const std::string& path, std::chrono::milliseconds timeout) const;
  /// Returns once the head of the response is there.
  result<http_stream> post(const std::string& path, std::string_view json, time_point deadline) const;

 private:
  [[nodiscard]] result<http_stream> request(const std::string& head, std::string_view body,
                                            time_point deadline) const;

  std::string address_;
  int network_namespace_;
  host::interrupt* signals_;
};

}  // namespace baton::apps::demo
