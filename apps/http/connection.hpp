#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/completion_service.hpp"
#include "apps/http/counters.hpp"
#include "apps/http/openai.hpp"
#include "apps/http/server.hpp"
#include "apps/http/turn_inbox.hpp"
#include "apps/http/turn_response.hpp"

namespace baton::apps::http {

/// What all connections of a server share; outlives them.
struct surroundings {
  actors::completion_service& service;
  const server_options& options;
  counters& counts;
};

/// One client connection: reads a request, answers it, and so on. All of it runs on the socket's strand,
/// except where it says otherwise.
class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(boost::asio::ip::tcp::socket socket, const surroundings& around);
  ~connection();

  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Serves until either side is done. The caller keeps the object alive meanwhile.
  boost::asio::awaitable<void> run();

  /// Ends an open turn with an error, closes when that is written. Any thread.
  void stop();

  /// Cancels an open turn and lets no further event in. Only when no thread runs the strand any more.
  void abandon();

  [[nodiscard]] boost::asio::any_io_executor executor() { return socket_.get_executor(); }

 private:
  enum class phase : std::uint8_t { reading, answering, in_turn };

  struct request {
    std::string method;
    std::string path;
    std::string body;
    std::string session;
    std::string idempotency_key;
    bool encoded = false;  ///< the body is compressed
    wire how;
  };

  using request_parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  boost::asio::awaitable<std::optional<request>> read_request();
  boost::asio::awaitable<boost::system::error_code> read_message(request_parser& parser, bool header_only);
  boost::asio::awaitable<void> refuse(api_error failure);
  boost::asio::awaitable<bool> answer(request what);
  boost::asio::awaitable<bool> complete(endpoint kind, request what);
  boost::asio::awaitable<bool> serve_turn(parsed_request parsed, wire how);
  boost::asio::awaitable<void> pump();
  boost::asio::awaitable<bool> write(std::string bytes);
  boost::asio::awaitable<void> linger();

  [[nodiscard]] std::string plain_answer(std::string_view path, const wire& how) const;
  [[nodiscard]] std::string model_answer(std::string_view name, const wire& how) const;
  void open_turn(parsed_request parsed, const wire& how);
  void drain();
  void on_stop();
  void watch_peer();
  [[nodiscard]] bool peer_closed();
  void give_up(abandoned why);
  void close();
  void arm(std::chrono::milliseconds after);
  void disarm();

  boost::asio::ip::tcp::socket socket_;
  const surroundings& around_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer deadline_;  ///< closes the socket if what is under way takes too long
  boost::asio::steady_timer signal_;    ///< cancelled to say that something has changed; expires at silence

  phase phase_ = phase::reading;
  bool stopping_ = false;
  bool lost_ = false;      ///< the client cannot be reached any more
  bool watching_ = false;  ///< a wait for readability is under way

  // The open turn.
  std::shared_ptr<turn_inbox> inbox_;
  std::optional<turn_response> response_;
  actors::turn_handle turn_{};
  bool settled_ = true;            ///< the service has ended it
  std::size_t writing_bytes_ = 0;  ///< taken from the response, not yet taken by the kernel
};

}  // namespace baton::apps::http
