#include "apps/http/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <cstdio>
#include <random>
#include <utility>
#include <variant>

namespace baton::apps::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using std::chrono::steady_clock;

// In the coroutines below every argument of an awaited call is a named variable: GCC 12 destroys temporaries
// of such expressions twice, or not at all.

/// Completion as values: `auto [failure, ...] = co_await ...`.
constexpr auto as_values = asio::as_tuple(asio::use_awaitable);

constexpr std::string_view json_type = "application/json";
constexpr std::string_view metrics_type = "text/plain; version=0.0.4; charset=utf-8";

/// After a refusal the rest of the request is read and dropped for this long, so that the answer is not lost
/// to a reset.
constexpr std::chrono::milliseconds linger_time{1000};

/// What one read asks for; headers are mostly shorter, and ten thousand idle connections keep the buffer.
constexpr std::size_t header_read_bytes = 4096;
constexpr std::size_t body_read_bytes = 65536;

constexpr std::string_view end_of_head = "\r\n\r\n";
constexpr std::string_view one_model = "/v1/models/";

struct route {
  std::string_view method;
  std::string_view path;  ///< with a slash at the end: of all below it

  [[nodiscard]] bool leads_to(std::string_view asked) const {
    return path.ends_with('/') ? asked.starts_with(path) : asked == path;
  }
};

constexpr std::array routes{route{"POST", "/v1/chat/completions"},
                            route{"POST", "/v1/completions"},
                            route{"GET", "/v1/models"},
                            route{"GET", one_model},
                            route{"GET", "/health"},
                            route{"GET", "/metrics"},
                            route{"GET", "/baton/status"}};

std::string_view text_of(beast::string_view text) {
  return {text.data(), text.size()};
}

/// RFC 3986, 2.1; a percent sign that begins no octet stands for itself.
std::string percent_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    unsigned octet = 0;
    const bool coded = text.front() == '%' && text.size() >= 3 &&
                       std::from_chars(text.data() + 1, text.data() + 3, octet, 16).ptr == text.data() + 3;
    out += coded ? static_cast<char>(octet) : text.front();
    text.remove_prefix(coded ? 3 : 1);
  }
  return out;
}

std::int64_t unix_seconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

request_stamp new_stamp() {
  thread_local std::random_device entropy;
  const auto word = [] { return std::uint64_t{entropy()} << 32U | entropy(); };
  std::array<char, 33> id{};
  std::snprintf(id.data(), id.size(), "%016llx%08x", static_cast<unsigned long long>(word()), entropy());
  return {id.data(), unix_seconds(), word() >> 11U};
}

api_error invalid(unsigned status, std::string message, std::string code = {}) {
  return {status, std::move(message), "invalid_request_error", {}, std::move(code)};
}

/// What to tell a client whose request could not be read; nothing if it is gone.
std::optional<api_error> refusal_of(const error_code& failure) {
  using beast::http::error;
  if (failure == error::header_limit || failure == error::buffer_overflow)
    return invalid(431, "The request headers are too large.");
  if (failure == error::body_limit) return invalid(413, "The request body is too large.");
  if (failure.category() == beast::http::make_error_code(error::bad_method).category())
    return invalid(400, "The request is not well-formed HTTP.");
  return std::nullopt;
}

}  // namespace

connection::connection(asio::ip::tcp::socket socket, const surroundings& around)
    : socket_(std::move(socket)),
      around_(around),
      deadline_(socket_.get_executor()),
      signal_(socket_.get_executor(), steady_clock::time_point::max()) {
  around_.counts.opened();
}

connection::~connection() {
  abandon();
  around_.counts.closed();
}

asio::awaitable<void> connection::run() {
  bool more = true;
  while (more && !stopping_ && !lost_) {
    std::optional<request> next = co_await read_request();
    if (!next || stopping_) break;
    phase_ = phase::answering;
    more = co_await answer(std::move(*next));
    phase_ = phase::reading;
  }
  disarm();
  close();
}

void connection::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->on_stop(); });
}

void connection::abandon() {
  if (!inbox_) return;
  inbox_->close();
  inbox_.reset();
  if (!settled_) around_.service.cancel(turn_);
  settled_ = true;
}

// --- reading ----------------------------------------------------------------------------------------------

asio::awaitable<std::optional<connection::request>> connection::read_request() {
  request_parser parser;
  parser.header_limit(static_cast<std::uint32_t>(around_.options.header_bytes));
  parser.body_limit(around_.options.body_bytes);
  if (buffer_.size() == 0) {
    buffer_.shrink_to_fit();
    arm(around_.options.idle_timeout);
    auto [failure] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, as_values);
    if (failure) co_return std::nullopt;
  }
  arm(around_.options.request_timeout);
  error_code failure = co_await read_message(parser, true);
  if (!failure && parser.get().count(beast::http::field::expect) > 0) {
    if (!beast::iequals(parser.get()[beast::http::field::expect], "100-continue")) {
      api_error refusal = invalid(417, "The expectation is not supported.");
      co_await refuse(std::move(refusal));
      co_return std::nullopt;
    }
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool written = co_await write(std::move(go_on));
    if (!written) co_return std::nullopt;
    arm(around_.options.request_timeout);
  }
  if (!failure) failure = co_await read_message(parser, false);
  disarm();
  if (failure) {
    std::optional<api_error> refusal = refusal_of(failure);
    if (refusal) co_await refuse(std::move(*refusal));
    co_return std::nullopt;
  }
  auto message = parser.release();
  request read;
  read.method = text_of(message.method_string());
  const std::string_view target = text_of(message.target());
  read.path = target.substr(0, target.find('?'));
  read.session = text_of(message["X-Session-Id"]);
  read.idempotency_key = text_of(message["Idempotency-Key"]);
  const std::string_view encoding = text_of(message[beast::http::field::content_encoding]);
  read.encoded = !encoding.empty() && encoding != "identity";
  read.how = {message.version() >= 11, message.keep_alive()};
  read.body = std::move(message.body());
  co_return read;
}

/// Reads up to the end of the header, or of the message. Beast's own limit looks at what it has not consumed
/// yet: pieces that each end just past a field are never too long for it, and trailers have no limit. Here
/// all that is not body is counted.
asio::awaitable<error_code> connection::read_message(request_parser& parser, bool header_only) {
  parser.eager(!header_only);
  std::size_t parsed_bytes = 0;
  while (header_only ? !parser.is_header_done() : !parser.is_done()) {
    error_code failure = beast::http::error::need_more;
    if (buffer_.size() > 0) {
      const std::size_t used = parser.put(buffer_.data(), failure);
      buffer_.consume(used);
      parsed_bytes += used;
    }
    // A chunk of one byte has six around it.
    const std::size_t body_bytes = header_only ? 0 : 8 * parser.get().body().size();
    if (parsed_bytes > around_.options.header_bytes + body_bytes) co_return beast::http::error::header_limit;
    if (!failure) continue;
    if (failure != beast::http::error::need_more) co_return failure;
    if (buffer_.size() > around_.options.header_bytes) co_return beast::http::error::header_limit;
    auto space = buffer_.prepare(header_only ? header_read_bytes : body_read_bytes);
    auto [broken, bytes] = co_await socket_.async_read_some(space, as_values);
    if (broken) co_return broken;
    buffer_.commit(bytes);
  }
  co_return error_code{};
}

/// Answers a request that has not been read to its end, and closes.
asio::awaitable<void> connection::refuse(api_error failure) {
  phase_ = phase::answering;
  around_.counts.answered(failure.status);
  const wire last{true, false};
  std::string bytes = error_response(failure, last);
  const bool written = co_await write(std::move(bytes));
  if (written) co_await linger();
  lost_ = true;
}

asio::awaitable<void> connection::linger() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<char, 4096> dropped{};
  arm(linger_time);
  for (;;) {
    auto [failure, bytes] = co_await socket_.async_read_some(asio::buffer(dropped), as_values);
    if (failure) break;
  }
  disarm();
}

// --- answering --------------------------------------------------------------------------------------------

/// Returns whether the connection goes on.
asio::awaitable<bool> connection::answer(request what) {
  std::string allowed;
  bool found = false;
  const bool head = what.method == "HEAD";  // as GET, without the body
  for (const route& one : routes) {
    if (!one.leads_to(what.path)) continue;
    found = found || one.method == (head ? "GET" : what.method);
    allowed = "Allow: " + std::string(one.method) + "\r\n";
  }
  if (found && what.method == "POST") {
    const endpoint kind = what.path == routes[0].path ? endpoint::chat : endpoint::text;
    co_return co_await complete(kind, std::move(what));
  }
  std::string bytes;
  if (found) {
    bytes = plain_answer(what.path, what.how);
  } else {
    const api_error failure = allowed.empty() ? invalid(404, "There is nothing at this path.", "unknown_url")
                                              : invalid(405, "This path does not take that method.");
    around_.counts.answered(failure.status);
    bytes = error_response(failure, what.how, allowed);
  }
  if (head) bytes.resize(bytes.find(end_of_head) + end_of_head.size());
  const bool written = co_await write(std::move(bytes));
  co_return written&& what.how.keep_alive;
}

/// The routes that need no turn.
std::string connection::plain_answer(std::string_view path, const wire& how) const {
  if (path.starts_with(one_model)) return model_answer(path.substr(one_model.size()), how);
  const bool ready = path != "/health" || around_.service.ready();
  around_.counts.answered(ready ? 200 : 503);
  if (path == "/health")
    return ready ? whole_response(200, json_type, R"({"status":"ok"})", how)
                 : whole_response(503, json_type, R"({"status":"unavailable"})", how, "Retry-After: 1\r\n");
  if (path == "/v1/models")
    return whole_response(200, json_type, models_body(around_.service.text().model_name(), unix_seconds()),
                          how);
  if (path == "/metrics")
    return whole_response(200, metrics_type, around_.service.metrics_text() + around_.counts.text(), how);
  return whole_response(200, json_type, around_.service.status_json(), how);
}

/// `name` as it stands in a URL.
std::string connection::model_answer(std::string_view name, const wire& how) const {
  const std::string& model = around_.service.text().model_name();
  const bool known = percent_decoded(name) == model;
  around_.counts.answered(known ? 200 : 404);
  return known ? whole_response(200, json_type, model_body(model, unix_seconds()), how)
               : error_response(
                     invalid(404, "There is no such model; there is \"" + model + "\".", "model_not_found"),
                     how);
}

asio::awaitable<bool> connection::complete(endpoint kind, request what) {
  std::variant<parsed_request, api_error> outcome;
  if (what.encoded) {
    outcome = invalid(415, "Compressed request bodies are not supported.");
  } else {
    const auto& tokenizer = around_.service.text();
    outcome = parse_request(what.body, {kind, what.session, what.idempotency_key, tokenizer.model_name(),
                                        tokenizer.vocabulary_size(), new_stamp()});
  }
  what.body = {};  // the prompt has a second home now; streams are long
  if (auto* failure = std::get_if<api_error>(&outcome)) {
    around_.counts.answered(failure->status);
    std::string bytes = error_response(*failure, what.how);
    const bool written = co_await write(std::move(bytes));
    co_return written&& what.how.keep_alive;
  }
  parsed_request parsed = std::get<parsed_request>(std::move(outcome));
  co_return co_await serve_turn(std::move(parsed), what.how);
}

// --- turns ------------------------------------------------------------------------------------------------

asio::awaitable<bool> connection::serve_turn(parsed_request parsed, wire how) {
  phase_ = phase::in_turn;
  open_turn(std::move(parsed), how);
  watch_peer();
  co_await pump();
  phase_ = phase::answering;
  abandon();
  if (response_->status() != 0) around_.counts.answered(response_->status());
  const bool more = !lost_ && response_->keep_alive();
  response_.reset();
  co_return more;
}

void connection::open_turn(parsed_request parsed, const wire& how) {
  response_.emplace(parsed.plan, how);
  inbox_ = std::make_shared<turn_inbox>(around_.options.client_buffer_bytes,
                                        [weak = weak_from_this(), strand = socket_.get_executor()] {
                                          asio::post(strand, [weak] {
                                            if (const auto self = weak.lock()) self->drain();
                                          });
                                        });
  settled_ = false;
  turn_ = around_.service.submit(std::move(parsed.request),
                                 [inbox = inbox_](const actors::turn_event& event) { inbox->push(event); });
}

/// Writes what the turn brings until its response is complete or the client is lost.
asio::awaitable<void> connection::pump() {
  auto silent_at = steady_clock::now() + around_.options.keep_alive;
  while (!lost_) {
    if (response_->pending_bytes() > 0) {
      std::string bytes = response_->take();
      co_await write(std::move(bytes));
      silent_at = steady_clock::now() + around_.options.keep_alive;
      continue;
    }
    if (response_->ended()) break;
    signal_.expires_at(silent_at);
    auto [interrupted] = co_await signal_.async_wait(as_values);
    if (interrupted || lost_) continue;
    // Time is up. What the watch may have missed behind a pipelined request is seen here.
    if (peer_closed()) {
      give_up(abandoned::client_left);
    } else if (response_->pending_bytes() == 0) {
      response_->on_silence();
    }
    silent_at = steady_clock::now() + around_.options.keep_alive;
  }
}

/// Takes over what the service has said. Never waits, also while a write is under way: that is where a slow
/// reader is found out.
void connection::drain() {
  if (!inbox_) return;
  for (const actors::turn_event& event : inbox_->take()) {
    settled_ = settled_ || std::holds_alternative<actors::turn_finished>(event) ||
               std::holds_alternative<actors::turn_failed>(event);
    response_->on_event(event);
  }
  const std::size_t waiting_bytes = response_->streaming() ? writing_bytes_ + response_->pending_bytes() : 0;
  if (inbox_->overflowed() || waiting_bytes > around_.options.client_buffer_bytes)
    give_up(abandoned::slow_reader);
  signal_.cancel();
}

void connection::on_stop() {
  stopping_ = true;
  if (phase_ == phase::reading) return close();
  if (phase_ != phase::in_turn || response_->ended()) return;
  around_.counts.gave_up(abandoned::stopping);
  response_->on_event(actors::turn_failed{{errc::unavailable, "the server is stopping"}});
  signal_.cancel();
}

// --- the socket -------------------------------------------------------------------------------------------

asio::awaitable<bool> connection::write(std::string bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    writing_bytes_ = bytes.size() - done;
    arm(around_.options.write_timeout);
    auto [failure, count] =
        co_await socket_.async_write_some(asio::buffer(bytes.data() + done, bytes.size() - done), as_values);
    disarm();
    if (failure) {
      give_up(failure == asio::error::timed_out ? abandoned::stalled : abandoned::client_left);
      break;
    }
    done += count;
  }
  writing_bytes_ = 0;
  co_return done == bytes.size();
}

/// Learns that the client has closed while nothing is being sent. Readiness only, no bytes: the next request
/// stays where it is. One wait may outlive its turn; it then serves the next one.
void connection::watch_peer() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const error_code& failure) {
                       self->watching_ = false;
                       if (self->phase_ != phase::in_turn) return;
                       if (failure || self->peer_closed()) self->give_up(abandoned::client_left);
                     });
}

/// A half-closed client counts as gone: none of ours half-closes, and those that die look the same.
bool connection::peer_closed() {
  if (!socket_.is_open()) return true;
  pollfd state{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void connection::give_up(abandoned why) {
  if (lost_) return;
  lost_ = true;
  if (phase_ == phase::in_turn && !response_->ended()) around_.counts.gave_up(why);
  error_code ignored;
  // What the kernel still holds for a client that does not read is worth nothing.
  if (why != abandoned::client_left) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
  signal_.cancel();
}

void connection::close() {
  error_code ignored;
  socket_.close(ignored);
}

void connection::arm(std::chrono::milliseconds after) {
  deadline_.expires_after(after);
  deadline_.async_wait([self = shared_from_this()](const error_code& failure) {
    // A handler that was already queued when the deadline moved finds it in the future.
    if (!failure && self->deadline_.expiry() <= steady_clock::now()) self->give_up(abandoned::stalled);
  });
}

void connection::disarm() {
  deadline_.expires_at(steady_clock::time_point::max());
}

}  // namespace baton::apps::http
