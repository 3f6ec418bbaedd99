#include <catch2/catch.hpp>

#include <random>

#include "tests/scenarios/cluster.hpp"

using namespace baton;
using namespace baton::tests;

/// Two conversations with different secrets, and twenty kills at random, each followed by a restart: no wrong
/// token, nothing of one in the other.
TEST_CASE("twenty random kills with restarts, two sessions") {
  cluster_options how;
  how.step = 1ms;
  how.poison_after = 0;  // kills in such a row may look like poison
  cluster it{how};
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  constexpr int kills = 20;
  constexpr std::uint32_t tokens = 2500;
  const std::vector<std::string> secrets{"the first secret", "the second secret"};
  std::vector<std::shared_ptr<transcript>> references;
  for (const std::string& secret : secrets)
    references.push_back(it.submit(ask(secret, tokens, "reference of " + secret)));
  for (const auto& reference : references)
    REQUIRE(reference->wait([](const transcript::state& t) { return t.ends > 0; }, 60s));

  int killed = 0;
  while (killed < kills) {
    std::vector<std::shared_ptr<transcript>> streams;
    for (const std::string& secret : secrets)
      streams.push_back(it.submit(ask(secret, tokens, secret + std::to_string(killed))));
    const auto over = [&] { return streams[0]->ends() > 0 && streams[1]->ends() > 0; };
    while (killed < kills && !over()) {
      // Kill whoever serves one of the two, after a random number of further tokens.
      const auto& victim = streams[random() % 2];
      const std::size_t more = victim->pieces().size() + 1 + random() % 60;
      if (!victim->wait_tokens(more) || victim->ends() > 0) break;
      const std::string node = victim->pieces().back().node;
      it.kill(node);
      ++killed;
      it.start_node(node);
      it.await_in_sync_members();
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      REQUIRE(streams[i]->wait([](const transcript::state& t) { return t.ends > 0; }, 60s));
      INFO((streams[i]->failed() ? streams[i]->failed()->reason.what : ""));
      REQUIRE(streams[i]->finished());
      CHECK(streams[i]->text() == references[i]->text());
      CHECK(streams[i]->finished()->completion_tokens == tokens);
    }
  }
  CHECK(killed == kills);
}
