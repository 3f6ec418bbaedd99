#include "apps/http/server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/http/connection.hpp"
#include "apps/http/counters.hpp"
#include "apps/http/turn_response.hpp"
#include "schemas/log.hpp"

namespace baton::apps::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

/// Time that `stop` gives to open connections to say their last word.
constexpr milliseconds farewell{1000};
/// Pause after a failed accept, which is mostly for want of descriptors: the next one would fail at once as
/// well.
constexpr milliseconds accept_pause{50};

struct address {
  std::string host;
  std::string port;
};

result<address> split(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return error{errc::invalid_argument, "listen address '" + listen + "' is not host:port"};
  address parts{listen.substr(0, colon), listen.substr(colon + 1)};
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']')
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool digits = !parts.port.empty() && parts.port.size() <= 5 &&
                      parts.port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoul(parts.port) > 65535)
    return error{errc::invalid_argument, "listen address '" + listen + "' has no port from 0 to 65535"};
  return parts;
}

error io_error(const std::string& what, const error_code& failure) {
  return {errc::io_failed, what + ": " + failure.message()};
}

}  // namespace

struct server::state {
  state(actors::completion_service& service, server_options how)
      : options(std::move(how)),
        around{service, options, counts},
        context(static_cast<int>(options.threads)),
        acceptor(asio::make_strand(context)),
        pause(acceptor.get_executor()) {}

  result<void> listen();
  asio::awaitable<void> accept_all();
  void admit(tcp::socket socket);
  void remove(const connection* which, const std::exception_ptr& failure);
  void stop();

  server_options options;
  counters counts;
  surroundings around;
  std::uint16_t port = 0;

  std::mutex stop_mutex;  ///< held through `stop`, so that a second caller returns when it is done
  bool stopped = false;

  std::mutex mutex;  ///< guards what follows, up to the blank line
  std::condition_variable emptied;
  std::unordered_map<const connection*, std::weak_ptr<connection>> connections;
  bool stopping = false;

  // Last, so that what is left in it is destroyed while the rest still stands.
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::vector<std::thread> threads;
};

result<void> server::state::listen() {
  auto parts = split(options.listen);
  if (!parts) return parts.failure();
  error_code failure;
  const auto found =
      tcp::resolver(context).resolve(parts->host, parts->port, tcp::resolver::passive, failure);
  if (failure)
    return error{errc::invalid_argument, "listen address '" + options.listen + "': " + failure.message()};
  const tcp::endpoint endpoint = found.begin()->endpoint();
  if (acceptor.open(endpoint.protocol(), failure)) return io_error("open a listening socket", failure);
  acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (acceptor.bind(endpoint, failure)) return io_error("bind to " + options.listen, failure);
  if (acceptor.listen(asio::socket_base::max_listen_connections, failure))
    return io_error("listen on " + options.listen, failure);
  port = acceptor.local_endpoint(failure).port();
  return {};
}

asio::awaitable<void> server::state::accept_all() {
  while (acceptor.is_open()) {
    auto [failure, socket] =
        co_await acceptor.async_accept(asio::make_strand(context), asio::as_tuple(asio::use_awaitable));
    if (!failure) {
      admit(std::move(socket));
      continue;
    }
    if (!acceptor.is_open()) break;
    pause.expires_after(accept_pause);
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void server::state::admit(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  // A client whose machine is gone acknowledges nothing and sends nothing: give up on it as on one that
  // stalls.
  const auto patience_ms = static_cast<unsigned>(options.write_timeout.count());
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
  const std::lock_guard lock(mutex);
  if (stopping) return;
  if (connections.size() >= options.connections) {
    counts.answered(503);
    const api_error failure{503, "Too many connections.", "server_error", {}, "no_room"};
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(error_response(failure, {true, false})), ignored);
    return;
  }
  auto one = std::make_shared<connection>(std::move(socket), around);
  connections.emplace(one.get(), one);
  asio::co_spawn(one->executor(), one->run(),
                 [this, one](const std::exception_ptr& failure) { remove(one.get(), failure); });
}

void server::state::remove(const connection* which, const std::exception_ptr& failure) {
  if (failure) log_of("http")->error("connection failed unexpectedly");
  const std::lock_guard lock(mutex);
  connections.erase(which);
  if (connections.empty()) emptied.notify_all();
}

void server::state::stop() {
  const std::lock_guard once(stop_mutex);
  if (std::exchange(stopped, true)) return;
  asio::post(acceptor.get_executor(), [this] {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
  });
  std::unique_lock lock(mutex);
  stopping = true;
  std::vector<std::shared_ptr<connection>> open;
  for (const auto& [key, weak] : connections)
    if (auto one = weak.lock()) open.push_back(std::move(one));
  lock.unlock();
  for (const auto& one : open)
    one->stop();

  lock.lock();
  emptied.wait_for(lock, farewell, [this] { return connections.empty(); });
  lock.unlock();
  context.stop();
  for (std::thread& one : threads)
    one.join();
  // Those that could not say goodbye in time. From here on no event of the service reaches us.
  for (const auto& one : open)
    one->abandon();
  log_of("http")->info("stopped serving port={}", port);
}

server::server(std::unique_ptr<state> inner) : state_(std::move(inner)) {}

server::~server() {
  stop();
}

result<std::unique_ptr<server>> server::start(actors::completion_service& service, server_options options) {
  if (options.threads == 0) return error{errc::invalid_argument, "an HTTP server needs at least one thread"};
  auto inner = std::make_unique<state>(service, std::move(options));
  if (auto listening = inner->listen(); !listening) return listening.failure();
  asio::co_spawn(inner->acceptor.get_executor(), inner->accept_all(), asio::detached);
  for (unsigned i = 0; i < inner->options.threads; ++i)
    inner->threads.emplace_back([context = &inner->context] { context->run(); });
  log_of("http")->info("serving listen={} port={}", inner->options.listen, inner->port);
  return std::unique_ptr<server>(new server(std::move(inner)));
}

std::uint16_t server::port() const noexcept {
  return state_->port;
}

void server::stop() {
  state_->stop();
}

}  // namespace baton::apps::http
