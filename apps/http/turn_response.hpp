#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "actors/completion_service.hpp"
#include "apps/http/openai.hpp"

/// HTTP/1.1 responses as bytes. Pure: no socket, no thread, no clock.
namespace baton::apps::http {

/// What the request said about its connection.
struct wire {
  bool chunked =
      true;  ///< HTTP/1.1: bodies of unknown length go out in chunks; else they end with the connection
  bool keep_alive = true;  ///< the connection goes on after the response
};

/// A whole response. `extra_headers` are lines that end in CRLF.
[[nodiscard]] std::string whole_response(unsigned status, std::string_view content_type,
                                         std::string_view body, const wire& how,
                                         std::string_view extra_headers = {});

/// The response that tells a failure; 429 and 503 say when to come again.
[[nodiscard]] std::string error_response(const api_error& failure, const wire& how,
                                         std::string_view extra_headers = {});

/// Turns the events of one turn into the bytes of its response, a stream or a whole body.
///
///   event           stream, before headers     stream, after headers       whole body
///   turn_started    headers, role chunk        role chunk                  -
///   turn_text       headers, chunk             chunk                       collected
///   turn_finished   headers, the ending        finish (usage) [DONE]       200 with the body
///   turn_failed     HTTP error                 one error event, close      HTTP error
///   silence         headers, comment           comment                     -
///
/// One role chunk comes first, whatever the service does: a second `turn_started` is ignored, a missing one
/// made up. Events after the last one are ignored.
class turn_response {
 public:
  turn_response(const response_plan& plan, const wire& how);

  void on_event(const actors::turn_event& event);
  /// No byte has gone out for `limits::keep_alive`.
  void on_silence();

  /// The bytes since the last call.
  [[nodiscard]] std::string take();
  [[nodiscard]] std::size_t pending_bytes() const noexcept { return pending_.size(); }

  /// True once the response is complete.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] bool streaming() const noexcept { return plan_.stream; }
  /// Whether the connection can serve another request afterwards.
  [[nodiscard]] bool keep_alive() const noexcept { return how_.keep_alive; }
  /// The HTTP status, 0 while it is open.
  [[nodiscard]] unsigned status() const noexcept { return status_; }

 private:
  void on(const actors::turn_started& event);
  void on(const actors::turn_text& event);
  void on(const actors::turn_finished& event);
  void on(const actors::turn_failed& event);

  void send_head();
  void send_data(std::string_view json);
  void send_piece(std::string_view bytes);
  void end_stream();

  response_plan plan_;
  wire how_;
  chunk_writer chunks_;
  body_writer body_;
  std::string pending_;
  position last_ = 0;
  unsigned status_ = 0;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace baton::apps::http
