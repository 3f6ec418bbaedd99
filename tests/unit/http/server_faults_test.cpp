#include <catch2/catch.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/http/server.hpp"
#include "tests/unit/http/fake_service.hpp"
#include "tests/unit/http/raw_client.hpp"

using namespace baton;
using namespace baton::apps::http;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

const std::string chat_path = "/v1/chat/completions";
const std::string chat_stream = R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";
const std::string chat_whole = R"({"messages":[{"role":"user","content":"hi"}]})";

std::unique_ptr<server> serve(fake_service& service, server_options options = {}) {
  options.listen = "127.0.0.1:0";
  auto started = server::start(service, std::move(options));
  REQUIRE(started.ok());
  return std::move(started).value();
}

/// So long between signs of life that a test cannot pass by them.
server_options without_signs_of_life() {
  server_options options;
  options.keep_alive = std::chrono::minutes(5);
  return options;
}

std::string metrics(const server& edge) {
  raw_client client(edge.port());
  client.get("/metrics");
  return client.read_response().body;
}

/// What the kernel takes for a client that does not read: at most its largest send buffer, 4 MiB by default.
constexpr position more_than_kernel_mib = 8;

bool counted(const server& edge, const std::string& reason) {
  return metrics(edge).find("baton_http_turns_abandoned_total{reason=\"" + reason + "\"} 1\n") !=
         std::string::npos;
}

}  // namespace

// --- failures of the service ------------------------------------------------------------------------------

TEST_CASE("a failure before the first byte is an HTTP status") {
  struct row {
    errc code;
    int status;
  };
  for (const std::string& body : {chat_stream, chat_whole})
    for (const row& one : {row{errc::context_full, 400}, row{errc::no_room, 429}, row{errc::unavailable, 503},
                           row{errc::timed_out, 504}, row{errc::engine_failed, 500}}) {
      fake_service service;
      service.script({failed_event(one.code)});  // from within submit, before its handle is known
      const auto edge = serve(service);
      raw_client client(edge->port());
      client.post(chat_path, body);
      const auto answer = client.read_response();
      CHECK(answer.top.status == one.status);
      CHECK(answer.top.fields.count("retry-after") == (one.status == 429 || one.status == 503 ? 1 : 0));
      CHECK(json::parse(answer.body)["error"]["message"] == "it broke");
      client.get("/health");
      CHECK(client.read_response().top.status == 200);
      CHECK(service.cancelled() == 0);
    }
}

TEST_CASE("a failure of a whole answer after some text is still an HTTP status") {
  fake_service service;
  service.script({started_event(), text_event("half", 3), failed_event(errc::unavailable)});
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.post(chat_path, chat_whole);
  const auto answer = client.read_response();
  CHECK(answer.top.status == 503);
  CHECK(answer.body.find("half") == std::string::npos);
}

TEST_CASE("a failure within a stream is one event, then the close") {
  fake_service service;
  auto options = without_signs_of_life();
  const bool after_comment = GENERATE(false, true);
  if (after_comment) options.keep_alive = milliseconds(10);
  const auto edge = serve(service, options);
  raw_client client(edge->port());
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  if (after_comment) {
    CHECK(client.read_head().status == 200);
    CHECK(client.read_chunk() == ": keep-alive\n");
  } else {
    service.emit(turn, started_event());
    service.emit(turn, text_event("a", 3));
    CHECK(client.read_head().status == 200);
    CHECK(client.read_chunk().find("\"role\"") != std::string::npos);
    CHECK(client.read_chunk().find("\"content\":\"a\"") != std::string::npos);
  }
  service.emit(turn, failed_event(errc::unavailable));
  std::string chunk = client.read_chunk();
  while (chunk == ": keep-alive\n")
    chunk = client.read_chunk();
  CHECK(chunk == std::string("id: ") + (after_comment ? "0" : "3") +
                     "\ndata: {\"error\":{\"message\":\"it broke\",\"type\":\"server_error\",\"param\":null,"
                     "\"code\":\"unavailable\"}}\n\n");
  CHECK(client.read_to_end() == "0\r\n\r\n");
  CHECK_FALSE(service.is_cancelled(turn));
}

// --- clients that leave -----------------------------------------------------------------------------------

TEST_CASE("a client that leaves while nothing is sent has its turn cancelled") {
  fake_service service;
  const auto edge = serve(service, without_signs_of_life());
  raw_client client(edge->port());
  const int how = GENERATE(0, 1, 2);
  const bool whole = GENERATE(false, true);
  const bool running = GENERATE(false, true);
  client.post(chat_path, whole ? chat_whole : chat_stream);
  const auto turn = service.turn(1);
  if (running) {
    service.emit(turn, started_event());
    service.emit(turn, text_event("a", 3));
    if (!whole) CHECK(client.read_head().status == 200);
  }
  CHECK_FALSE(service.is_cancelled(turn));
  if (how == 0) client.close();
  if (how == 1) client.reset();
  if (how == 2) client.half_close();
  CHECK(service.wait_cancelled(turn));
  // What the service had under way does no harm.
  service.emit(turn, text_event("late", 4));
  service.emit(turn, finished_event());
  CHECK(counted(*edge, "client_left"));
}

TEST_CASE("a client that leaves during its second turn is noticed, too") {
  fake_service service;
  const auto edge = serve(service, without_signs_of_life());
  raw_client client(edge->port());
  for (std::size_t i = 1; i <= 2; ++i) {
    client.post(chat_path, chat_stream);
    const auto turn = service.turn(i);
    service.emit(turn, started_event());
    service.emit(turn, finished_event());
    CHECK(client.read_response().body.find("[DONE]") != std::string::npos);
  }
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(3);
  client.close();
  CHECK(service.wait_cancelled(turn));
  CHECK(service.cancelled() == 1);
}

TEST_CASE("a client that leaves behind a request sent ahead is noticed at the next sign of life") {
  fake_service service;
  server_options options;
  options.keep_alive = milliseconds(20);
  const auto edge = serve(service, options);
  raw_client client(edge->port());
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  client.get("/health");
  CHECK(client.read_head().status == 200);
  for (int i = 0; i < 3; ++i)
    CHECK(client.read_chunk() == ": keep-alive\n");  // the watch has seen the request
  CHECK_FALSE(service.is_cancelled(turn));
  client.half_close();  // an answer to a closed socket would give it away sooner
  CHECK(service.wait_cancelled(turn));
}

// --- clients that are slow --------------------------------------------------------------------------------

TEST_CASE("a reader that falls behind is cut off at the bound") {
  fake_service service;
  auto options = without_signs_of_life();
  options.client_buffer_bytes = 64U << 10;
  const auto edge = serve(service, options);
  raw_client slow(edge->port(), 4096);
  raw_client good(edge->port());
  slow.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  good.post(chat_path, chat_stream);
  const auto other = service.turn(2);
  service.emit(turn, started_event());
  service.emit(other, started_event());
  CHECK(good.read_head().status == 200);
  CHECK_FALSE(good.read_chunk().empty());
  // In step with the other stream, so that it is the client that falls behind and not the server.
  const std::string text(1000, 'x');
  position sent = 0;
  for (; !service.is_cancelled(turn) && sent < 50'000; ++sent) {
    service.emit(turn, text_event(text, 3 + sent));
    service.emit(other, text_event("a", 3 + sent));
    CHECK(good.read_chunk().find("\"a\"") != std::string::npos);
  }
  CHECK(service.is_cancelled(turn));
  CHECK(sent > 64);
  CHECK(counted(*edge, "slow_reader"));
  // The other stream is none the worse.
  service.emit(other, finished_event());
  CHECK(good.read_through("0\r\n\r\n").find("[DONE]") != std::string::npos);
  CHECK_FALSE(service.is_cancelled(other));
  const std::string seen = slow.read_to_end();
  CHECK(seen.find("[DONE]") == std::string::npos);
  CHECK(seen.find("0\r\n\r\n") == std::string::npos);  // no proper end
}

TEST_CASE("a burst that a client reads is not slowness") {
  fake_service service;
  auto options = without_signs_of_life();
  options.client_buffer_bytes = 64U << 10;
  const auto edge = serve(service, options);
  raw_client client(edge->port());
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  service.emit(turn, started_event());
  CHECK(client.read_head().status == 200);
  CHECK_FALSE(client.read_chunk().empty());
  for (position at = 3; at < 2003; ++at) {  // ten times the bound in all
    service.emit(turn, text_event(std::string(200, 'x'), at));
    CHECK(client.read_chunk().rfind("id: " + std::to_string(at) + "\n", 0) == 0);
  }
  service.emit(turn, finished_event());
  CHECK(client.read_through("0\r\n\r\n").find("[DONE]") != std::string::npos);
  CHECK_FALSE(service.is_cancelled(turn));
}

TEST_CASE("a reader that takes nothing at all is cut off in time") {
  fake_service service;
  auto options = without_signs_of_life();
  options.client_buffer_bytes = 256U << 20;
  options.write_timeout = milliseconds(200);
  const auto edge = serve(service, options);
  raw_client client(edge->port(), 4096);
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  service.emit(turn, started_event());
  for (position at = 0; at < more_than_kernel_mib; ++at)
    service.emit(turn, text_event(std::string(1U << 20, 'x'), 3 + at));
  CHECK(service.wait_cancelled(turn));
  CHECK(counted(*edge, "stalled"));
}

TEST_CASE("a request that does not arrive in time is dropped") {
  fake_service service;
  server_options options;
  options.request_timeout = milliseconds(50);
  options.idle_timeout = milliseconds(50);
  const auto edge = serve(service, options);
  raw_client half(edge->port());
  half.send("POST " + chat_path + " HTTP/1.1\r\nContent-Le");
  CHECK(half.read_to_end().empty());
  raw_client idle(edge->port());
  CHECK(idle.read_to_end().empty());
  CHECK(service.turns() == 0);
}

// --- requests that are too large or wrong -----------------------------------------------------------------

TEST_CASE("requests beyond the limits are refused and the connection closed") {
  fake_service service;
  const auto edge = serve(service);
  raw_client client(edge->port());
  raw_client other(edge->port());
  int status = 0;
  SECTION("a body announced too large") {
    client.send("POST " + chat_path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                std::to_string(limits::http_body_bytes + 1) + "\r\n\r\n");
    status = 413;
  }
  SECTION("a body sent too large") {
    // Read to its end all the same, so that a client that first sends and then reads gets its answer.
    CHECK(client.send(raw_client::post_bytes(chat_path, std::string(limits::http_body_bytes + 1, 'x'))));
    status = 413;
  }
  SECTION("chunks without end") {
    client.send("POST " + chat_path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "100000\r\n" + std::string(1U << 20, 'x') + "\r\n";
    for (int i = 0; i < 9 && client.send(chunk); ++i) {
    }
    status = 413;
  }
  SECTION("one header too large") {
    client.send("GET /health HTTP/1.1\r\nX-Large: " + std::string(limits::http_header_bytes, 'x') +
                "\r\n\r\n");
    status = 431;
  }
  // The next two in pieces that each complete a field, so that the parser keeps nothing back and sees no
  // great length.
  const std::string piece = "-Y: " + std::string(1000, 'z') + "\r\nX";
  const auto send_pieces = [&] {
    for (std::size_t sent = 0; sent < limits::http_header_bytes && client.send(piece); sent += piece.size()) {
      other.get("/health");  // answered by the same thread, after it has dealt with the piece
      CHECK(other.read_response().top.status == 200);
    }
  };
  SECTION("headers without end") {
    client.send("GET /health HTTP/1.1\r\nX");
    send_pieces();
    status = 431;
  }
  SECTION("trailers without end") {
    client.send("POST " + chat_path +
                " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX");
    send_pieces();
    status = 431;
  }
  SECTION("a chunk header without end") {
    client.send("POST " + chat_path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;x=" +
                std::string(2 * limits::http_header_bytes, 'x'));
    status = 431;
  }
  SECTION("a request line too large") {
    client.send("GET /" + std::string(limits::http_header_bytes, 'x') + " HTTP/1.1\r\n\r\n");
    status = 431;
  }
  const auto answer = client.read_response();
  CHECK(answer.top.status == status);
  CHECK(answer.top.fields.at("connection") == "close");
  CHECK(json::parse(answer.body)["error"]["type"] == "invalid_request_error");
  client.close();
  CHECK(service.turns() == 0);
  raw_client next(edge->port());
  next.get("/health");
  CHECK(next.read_response().top.status == 200);
}

TEST_CASE("a body at the limit is read") {
  fake_service service;
  service.script({finished_event()});
  const auto edge = serve(service);
  raw_client client(edge->port());
  std::string body = R"({"messages":[{"role":"user","content":")";
  body += std::string(limits::http_body_bytes - body.size() - 4, 'x') + R"("}]})";
  REQUIRE(body.size() == limits::http_body_bytes);
  client.post(chat_path, body);
  CHECK(client.read_response().top.status == 200);
}

TEST_CASE("what is not HTTP is refused and the connection closed") {
  fake_service service;
  const auto edge = serve(service);
  for (const std::string& bytes :
       {std::string("nonsense\r\n\r\n"), std::string("GET /health\r\n\r\n"),
        std::string("GET  /health HTTP/1.1\r\n\r\n"), std::string("GET /health HTTP/9.9\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\r\n\r\n", 14),
        std::string("POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n"),
        std::string("POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET /health HTTP/1.1\r\nbad header\r\n\r\n")}) {
    raw_client client(edge->port());
    client.send(bytes);
    const auto answer = client.read_response();
    CHECK(answer.top.status == 400);
    CHECK(answer.top.fields.at("connection") == "close");
    CHECK(json::parse(answer.body).contains("error"));
    client.half_close();
    CHECK(client.read_to_end().empty());
  }
  raw_client client(edge->port());
  client.send("POST /v1/completions HTTP/1.1\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n");
  CHECK(client.read_response().top.status == 417);
}

TEST_CASE("mutated requests leave the server whole") {
  fake_service service;
  service.script({started_event(), text_event("a", 3), finished_event()});
  server_options options;
  options.request_timeout = milliseconds(500);
  const auto edge = serve(service, options);
  const std::string good =
      "POST " + chat_path +
      " HTTP/1.1\r\nHost: x\r\nX-Session-Id: s\r\nContent-Length: " + std::to_string(chat_stream.size()) +
      "\r\n\r\n" + chat_stream;
  constexpr std::uint64_t seed = 20240608;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = good;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      if (random() % 2 == 0)
        bytes[at] = static_cast<char>(random());
      else
        bytes.erase(at, random() % 8);
    }
    INFO("seed " << seed << " iteration " << i);
    raw_client client(edge->port());
    client.send(bytes);
    client.half_close();
    const std::string answer = client.read_to_end();
    if (!answer.empty() && answer.rfind("HTTP/1.1 ", 0) != 0) FAIL("an answer that is none: " << answer);
  }
  raw_client client(edge->port());
  client.get("/health");
  CHECK(client.read_response().top.status == 200);
}

TEST_CASE("one connection too many is told so") {
  fake_service service;
  server_options options;
  options.connections = 1;
  const auto edge = serve(service, options);
  raw_client first(edge->port());
  first.get("/health");
  CHECK(first.read_response().top.status == 200);
  raw_client second(edge->port());
  const auto answer = second.read_response();
  CHECK(answer.top.status == 503);
  CHECK(answer.top.fields.at("retry-after") == "1");
  first.get("/health");
  CHECK(first.read_response().top.status == 200);
}

// --- the end of the server --------------------------------------------------------------------------------

TEST_CASE("stop ends open turns with an error and cancels them") {
  fake_service service;
  auto edge = serve(service, without_signs_of_life());
  std::vector<std::unique_ptr<raw_client>> streams;
  for (std::size_t i = 1; i <= 10; ++i) {
    streams.push_back(std::make_unique<raw_client>(edge->port()));
    streams.back()->post(chat_path, chat_stream);
    service.emit(service.turn(i), started_event());
    CHECK(streams.back()->read_head().status == 200);
    CHECK_FALSE(streams.back()->read_chunk().empty());
  }
  raw_client waiting(edge->port());
  waiting.post(chat_path, chat_stream);
  service.turn(11);
  raw_client idle(edge->port());
  idle.get("/health");
  CHECK(idle.read_response().top.status == 200);

  const auto begin = steady_clock::now();
  edge->stop();
  CHECK(steady_clock::now() - begin < std::chrono::seconds(2));
  for (const auto& one : streams) {
    const std::string rest = one->read_to_end();
    CHECK(rest.find("data: {\"error\":") != std::string::npos);
    CHECK(rest.find("[DONE]") == std::string::npos);
  }
  CHECK(waiting.read_response().top.status == 503);
  CHECK(idle.read_to_end().empty());
  CHECK(service.cancelled() == 11);

  const std::uint16_t port = edge->port();
  CHECK_THROWS(raw_client(port));
  edge->stop();
  edge.reset();
  // The service may find out later.
  for (std::size_t i = 1; i <= 11; ++i)
    service.emit(service.turn(i), text_event("late", 9));
}

TEST_CASE("stop does not wait for a client that does not read") {
  fake_service service;
  auto options = without_signs_of_life();
  options.client_buffer_bytes = 256U << 20;
  auto edge = serve(service, options);
  raw_client client(edge->port(), 4096);
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  service.emit(turn, started_event());
  for (position at = 0; at < more_than_kernel_mib; ++at)
    service.emit(turn, text_event(std::string(1U << 20, 'x'), 3 + at));
  (void)metrics(*edge);  // its one thread has dealt with those
  const auto begin = steady_clock::now();
  edge->stop();
  CHECK(steady_clock::now() - begin < std::chrono::seconds(2));
  CHECK(service.is_cancelled(turn));
  edge.reset();
  service.emit(turn, finished_event());
}

TEST_CASE("events that arrive while the server stops find no one, safely") {
  for (int round = 0; round < 20; ++round) {
    fake_service service;
    auto options = without_signs_of_life();
    options.threads = 2;
    auto edge = serve(service, options);
    std::vector<std::unique_ptr<raw_client>> clients;
    for (std::size_t i = 1; i <= 8; ++i) {
      clients.push_back(std::make_unique<raw_client>(edge->port()));
      clients.back()->post(chat_path, chat_stream);
      service.turn(i);
    }
    std::atomic<bool> go_on{true};
    std::thread emitter([&] {
      for (position at = 3; go_on; ++at)
        for (std::size_t i = 1; i <= 8; ++i)
          service.emit(fake_service::handle{i}, text_event("x", at));
    });
    edge.reset();
    go_on = false;
    emitter.join();
    CHECK(service.cancelled() == 8);
  }
}
