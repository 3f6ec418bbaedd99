#include "actors/engines/self_test.hpp"

#include <catch2/catch.hpp>

#include "actors/engines/toy_engine.hpp"
#include "actors/engines/wrapping_engine.hpp"
#include "gpu/host_device.hpp"

namespace baton::actors::engines {
namespace {

gpu::host_device device_of(std::size_t slot_bytes) {
  return gpu::host_device({.slot_bytes = slot_bytes, .slots = 2});
}

/// Has a fault that a real engine could have.
class faulty_engine : public wrapping_engine {
 public:
  enum class fault { none, late_row, middle, evaluates_nothing, exports_nothing };
  faulty_engine(engine& inner, fault kind) : wrapping_engine(inner), kind_(kind) {}

  result<void> import_rows(session_id session, position first, const gpu::kv_image& image) override {
    auto changed = image;
    const bool spoil = (kind_ == fault::late_row && first == 0) || (kind_ == fault::middle && first > 0);
    if (spoil) changed.bytes.back() ^= std::byte{1};
    last_ = image;
    return inner().import_rows(session, first, changed);
  }
  result<void> export_rows(session_id session, position first, std::uint32_t count,
                           gpu::kv_image& image) override {
    if (kind_ == fault::exports_nothing) return {errc::engine_failed, "no"};
    auto done = inner().export_rows(session, first, count, image);
    // The second session claims to hold what it was given, so that only the logits tell.
    if (kind_ != fault::none && session != first_ && last_.count == count) image = last_;
    return done;
  }
  result<void> open(session_id session) override {
    if (!opened_) first_ = session;
    opened_ = true;
    return inner().open(session);
  }
  result<void> evaluate(std::span<const evaluation> batch) override {
    if (kind_ == fault::evaluates_nothing) return {errc::engine_failed, "no"};
    return inner().evaluate(batch);
  }

 private:
  fault kind_;
  bool opened_ = false;
  session_id first_{};
  gpu::kv_image last_;
};

}  // namespace

TEST_CASE("self-test: rows that come back are used") {
  toy_engine subject;
  auto device = device_of(1U << 16);
  const auto report = run_self_test(subject, device);
  REQUIRE(report.ok());
  CHECK(report->mode == replication_mode::rows);
  CHECK(device.staging().used().lent == 0);
  toy_engine::options one;
  one.sessions = 1;
  toy_engine single(one);
  const auto alone = run_self_test(single, device);
  REQUIRE(alone.ok());
  CHECK(alone->mode == replication_mode::rows);
  CHECK(single.open(session_id{1}).ok());  // nothing was left behind
}

TEST_CASE("self-test: small slots, short contexts and odd layouts") {
  toy_engine::options how;
  how.layout = {{5, 1, 13, 64}};
  how.context_tokens = 5;
  how.prefill_chunk = 2;
  toy_engine subject(how);
  auto device = device_of(83);
  const auto report = run_self_test(subject, device);
  REQUIRE(report.ok());
  CHECK(report->mode == replication_mode::rows);
  auto too_small = device_of(82);
  const auto refused = run_self_test(subject, too_small);
  REQUIRE(refused.ok());
  CHECK(refused->mode == replication_mode::replay);
}

TEST_CASE("self-test: whatever does not come back is replayed") {
  using fault = faulty_engine::fault;
  for (const auto kind : {fault::none, fault::late_row, fault::middle, fault::exports_nothing}) {
    INFO("fault " << static_cast<int>(kind));
    toy_engine inner;
    faulty_engine subject(inner, kind);
    auto device = device_of(1U << 16);
    const auto report = run_self_test(subject, device);
    REQUIRE(report.ok());
    INFO(report->reason);
    CHECK((report->mode == replication_mode::rows) == (kind == fault::none));
    CHECK_FALSE(report->reason.empty());
  }
  toy_engine::options how;
  how.can_export_rows = false;
  how.can_truncate = false;
  toy_engine replayed(how);
  auto device = device_of(1U << 16);
  const auto report = run_self_test(replayed, device);
  REQUIRE(report.ok());
  CHECK(report->mode == replication_mode::replay);
}

TEST_CASE("self-test: fails only if the engine cannot evaluate") {
  toy_engine inner;
  faulty_engine subject(inner, faulty_engine::fault::evaluates_nothing);
  auto device = device_of(1U << 16);
  CHECK(run_self_test(subject, device).code() == errc::engine_failed);
}

}  // namespace baton::actors::engines
