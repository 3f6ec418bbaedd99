#include <catch2/catch.hpp>

#include "tests/scenarios/cluster.hpp"

using namespace baton;
using namespace baton::tests;

TEST_CASE("a stream survives the death of its primary") {
  cluster it;
  auto reference = it.submit(ask("tell me", 60, "reference"));
  REQUIRE(reference->wait_end());
  REQUIRE(reference->finished_);
  CHECK(reference->finished_->completion_tokens == 60);

  auto stream = it.submit(ask("tell me", 60, "other"));
  REQUIRE(stream->wait_tokens(20));
  const std::string primary = stream->pieces_.front().node;
  it.kill(primary);
  REQUIRE(stream->wait_end());
  REQUIRE(stream->finished_);
  CHECK(stream->text_ == reference->text_);
  CHECK(stream->finished_->completion_tokens == 60);
  CHECK(stream->finished_->failovers == 1);
  CHECK(stream->starts_ == 1);
  CHECK(stream->ends_ == 1);
  INFO("recomputed " << stream->finished_->recomputed_tokens);
  CHECK(stream->finished_->recomputed_tokens <= 8);
}
