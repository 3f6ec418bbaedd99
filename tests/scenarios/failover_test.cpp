#include <catch2/catch.hpp>

#include <atomic>
#include <memory>

#include "actors/engines/wrapping_engine.hpp"
#include "tests/scenarios/cluster.hpp"

/// What a client reads through a failover: cases 13 to 29, 83 and 87 of the field (docs/protocol.md,
/// "Cases").
using namespace baton;
using namespace baton::tests;

namespace {

/// One beginning, one end, and no step back in between.
void check_order(const transcript& stream) {
  CHECK(stream.starts() == 1);
  CHECK(stream.ends() == 1);
  position last = 0;
  for (const actors::turn_text& piece : stream.pieces()) {
    CHECK(piece.last >= last);
    last = piece.last;
  }
}

/// Runs the request undisturbed, then again with a kill of its primary after each of `kills` pieces; checks
/// what must hold after any failover, and returns the disturbed stream.
std::shared_ptr<transcript> through_kills(cluster& it, actors::completion_request request,
                                          std::vector<std::size_t> kills) {
  request.session = "reference";
  const auto reference = it.submit(request);
  REQUIRE(reference->wait_end());
  REQUIRE(reference->finished());

  request.session = "disturbed";
  const auto stream = it.submit(request);
  for (const std::size_t after : kills) {
    REQUIRE(stream->wait_tokens(after));
    REQUIRE(stream->ends() == 0);
    it.kill(stream->pieces().back().node);
  }
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished());
  CHECK(stream->text() == reference->text());
  CHECK(stream->finished()->completion_tokens == reference->finished()->completion_tokens);
  CHECK(stream->finished()->prompt_tokens == reference->finished()->prompt_tokens);
  CHECK(stream->finished()->reason == reference->finished()->reason);
  CHECK(stream->finished()->failovers == kills.size());
  check_order(*stream);
  return stream;
}

/// An engine whose next evaluation fails if `next_breaks` says so; only one engine takes it at its word.
class fragile_engine final : public actors::engines::wrapping_engine {
 public:
  fragile_engine(std::unique_ptr<actors::engines::engine> inner,
                 std::shared_ptr<std::atomic<bool>> next_breaks)
      : wrapping_engine(*inner), owned_(std::move(inner)), next_breaks_(std::move(next_breaks)) {}
  result<void> evaluate(std::span<const actors::engines::evaluation> batch) override {
    if (next_breaks_->exchange(false)) return {errc::engine_failed, "the device is lost"};
    return wrapping_engine::evaluate(batch);
  }

 private:
  std::unique_ptr<actors::engines::engine> owned_;
  std::shared_ptr<std::atomic<bool>> next_breaks_;
};

/// Clusters of such engines.
cluster_options fragile(const std::shared_ptr<std::atomic<bool>>& next_breaks) {
  cluster_options how;
  how.step = 2ms;
  how.wrap = [next_breaks](std::unique_ptr<actors::engines::engine> inner) {
    return std::make_unique<fragile_engine>(std::move(inner), next_breaks);
  };
  return how;
}

cluster_options slow() {
  cluster_options how;
  how.step = 2ms;
  return how;
}

}  // namespace

TEST_CASE("a stream survives the death of its primary") {
  cluster it{slow()};
  const auto stream = through_kills(it, ask("tell me", 60), {20});
  CHECK(stream->finished()->completion_tokens == 60);
  CHECK(stream->finished()->recomputed_tokens <= 8);
}

TEST_CASE("a prompt larger than any message of the data plane survives the death of its primary") {
  cluster_options how;
  how.step = 200us;
  how.engine.context_tokens = 1U << 19;
  cluster it{how};
  const auto stream =
      through_kills(it, ask(std::string(limits::message_bytes / sizeof(token_id) + 20'000, 'x'), 500), {20});
  CHECK(stream->finished()->prompt_tokens > limits::message_bytes / sizeof(token_id));
}

TEST_CASE("case 13: a stop string split over the hand-over") {
  cluster it{slow()};
  auto request = ask("say:all is well END# and never this\n", 60);
  request.stop = {"END#"};
  // "all is well " is shown; then "E", "EN" are held back.
  const auto stream = through_kills(it, request, {14});
  CHECK(stream->text() == "all is well ");
  CHECK(stream->finished()->reason == actors::finish_reason::stop);
}

TEST_CASE("case 15: a multi-byte character split over the hand-over") {
  cluster it{slow()};
  const std::string text = "ab\xF0\x9F\x98\x80 cd";
  // Two letters, then two of the four bytes of the character.
  const auto stream = through_kills(it, ask("say:" + text + "\n", 60), {4});
  CHECK(stream->text() == text);
  for (const actors::turn_text& piece : stream->pieces())
    CHECK(piece.text.find("\xEF\xBF\xBD") == std::string::npos);
}

TEST_CASE("case 17: token budget and usage") {
  cluster it{slow()};
  const auto stream = through_kills(it, ask("count", 50), {30});
  CHECK(stream->finished()->completion_tokens == 50);
  CHECK(stream->finished()->reason == actors::finish_reason::length);
}

TEST_CASE("case 19: a kill during prefill") {
  cluster_options how;
  how.step = 10ms;
  cluster it{how};
  std::string prompt;
  for (int i = 0; prompt.size() < 2000; ++i)
    prompt += "line " + std::to_string(i) + "\n";
  const auto reference = it.submit(ask(prompt, 20, "reference"));
  REQUIRE(reference->wait_end());
  // A first turn tells which node the session lives on.
  auto first = it.submit(ask("hello", 1, "long"));
  REQUIRE(first->wait_end());
  const std::string node = first->pieces().front().node;
  const auto stream = it.submit(ask(prompt, 20, "long"));
  REQUIRE(stream->wait([](const transcript::state& t) { return t.starts > 0; }));
  REQUIRE(stream->pieces().empty());
  it.kill(node);
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished());
  CHECK(stream->text() == reference->text());
  CHECK(stream->starts() == 1);
}

TEST_CASE("case 23: seeded sampling through two kills") {
  cluster it{slow()};
  auto request = ask("dice", 60);
  request.sampling.temperature = 0.8F;
  request.sampling.top_p = 0.9F;
  request.sampling.seed = 7;
  through_kills(it, request, {20, 40});
}

TEST_CASE("case 25: logprobs through a kill") {
  cluster it{slow()};
  auto request = ask("odds", 40);
  request.sampling.logprobs = true;
  request.sampling.top_logprobs = 5;
  const auto stream = through_kills(it, request, {15});
  std::size_t entries = 0;
  for (const actors::turn_text& piece : stream->pieces())
    for (const actors::released_token& token : piece.tokens) {
      ++entries;
      CHECK(token.alternatives.size() == 5);
      CHECK(token.logprob <= 0);
      CHECK(token.logprob > -100);
    }
  CHECK(entries == 40);
}

TEST_CASE("case 27: no standby left") {
  cluster_options how = slow();
  how.nodes = {"only"};
  how.liveness.lease = 400ms;
  how.liveness.suspect_after = 200ms;
  cluster it{how};
  const auto stream = it.submit(ask("anybody", 500));
  REQUIRE(stream->wait_tokens(5));
  it.kill("only");
  REQUIRE(stream->wait_end());
  REQUIRE(stream->failed());
  CHECK(stream->failed()->reason.code == errc::unavailable);
  CHECK_FALSE(stream->finished());
  CHECK(stream->ends() == 1);
}

TEST_CASE("case 29: the client leaves during the failover") {
  cluster it{slow()};
  const auto other = it.submit(ask("other", 400, "other"));
  const auto stream = it.submit(ask("gone", 4000, "gone"));
  const actors::turn_handle handle = it.last();
  REQUIRE(stream->wait_tokens(10));
  it.kill(stream->pieces().front().node);
  it.service().cancel(handle);
  // Decoding stops: the session's group has no lag and its tokens no longer grow.
  it.await([&](const std::string& status) { return status.find("\"open_turns\":1") != std::string::npos; },
           2s);
  REQUIRE(other->wait_end());
  CHECK(other->finished());
  const auto tokens_before = it.figure("links", "none");
  CHECK(tokens_before == 0);
  // The session is free for its next turn.
  const auto again = it.submit(ask("back", 5, "gone"));
  REQUIRE(again->wait_end());
  CHECK(again->finished());
}

TEST_CASE("case 87: the new owner dies as well, before the last standby has anything of it") {
  cluster_options how = slow();
  for (const std::string node : {"a", "b", "c"})
    how.faults[node] = {};
  cluster it{how};
  const auto reference = it.submit(ask("twice", 300, "reference"));
  REQUIRE(reference->wait_end());

  const auto stream = it.submit(ask("twice", 300, "disturbed"));
  REQUIRE(stream->wait_tokens(20));
  const std::string first = stream->pieces().back().node;
  const std::string last = first == "c" ? "b" : "c";
  it.faulty(last).cut();  // its data plane: it is alive, and hears no more of the conversation
  const position cut_at = stream->pieces().back().last;
  REQUIRE(stream->wait_tokens(stream->pieces().size() + 20));
  it.kill(first);
  REQUIRE(stream->wait([&](const transcript::state& t) {  // the second has served for a while
    return t.ends > 0 || t.pieces[t.pieces.size() - 20].node != first;
  }));
  const std::string second = stream->pieces().back().node;
  REQUIRE(second != last);
  it.kill(second);
  it.faulty(last).heal();
  const position known = stream->pieces().back().last + 1;
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished());
  CHECK(stream->text() == reference->text());
  CHECK(stream->finished()->failovers == 2);
  CHECK(stream->pieces().back().node == last);
  check_order(*stream);
  // It has what the first owner gave it before it was cut off, and computes what came after that.
  CHECK(stream->finished()->recomputed_tokens >= known - cut_at - 8);
  CHECK(stream->finished()->recomputed_tokens <= known - cut_at + 8);
}

TEST_CASE("an engine that fails takes its node with it, and no stream") {
  const auto next_breaks = std::make_shared<std::atomic<bool>>(false);
  cluster it{fragile(next_breaks)};
  const auto reference = it.submit(ask("break", 100, "reference"));
  REQUIRE(reference->wait_end());
  const auto stream = it.submit(ask("break", 100, "disturbed"));
  REQUIRE(stream->wait_tokens(20));
  *next_breaks = true;
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished());
  CHECK(stream->text() == reference->text());
  CHECK(stream->finished()->failovers == 1);
  CHECK(it.breakdowns() == 1);
  check_order(*stream);
}

TEST_CASE("case 83: the warm standby cannot wake up, and the next one is used") {
  const auto next_breaks = std::make_shared<std::atomic<bool>>(false);
  cluster it{fragile(next_breaks)};
  const auto reference = it.submit(ask("wake", 100, "reference"));
  REQUIRE(reference->wait_end());
  const auto stream = it.submit(ask("wake", 100, "disturbed"));
  REQUIRE(stream->wait_tokens(20));
  const std::string first = stream->pieces().back().node;
  it.kill(first);
  *next_breaks = true;
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished());
  CHECK(stream->text() == reference->text());
  CHECK(stream->finished()->failovers >= 1);  // the one that broke may have had no time to say a word
  CHECK(stream->finished()->recomputed_tokens <= 8);
  CHECK(it.breakdowns() == 1);
  CHECK(stream->pieces().back().node != first);
  check_order(*stream);
}
