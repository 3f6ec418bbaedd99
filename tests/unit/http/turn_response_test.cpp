#include "apps/http/turn_response.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "apps/http/counters.hpp"
#include "apps/http/turn_inbox.hpp"

using namespace baton;
using namespace baton::apps::http;

namespace {

response_plan plan_of(bool stream) {
  response_plan plan;
  plan.kind = endpoint::text;  // its chunks are short
  plan.stream = stream;
  plan.model = "m";
  plan.id = "i";
  return plan;
}

actors::turn_text text_of(const std::string& text, position last) {
  actors::turn_text event;
  event.text = text;
  event.last = last;
  return event;
}

const actors::turn_event started = actors::turn_started{session_id{1}, 3, 0};
const actors::turn_event failed = actors::turn_failed{{errc::unavailable, "no node"}};

const std::string head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: "
    "no\r\n";
const std::string error_json =
    R"({"error":{"message":"no node","type":"server_error","param":null,"code":"unavailable"}})";

std::string chunk_json(const std::string& text, const std::string& finish = "null") {
  return R"({"id":"i","object":"text_completion","created":0,"model":"m","choices":[{"text":")" + text +
         R"(","index":0,"logprobs":null,"finish_reason":)" + finish + "}]}";
}

std::size_t count_of(const std::string& text, const std::string& piece) {
  std::size_t count = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("a stream without chunking, byte for byte") {
  turn_response response(plan_of(true), {false, true});
  response.on_event(started);
  CHECK(response.take() == head + "Connection: close\r\n\r\n");
  response.on_event(text_of("a", 3));
  CHECK(response.take() == "id: 3\ndata: " + chunk_json("a") + "\n\n");
  response.on_silence();
  CHECK(response.take() == ": keep-alive\n");
  response.on_event(actors::turn_finished{});
  CHECK(response.take() == "id: 3\ndata: " + chunk_json("", "\"stop\"") + "\n\nid: 3\ndata: [DONE]\n\n");
  CHECK(response.ended());
  CHECK_FALSE(response.keep_alive());
}

TEST_CASE("each event is one HTTP chunk") {
  turn_response response(plan_of(true), {true, true});
  response.on_silence();
  CHECK(response.take() == head + "Transfer-Encoding: chunked\r\n\r\nd\r\n: keep-alive\n\r\n");
  response.on_event(actors::turn_finished{});
  const std::string finish = "id: 0\ndata: " + chunk_json("", "\"stop\"") + "\n\n";
  const std::string bytes = response.take();
  CHECK(bytes.find("\r\n" + finish + "\r\n14\r\nid: 0\ndata: [DONE]\n\n\r\n0\r\n\r\n") != std::string::npos);
  CHECK(response.keep_alive());
}

TEST_CASE("the identity of an event is the last position it makes known") {
  turn_response response(plan_of(true), {false, true});
  response.on_event(started);
  response.on_silence();
  auto unfinished = plan_of(true);
  unfinished.kind = endpoint::chat;
  turn_response chat(unfinished, {false, true});
  chat.on_event(started);
  CHECK(chat.take().find("\r\n\r\nid: 2\ndata: ") != std::string::npos);  // the last of three prompt tokens
  chat.on_event(text_of("", 3));  // held back: moves the identity, sends nothing
  CHECK(chat.take().empty());
  chat.on_event(actors::turn_finished{});
  CHECK(chat.take().rfind("id: 3\ndata: ", 0) == 0);
}

TEST_CASE("there is one role chunk, whatever the service says") {
  auto plan = plan_of(true);
  plan.kind = endpoint::chat;
  turn_response twice(plan, {false, true});
  twice.on_event(started);
  twice.on_event(started);
  twice.on_event(text_of("a", 3));
  twice.on_event(actors::turn_finished{});
  CHECK(count_of(twice.take(), "\"role\"") == 1);
  turn_response never(plan, {false, true});
  never.on_event(text_of("a", 3));
  const std::string bytes = never.take();
  CHECK(count_of(bytes, "\"role\"") == 1);
  CHECK(bytes.find("\"role\"") < bytes.find("\"content\":\"a\""));
}

TEST_CASE("a failure before the headers is an HTTP error") {
  for (const bool stream : {true, false}) {
    turn_response response(plan_of(stream), {true, true});
    response.on_event(failed);
    CHECK(response.take() ==
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 87\r\n"
          "Retry-After: 1\r\n\r\n" +
              error_json);
    CHECK(response.ended());
    CHECK(response.status() == 503);
    CHECK(response.keep_alive());
  }
}

TEST_CASE("a failure after the headers is one event and the close") {
  turn_response response(plan_of(true), {false, true});
  SECTION("after the start") {
    response.on_event(started);
  }
  SECTION("after a sign of life") {
    response.on_silence();
  }
  SECTION("after text") {
    response.on_event(text_of("a", 3));
  }
  (void)response.take();
  response.on_event(failed);
  const std::string bytes = response.take();
  CHECK(count_of(bytes, "data: ") == 1);
  CHECK(bytes.find("data: " + error_json + "\n\n") != std::string::npos);
  CHECK_FALSE(response.keep_alive());
  CHECK(response.status() == 200);
}

TEST_CASE("a turn ends once") {
  const actors::turn_event finish = actors::turn_finished{};
  for (const auto& last : {finish, failed}) {
    turn_response response(plan_of(true), {true, true});
    response.on_event(started);
    response.on_event(last);
    (void)response.take();
    response.on_event(text_of("late", 9));
    response.on_event(finish);
    response.on_event(failed);
    response.on_silence();
    CHECK(response.take().empty());
  }
}

TEST_CASE("a whole body waits for the end") {
  turn_response response(plan_of(false), {true, false});
  response.on_event(started);
  response.on_silence();
  response.on_event(text_of("a", 3));
  response.on_event(text_of("b", 4));
  CHECK(response.pending_bytes() == 0);
  CHECK(response.status() == 0);
  response.on_event(actors::turn_finished{});
  const std::string bytes = response.take();
  CHECK(bytes.rfind("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ", 0) == 0);
  CHECK(bytes.find("Connection: close\r\n") != std::string::npos);
  CHECK(bytes.find(R"("text":"ab")") != std::string::npos);
}

TEST_CASE("an inbox wakes once per batch and not at all once closed") {
  int wakes = 0;
  turn_inbox inbox(1U << 20, [&wakes] { ++wakes; });
  inbox.push(started);
  inbox.push(failed);
  CHECK(wakes == 1);
  CHECK(inbox.take().size() == 2);
  inbox.push(started);
  CHECK(wakes == 2);
  inbox.close();
  inbox.push(failed);
  CHECK(wakes == 2);
  CHECK(inbox.take().empty());
}

TEST_CASE("an inbox that nobody empties stops at its bound") {
  turn_inbox inbox(10'000, [] {});
  inbox.push(text_of(std::string(20'000, 'x'), 1));  // one event always fits
  CHECK_FALSE(inbox.overflowed());
  CHECK(inbox.take().size() == 1);
  for (position at = 0; at < 100'000; ++at)
    inbox.push(text_of("x", at));
  CHECK(inbox.overflowed());
  CHECK(inbox.take().size() < 100);
  inbox.push(text_of("x", 1));
  CHECK(inbox.take().empty());  // a gap is for ever
}

TEST_CASE("counters are Prometheus text") {
  counters counts;
  counts.opened();
  counts.opened();
  counts.closed();
  counts.answered(200);
  counts.answered(429);
  counts.answered(299);
  counts.gave_up(abandoned::slow_reader);
  const std::string text = counts.text();
  CHECK(text.find("\nbaton_http_connections 1\n") != std::string::npos);
  CHECK(text.find("\nbaton_http_responses_total{status=\"200\"} 1\n") != std::string::npos);
  CHECK(text.find("\nbaton_http_responses_total{status=\"429\"} 1\n") != std::string::npos);
  CHECK(text.find("\nbaton_http_responses_total{status=\"other\"} 1\n") != std::string::npos);
  CHECK(text.find("\nbaton_http_turns_abandoned_total{reason=\"slow_reader\"} 1\n") != std::string::npos);
}
