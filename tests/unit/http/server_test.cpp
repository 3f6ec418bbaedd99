#include "apps/http/server.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/http/fake_service.hpp"
#include "tests/unit/http/raw_client.hpp"

using namespace baton;
using namespace baton::apps::http;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

const std::string chat_path = "/v1/chat/completions";
const std::string chat_stream = R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})";
const std::string chat_whole = R"({"model":"m","messages":[{"role":"user","content":"hi"}]})";

std::unique_ptr<server> serve(fake_service& service, server_options options = {}) {
  options.listen = "127.0.0.1:0";
  auto started = server::start(service, std::move(options));
  REQUIRE(started.ok());
  return std::move(started).value();
}

server_options without_signs_of_life() {
  server_options options;
  options.keep_alive = std::chrono::minutes(5);
  return options;
}

/// The JSON of an SSE event that has an id line.
json data_of(const std::string& event) {
  const std::size_t at = event.find("\ndata: ");
  if (event.rfind("id: ", 0) != 0 || at == std::string::npos || event.substr(event.size() - 2) != "\n\n")
    throw std::runtime_error("not an event: " + event);
  return json::parse(event.substr(at + 7, event.size() - at - 9));
}

}  // namespace

TEST_CASE("the routes that need no turn") {
  fake_service service;
  const auto edge = serve(service);
  raw_client client(edge->port());

  client.get("/health");
  auto answer = client.read_response();
  CHECK(answer.top.status == 200);
  CHECK(answer.top.fields["content-type"] == "application/json");
  CHECK(answer.body == R"({"status":"ok"})");

  service.set_ready(false);
  client.get("/health?verbose=1");
  answer = client.read_response();
  CHECK(answer.top.status == 503);
  CHECK(answer.top.fields["retry-after"] == "1");

  client.get("/v1/models");
  answer = client.read_response();
  CHECK(answer.top.status == 200);
  CHECK(json::parse(answer.body)["data"][0]["id"] == "toy");
  for (const char* toy : {"/v1/models/toy", "/v1/models/%74o%79"}) {
    client.get(toy);
    answer = client.read_response();
    CHECK(answer.top.status == 200);
    CHECK(json::parse(answer.body)["id"] == "toy");
  }
  for (const char* other :
       {"/v1/models/", "/v1/models/other", "/v1/models/toy/x", "/v1/models/to%7", "/v1/models/to%zz"}) {
    client.get(other);
    answer = client.read_response();
    CHECK(answer.top.status == 404);
    CHECK(json::parse(answer.body)["error"]["code"] == "model_not_found");
  }

  client.get("/baton/status");
  CHECK(client.read_response().body == R"({"nodes":[]})");

  client.get("/metrics");
  answer = client.read_response();
  CHECK(answer.top.fields["content-type"] == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(answer.body.rfind("baton_fake 1\n", 0) == 0);
  CHECK(answer.body.find("\nbaton_http_responses_total{status=\"503\"} 1\n") != std::string::npos);
}

TEST_CASE("unknown paths and methods are answered in OpenAI's shape") {
  fake_service service;
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.get("/v1/nothing");
  auto answer = client.read_response();
  CHECK(answer.top.status == 404);
  CHECK(json::parse(answer.body)["error"]["code"] == "unknown_url");
  client.get(chat_path);
  answer = client.read_response();
  CHECK(answer.top.status == 405);
  CHECK(answer.top.fields["allow"] == "POST");
  CHECK(json::parse(answer.body)["error"]["type"] == "invalid_request_error");
  client.post("/health", "");
  answer = client.read_response();
  CHECK(answer.top.status == 405);
  CHECK(answer.top.fields["allow"] == "GET");
  client.send("DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_response().top.status == 405);
}

TEST_CASE("HEAD is GET without the body") {
  fake_service service;
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.get("/health");
  const auto whole = client.read_response();
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_head().bytes == whole.top.bytes);
  client.send("HEAD /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_head().status == 405);
  client.get("/health");  // nothing is left in between
  CHECK(client.read_response().body == whole.body);
}

TEST_CASE("a stream, in order and byte for byte") {
  fake_service service;
  const auto edge = serve(service, without_signs_of_life());
  raw_client client(edge->port());
  client.post(chat_path, R"({"model":"m","stream":true,"stream_options":{"include_usage":true},
                             "messages":[{"role":"user","content":"hi"}]})");
  const auto turn = service.turn(1);

  service.emit(turn, started_event());
  const auto head = client.read_head();
  CHECK(head.bytes ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string role = client.read_chunk();
  const json first = data_of(role);
  const std::string id = first["id"];
  CHECK(id.rfind("chatcmpl-", 0) == 0);
  CHECK(first["created"].get<std::int64_t>() > 1'600'000'000);
  const auto event = [&](int position, const std::string& choices, const std::string& usage = "null") {
    return "id: " + std::to_string(position) + "\ndata: {\"id\":\"" + id +
           "\",\"object\":\"chat.completion.chunk\",\"created\":" + first["created"].dump() +
           ",\"model\":\"m\",\"choices\":" + choices + ",\"usage\":" + usage + "}\n\n";
  };
  const auto choice = [](const std::string& delta, const std::string& finish = "null") {
    return R"([{"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" + finish + "}]";
  };
  CHECK(role == event(2, choice(R"({"role":"assistant","content":""})")));

  service.emit(turn, text_event("Hel", 3));
  CHECK(client.read_chunk() == event(3, choice(R"({"content":"Hel"})")));
  service.emit(turn, text_event("", 4));
  service.emit(turn, text_event("lo", 5));
  CHECK(client.read_chunk() == event(5, choice(R"({"content":"lo"})")));

  service.emit(turn, finished_event(3));
  CHECK(client.read_chunk() == event(5, choice("{}", "\"stop\"")));
  CHECK(
      client.read_chunk() ==
      event(
          5, "[]",
          R"({"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":0}})"));
  CHECK(client.read_chunk() == "id: 5\ndata: [DONE]\n\n");
  CHECK(client.read_chunk().empty());

  // Nothing follows, and the connection serves on.
  service.emit(turn, text_event("late", 6));
  client.get("/health");
  CHECK(client.read_response().top.status == 200);
  CHECK_FALSE(service.is_cancelled(turn));
}

TEST_CASE("a whole answer, and another one on the same connection") {
  fake_service service;
  service.script({started_event(), text_event("Hel", 3), text_event("lo", 4), finished_event(2)});
  const auto edge = serve(service);
  raw_client client(edge->port());
  for (int i = 1; i <= 2; ++i) {
    client.post(chat_path, chat_whole);
    const auto answer = client.read_response();
    CHECK(answer.top.status == 200);
    CHECK(answer.top.fields.at("content-type") == "application/json");
    const json body = json::parse(answer.body);
    CHECK(body["object"] == "chat.completion");
    CHECK(body["choices"][0]["message"]["content"] == "Hello");
    CHECK(body["usage"]["total_tokens"] == 5);
  }
  client.post("/v1/completions", R"({"prompt":"x"})");
  CHECK(json::parse(client.read_response().body)["choices"][0]["text"] == "Hello");
  CHECK(service.turns() == 3);
  CHECK(service.cancelled() == 0);
}

TEST_CASE("what the client asked for reaches the service") {
  fake_service service;
  service.script({finished_event()});
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.post(chat_path, chat_whole, "X-Session-Id: talk 1\r\nidempotency-key: k\r\n");
  CHECK(client.read_response().top.status == 200);
  const auto request = service.request(service.turn(1));
  CHECK(request.session == "talk 1");
  CHECK(request.idempotency_key == "k");
  REQUIRE(request.messages.size() == 1);
  CHECK(request.messages[0].content == "hi");
  // Without a seed of the client's each turn has its own.
  client.post(chat_path, chat_whole);
  CHECK(client.read_response().top.status == 200);
  const auto other = service.request(service.turn(2));
  CHECK(other.sampling.seed != request.sampling.seed);
  CHECK(other.sampling.seed < (std::uint64_t{1} << 53U));
}

TEST_CASE("a bad body is refused and the connection serves on") {
  fake_service service;
  service.script({finished_event()});
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.post(chat_path, R"({"messages":[{"role":"user","content":"x"}],"n":2})");
  auto answer = client.read_response();
  CHECK(answer.top.status == 400);
  CHECK(json::parse(answer.body)["error"]["param"] == "n");
  client.post(chat_path, "{");
  CHECK(client.read_response().top.status == 400);
  client.post(chat_path, chat_whole, "Content-Encoding: gzip\r\n");
  CHECK(client.read_response().top.status == 415);
  client.post(chat_path, chat_whole, "X-Session-Id: \xFF\r\n");
  answer = client.read_response();
  CHECK(json::parse(answer.body)["error"]["param"] == "X-Session-Id");
  CHECK(service.turns() == 0);
  client.post(chat_path, chat_whole);
  CHECK(client.read_response().top.status == 200);
}

TEST_CASE("the keep-alive comments start before the turn and stop with it") {
  fake_service service;
  server_options options;
  options.keep_alive = milliseconds(10);
  const auto edge = serve(service, options);
  raw_client client(edge->port());
  client.post(chat_path, chat_stream);
  const auto turn = service.turn(1);
  CHECK(client.read_head().status == 200);
  for (int i = 0; i < 3; ++i)
    CHECK(client.read_chunk() == ": keep-alive\n");
  service.emit(turn, started_event());
  const auto next = [&client] {
    std::string chunk = client.read_chunk();
    while (chunk == ": keep-alive\n")
      chunk = client.read_chunk();
    return chunk;
  };
  CHECK(data_of(next())["choices"][0]["delta"]["role"] == "assistant");
  CHECK(client.read_chunk() == ": keep-alive\n");
  service.emit(turn, text_event("a", 3));
  CHECK(data_of(next())["choices"][0]["delta"] == json{{"content", "a"}});
  service.emit(turn, finished_event());
  CHECK(data_of(next())["choices"][0]["finish_reason"] == "stop");
  CHECK(client.read_chunk() == "id: 3\ndata: [DONE]\n\n");
  CHECK(client.read_chunk().empty());
}

TEST_CASE("an HTTP/1.0 client gets an unchunked stream and the close") {
  fake_service service;
  service.script({started_event(), text_event("a", 3), finished_event()});
  const auto edge = serve(service);
  raw_client client(edge->port());
  client.send("POST " + chat_path + " HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: " +
              std::to_string(chat_stream.size()) + "\r\n\r\n" + chat_stream);
  const auto head = client.read_head();
  CHECK(head.fields.count("transfer-encoding") == 0);
  CHECK(head.fields.at("connection") == "close");
  const std::string rest = client.read_to_end();
  CHECK(rest.rfind("id: 2\ndata: {", 0) == 0);
  CHECK(rest.substr(rest.size() - 21) == "\nid: 3\ndata: [DONE]\n\n");
}

TEST_CASE("requests may come in pieces, in chunks, and with an expectation") {
  fake_service service;
  service.script({finished_event()});
  const auto edge = serve(service);
  raw_client client(edge->port());
  const std::string whole = "POST " + chat_path +
                            " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(chat_whole.size()) +
                            "\r\n\r\n" + chat_whole;
  for (const char byte : whole)
    client.send({&byte, 1});
  CHECK(client.read_response().top.status == 200);

  client.send("POST " + chat_path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::size_t at = 0; at < chat_whole.size(); at += 10) {
    const std::string piece = chat_whole.substr(at, 10);
    char size[8];
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    client.send(size + piece + "\r\n");
  }
  client.send("0\r\n\r\n");
  CHECK(client.read_response().top.status == 200);

  client.send("POST " + chat_path + " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(chat_whole.size()) + "\r\n\r\n");
  CHECK(client.read_head().bytes == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(chat_whole);
  CHECK(client.read_response().top.status == 200);
}

TEST_CASE("requests sent ahead wait for their turn") {
  fake_service service;
  const auto edge = serve(service, without_signs_of_life());
  raw_client client(edge->port());
  const auto saying = [](std::size_t bytes, const std::string& more) {
    return R"({"messages":[{"role":"user","content":")" + std::string(bytes, 'x') + R"("}])" + more + "}";
  };
  // At once, and the first longer than a read: what is read with it belongs to the later ones.
  client.send(raw_client::post_bytes(chat_path, saying(10'000, R"(,"stream":true)")) +
              raw_client::get_bytes("/health") + raw_client::post_bytes(chat_path, saying(200'000, "")));
  const auto turn = service.turn(1);
  service.emit(turn, started_event());
  service.emit(turn, finished_event());
  CHECK(client.read_response().body.find("[DONE]") != std::string::npos);
  CHECK(client.read_response().body == R"({"status":"ok"})");
  service.emit(service.turn(2), finished_event());
  CHECK(json::parse(client.read_response().body)["object"] == "chat.completion");
  CHECK(service.request(service.turn(2)).messages[0].content.size() == 200'000);
  CHECK(service.cancelled() == 0);
}

TEST_CASE("a hundred streams at once do not mix") {
  fake_service service;
  auto options = without_signs_of_life();
  options.threads = 2;
  const auto edge = serve(service, options);
  constexpr std::size_t streams = 100;
  constexpr position tokens = 20;
  std::vector<std::unique_ptr<raw_client>> clients;
  for (std::size_t i = 0; i < streams; ++i) {
    clients.push_back(std::make_unique<raw_client>(edge->port()));
    clients.back()->post(chat_path, chat_stream, "X-Session-Id: " + std::to_string(i) + "\r\n");
  }
  service.turn(streams);
  // Two threads of the service, each with half of the turns, a token of each at a time.
  const auto emitter = [&service](std::size_t from) {
    for (std::size_t i = from; i <= streams; i += 2)
      service.emit(fake_service::handle{i}, started_event());
    for (position at = 0; at < tokens; ++at)
      for (std::size_t i = from; i <= streams; i += 2) {
        const fake_service::handle turn{i};
        service.emit(turn,
                     text_event(service.request(turn).session + ":" + std::to_string(at) + " ", 3 + at));
      }
    for (std::size_t i = from; i <= streams; i += 2)
      service.emit(fake_service::handle{i}, finished_event(tokens));
  };
  std::thread odd(emitter, 1);
  std::thread even(emitter, 2);
  std::size_t good = 0;
  for (std::size_t i = 0; i < streams; ++i) {
    CHECK(clients[i]->read_head().status == 200);
    std::string expected;
    for (position at = 0; at < tokens; ++at)
      expected += std::to_string(i) + ":" + std::to_string(at) + " ";
    std::string text;
    std::string last;
    for (std::string chunk = clients[i]->read_chunk(); !chunk.empty(); chunk = clients[i]->read_chunk()) {
      last = chunk;
      if (chunk.find("[DONE]") != std::string::npos) continue;
      const json delta = data_of(chunk)["choices"][0]["delta"];
      if (delta.contains("content")) text += delta["content"].get<std::string>();
    }
    if (text == expected && last == "id: 22\ndata: [DONE]\n\n") ++good;
  }
  odd.join();
  even.join();
  CHECK(good == streams);
  CHECK(service.cancelled() == 0);
}

TEST_CASE("addresses that cannot be listened on are errors") {
  fake_service service;
  for (const char* bad : {"", "8080", ":8080", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1",
                          "not-an-address.invalid:80"}) {
    server_options options;
    options.listen = bad;
    const auto started = server::start(service, options);
    REQUIRE_FALSE(started.ok());
    CHECK(started.code() == errc::invalid_argument);
  }
  const auto first = serve(service);
  server_options options;
  options.listen = "127.0.0.1:" + std::to_string(first->port());
  const auto second = server::start(service, options);
  REQUIRE_FALSE(second.ok());
  CHECK(second.code() == errc::io_failed);
  options.listen = "127.0.0.1:0";
  options.threads = 0;
  CHECK_FALSE(server::start(service, options).ok());
}
