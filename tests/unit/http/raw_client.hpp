#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/http/fake_service.hpp"

namespace baton::apps::http {

/// A blocking HTTP/1.1 client that hides nothing: one socket, the bytes as they come. Every read has a
/// deadline.
class raw_client {
 public:
  struct head {
    int status = 0;
    std::map<std::string, std::string> fields;  ///< names in lower case
    std::string bytes;                          ///< as received
  };
  struct response {
    head top;
    std::string body;
  };

  /// `receive_buffer` bounds what the kernel takes while the client does not read; 0: its default.
  explicit raw_client(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (socket_ < 0) throw std::runtime_error("no socket");
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval wait{std::chrono::seconds(patience).count(), 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error("not connected");
  }

  ~raw_client() { close(); }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  /// Closes with a reset instead of an orderly end.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

  void half_close() { ::shutdown(socket_, SHUT_WR); }

  /// False if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  static std::string post_bytes(const std::string& path, const std::string& body,
                                const std::string& headers = {}) {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string get_bytes(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }

  void post(const std::string& path, const std::string& body, const std::string& headers = {}) {
    send(post_bytes(path, body, headers));
  }
  void get(const std::string& path) { send(get_bytes(path)); }

  /// Reads up to and with `end`.
  std::string read_through(std::string_view end) {
    for (;;) {
      const std::size_t found = received_.find(end);
      if (found != std::string::npos) return cut(found + end.size());
      if (!receive()) throw std::runtime_error("closed before '" + std::string(end) + "': " + received_);
    }
  }

  std::string read_exactly(std::size_t bytes) {
    while (received_.size() < bytes)
      if (!receive()) throw std::runtime_error("closed early");
    return cut(bytes);
  }

  head read_head() {
    head top;
    top.bytes = read_through("\r\n\r\n");
    top.status = std::stoi(top.bytes.substr(9, 3));
    std::size_t at = top.bytes.find("\r\n") + 2;
    while (at + 2 < top.bytes.size()) {
      const std::size_t end = top.bytes.find("\r\n", at);
      const std::string line = top.bytes.substr(at, end - at);
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      top.fields[name] = line.substr(line.find(':') + 2);
      at = end + 2;
    }
    return top;
  }

  /// One HTTP chunk; empty: the last one.
  std::string read_chunk() {
    const std::size_t size = std::stoul(read_through("\r\n"), nullptr, 16);
    std::string chunk = read_exactly(size);
    if (read_exactly(2) != "\r\n") throw std::runtime_error("a chunk that does not end");
    return chunk;
  }

  /// One whole response, of known length or in chunks.
  response read_response() {
    response whole{read_head(), {}};
    if (whole.top.fields.count("content-length") > 0) {
      whole.body = read_exactly(std::stoul(whole.top.fields.at("content-length")));
      return whole;
    }
    for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk())
      whole.body += chunk;
    return whole;
  }

  /// Everything until the server closes, orderly or not.
  std::string read_to_end() {
    while (receive()) {
    }
    return cut(received_.size());
  }

 private:
  /// False at the end; throws when nothing comes for too long.
  bool receive() {
    char bytes[65536];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("nothing came");
    if (count <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  std::string cut(std::size_t bytes) {
    std::string front = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return front;
  }

  int socket_;
  std::string received_;
};

}  // namespace baton::apps::http
