#include "apps/demo/sse_client.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "apps/host/network.hpp"

namespace baton::apps::demo {
namespace {

constexpr std::size_t most_head_bytes = 64U << 10;
constexpr std::size_t most_body_bytes = 64U << 20;

error lost(const std::string& what) {
  return {errc::connection_lost, what + ": " + std::strerror(errno)};
}

}  // namespace

// --- server-sent events
// -------------------------------------------------------------------------------------

void sse_parser::feed(std::string_view bytes, time_point at) {
  partial_.append(bytes);
  std::size_t begin = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', begin)) {
    std::string_view line(partial_.data() + begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    take_line(line, at);
    begin = end + 1;
  }
  partial_.erase(0, begin);
}

void sse_parser::take_line(std::string_view line, time_point at) {
  if (line.empty()) {
    if (has_data_) {
      open_.at = at;
      ready_.push_back(open_);
    }
    open_.data.clear();
    has_data_ = false;
    return;
  }
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "id") open_.id = value;
  if (name != "data") return;
  if (has_data_) open_.data += '\n';
  open_.data += value;
  has_data_ = true;
}

std::optional<sse_event> sse_parser::next() {
  if (ready_.empty()) return std::nullopt;
  auto event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

// --- a response
// ---------------------------------------------------------------------------------------------

http_stream::http_stream(http_stream&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      signals_(other.signals_),
      status_(other.status_),
      early_(std::move(other.early_)),
      parser_(std::move(other.parser_)) {}

http_stream::~http_stream() {
  if (socket_ >= 0) ::close(socket_);
}

result<void> http_stream::connect(const std::string& address, time_point deadline) {
  const auto colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::uint16_t port = 0;
  const char* end = address.data() + address.size();
  if (colon == std::string::npos || std::from_chars(address.data() + colon + 1, end, port).ptr != end ||
      ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1)
    return {errc::invalid_argument, "not an IPv4 address and port: " + address};
  to.sin_port = htons(port);
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  const int at_once = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return {};
  if (errno != EINPROGRESS) return lost("connecting to " + address);
  pollfd one{socket_, POLLOUT, 0};
  if (auto waited = signals_->wait({&one, 1}, deadline); !waited) return waited;
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failure, &size);
  errno = failure;
  if (failure != 0) return lost("connecting to " + address);
  return {};
}

result<void> http_stream::send(std::string_view bytes, time_point deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return lost("sending a request");
    pollfd one{socket_, POLLOUT, 0};
    if (auto waited = signals_->wait({&one, 1}, deadline); !waited) return waited;
  }
  return {};
}

result<bool> http_stream::read_some(std::string& into, time_point deadline) {
  std::array<char, 16384> buffer{};
  for (;;) {
    if (auto waited = signals_->wait_readable(socket_, deadline); !waited) return waited.failure();
    const auto count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return lost("reading a response");
    into.append(buffer.data(), static_cast<std::size_t>(count));
    return count > 0;
  }
}

result<void> http_stream::read_head(time_point deadline) {
  std::string head;
  auto end = std::string::npos;
  while ((end = head.find("\r\n\r\n")) == std::string::npos) {
    if (head.size() > most_head_bytes) return {errc::malformed, "the head of a response has no end"};
    const auto more = read_some(head, deadline);
    if (!more) return more.failure();
    if (!*more) return {errc::connection_lost, "the server closed the connection instead of answering"};
  }
  const auto space = head.find(' ');
  if (head.rfind("HTTP/1.", 0) != 0 || space == std::string::npos)
    return {errc::malformed, "not an HTTP response"};
  std::from_chars(head.data() + space + 1, head.data() + head.size(), status_);
  early_ = head.substr(end + 4);
  return {};
}

result<std::optional<sse_event>> http_stream::next(time_point deadline) {
  for (;;) {
    if (!early_.empty()) parser_.feed(std::exchange(early_, {}), host::clock::now());
    if (auto event = parser_.next()) return event;
    const auto more = read_some(early_, deadline);
    if (!more) return more.failure();
    if (!*more) return std::optional<sse_event>{};
  }
}

result<std::string> http_stream::rest(time_point deadline) {
  std::string body = std::exchange(early_, {});
  for (;;) {
    const auto more = read_some(body, deadline);
    if (!more) return more.failure();
    if (!*more) return body;
    if (body.size() > most_body_bytes) return {errc::malformed, "a response has no end"};
  }
}

// --- requests
// -----------------------------------------------------------------------------------------------

result<http_stream> http_client::request(const std::string& head, std::string_view body,
                                         time_point deadline) const {
  const int socket = host::socket_in(network_namespace_, SOCK_STREAM);
  if (socket < 0) return lost("a socket");
  http_stream stream(socket, *signals_);
  if (auto done = stream.connect(address_, deadline); !done) return done.failure();
  const std::string whole = head + "Host: " + address_ + "\r\nConnection: close\r\n\r\n" + std::string(body);
  if (auto done = stream.send(whole, deadline); !done) return done.failure();
  if (auto done = stream.read_head(deadline); !done) return done.failure();
  return stream;
}

result<http_answer> http_client::get(const std::string& path, std::chrono::milliseconds timeout) const {
  const auto deadline = host::clock::now() + timeout;
  auto stream = request("GET " + path + " HTTP/1.0\r\n", {}, deadline);
  if (!stream) return stream.failure();
  auto body = stream->rest(deadline);
  if (!body) return body.failure();
  return http_answer{stream->status(), std::move(*body)};
}

result<http_stream> http_client::post(const std::string& path, std::string_view json,
                                      time_point deadline) const {
  return request("POST " + path + " HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(json.size()) + "\r\n",
                 json, deadline);
}

}  // namespace baton::apps::demo
