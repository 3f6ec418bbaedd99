#include "apps/http/turn_response.hpp"

#include <array>
#include <cstdio>
#include <utility>

namespace baton::apps::http {
namespace {

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

std::string status_line(unsigned status) {
  return "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) + "\r\n";
}

/// HTTP/1.1 keeps connections by default, HTTP/1.0 closes them: say it when it differs.
std::string_view connection_line(const wire& how) {
  if (!how.keep_alive) return "Connection: close\r\n";
  return how.chunked ? "" : "Connection: keep-alive\r\n";
}

}  // namespace

std::string whole_response(unsigned status, std::string_view content_type, std::string_view body,
                           const wire& how, std::string_view extra_headers) {
  std::string text = status_line(status);
  text += "Content-Type: ";
  text += content_type;
  text += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  text += connection_line(how);
  text += extra_headers;
  text += "\r\n";
  text += body;
  return text;
}

std::string error_response(const api_error& failure, const wire& how, std::string_view extra_headers) {
  std::string headers(extra_headers);
  if (failure.status == 429 || failure.status == 503) headers += "Retry-After: 1\r\n";
  return whole_response(failure.status, "application/json", error_body(failure), how, headers);
}

turn_response::turn_response(const response_plan& plan, const wire& how)
    : plan_(plan), how_(how), chunks_(plan), body_(plan) {
  if (plan_.stream && !how_.chunked) how_.keep_alive = false;  // only the close can end the body
}

void turn_response::on_event(const actors::turn_event& event) {
  if (ended_) return;
  std::visit([this](const auto& one) { on(one); }, event);
}

void turn_response::on_silence() {
  if (ended_ || !plan_.stream) return;
  send_head();
  // No blank line after it: with an id remembered, clients would take that for an event without data.
  send_piece(": keep-alive\n");
}

std::string turn_response::take() {
  return std::exchange(pending_, {});
}

void turn_response::on(const actors::turn_started& event) {
  if (std::exchange(started_, true)) return;
  if (event.prompt_tokens > 0) last_ = event.prompt_tokens - 1;
  if (!plan_.stream) return body_.add(event);
  send_head();
  send_data(chunks_.started(event));
}

void turn_response::on(const actors::turn_text& event) {
  if (!started_) on(actors::turn_started{});
  last_ = event.last;
  if (!plan_.stream) return body_.add(event);
  send_head();
  send_data(chunks_.text(event));
}

void turn_response::on(const actors::turn_finished& event) {
  if (!started_) on(actors::turn_started{});
  ended_ = true;
  if (!plan_.stream) {
    status_ = 200;
    pending_ += whole_response(200, "application/json", body_.finish(event), how_);
    return;
  }
  send_head();
  send_data(chunks_.finished(event));
  send_data(chunks_.usage(event));
  send_data("[DONE]");
  end_stream();
}

void turn_response::on(const actors::turn_failed& event) {
  ended_ = true;
  const api_error failure = describe(event.reason);
  if (status_ == 0) {
    status_ = failure.status;
    pending_ += error_response(failure, how_);
    return;
  }
  // The status has gone out as 200: say it in band, and say nothing that looks like a proper end.
  how_.keep_alive = false;
  send_data(error_body(failure));
  end_stream();
}

void turn_response::send_head() {
  if (status_ != 0) return;
  status_ = 200;
  pending_ += status_line(200);
  pending_ += "Content-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  pending_ += connection_line(how_);
  if (how_.chunked) pending_ += "Transfer-Encoding: chunked\r\n";
  pending_ += "\r\n";
}

void turn_response::send_data(std::string_view json) {
  if (json.empty()) return;
  std::string event = "id: " + std::to_string(last_) + "\ndata: ";
  event += json;
  event += "\n\n";
  send_piece(event);
}

void turn_response::send_piece(std::string_view bytes) {
  if (!how_.chunked) {
    pending_ += bytes;
    return;
  }
  std::array<char, 24> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  pending_ += size.data();
  pending_ += bytes;
  pending_ += "\r\n";
}

void turn_response::end_stream() {
  if (how_.chunked) pending_ += "0\r\n\r\n";
}

}  // namespace baton::apps::http
