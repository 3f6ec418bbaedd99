#include "actors/protocol/replica_set.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "tests/unit/protocol/support.hpp"

namespace baton::test {
namespace {

using namespace actors::protocol;

constexpr group_id group{1};
constexpr session_id session{7};
constexpr std::uint64_t bytes_per_token = 16;

replica_set::options usual() {
  replica_set::options how;
  how.fingerprint = fingerprint;
  how.regions = 2;
  how.bytes_per_token = bytes_per_token;
  how.context_tokens = 40;
  how.prefill_chunk = 4;
  how.sessions = 4;
  how.places = std::make_shared<engine_places>(6, 2);
  return how;
}

/// A standby and the history that its owner has.
struct bench {
  replica_set standby{usual()};
  session_log owner = log_of(10, 10);
  baton::epoch now{5};
  std::uint64_t sequence = 0;

  session_records records(std::vector<session_record> what, baton::epoch under) {
    return {group, under, session, std::move(what), ++sequence};
  }
  replica_effects say(std::vector<session_record> what) {
    return standby.on_records(1, records(std::move(what), now));
  }
  replica_effects probe(const session_log& log, peer_handle from = 1) {
    return standby.on_resync(from, {group, now, session, log.probes(), ++sequence});
  }
  delta_descriptor delta(position first, std::uint32_t count) const {
    delta_descriptor rows;
    rows.group = group;
    rows.epoch = now;
    rows.session = session;
    rows.first = first;
    rows.count = count;
    rows.chain_before = owner.chain_at(first);
    rows.chain_after = owner.chain_at(first + count);
    rows.fingerprint = fingerprint;
    rows.regions = 2;
    rows.bytes = count * bytes_per_token;
    rows.checksum = first * 100 + count;
    return rows;
  }
  bool admit(const delta_descriptor& rows, replica_effects& effects, peer_handle from = 1) {
    effects.clear();
    return standby.admit(from, rows, effects);
  }
  /// Rows [first, first + count) come, land and are imported.
  void sync(position first, std::uint32_t count) {
    replica_effects effects;
    REQUIRE(admit(delta(first, count), effects));
    const auto landed = standby.on_landed(delta(first, count), 0);
    const auto* rows = only<import_rows>(landed);
    REQUIRE(rows != nullptr);
    const auto done = standby.on_imported(session, rows->generation, first + count, {});
    REQUIRE(only<send_ack>(done) != nullptr);
    REQUIRE(only<send_ack>(done)->ack.synced == first + count);
  }
  /// The whole history, and rows [0, rows).
  void fill(position rows = 0) {
    REQUIRE(only<send_ack>(probe(owner)) != nullptr);
    for (const session_record& record : owner.records_from(0))
      REQUIRE_FALSE(only<send_ack>(say({record}))->ack.has_problem);
    if (rows > 0) sync(0, rows);
  }
};

const replica_ack& ack_of(const replica_effects& effects) {
  const auto* ack = only<send_ack>(effects);
  REQUIRE(ack != nullptr);
  return ack->ack;
}

}  // namespace

TEST_CASE("replica_set: follows its owner and says so") {
  bench it;
  const auto begun = it.say({open_record{it.owner.turns()[0]}});
  CHECK(ack_of(begun).logged == 0);
  CHECK(ack_of(begun).sequence == 1);
  const auto more = it.say({tokens_record{0, it.owner.chain_at(0), tokens(0, 20)}});
  const replica_ack expected{session, it.now, 20, it.owner.chain(), 0, 0, false, errc::gap, false, 2};
  CHECK(ack_of(more) == expected);
  it.sync(0, 8);
  it.sync(8, 4);
  CHECK(it.standby.synced(session) == 12);
  REQUIRE(it.standby.summaries().size() == 1);
  const auto sum = it.standby.summaries()[0];
  CHECK(sum.group == group);
  CHECK(sum.epoch == it.now);
  CHECK(sum.sessions == 1);
  CHECK(sum.synced_tokens == 12);
  CHECK(sum.lag_tokens == 7);  // the last token has no row yet
  const auto cut = it.say({truncate_record{10, it.owner.chain_at(10)}});
  CHECK(only<cut_rows>(cut)->length == 10);
  CHECK(ack_of(cut).synced == 10);
  const auto gone = it.say({drop_record{}});
  CHECK(only<drop_rows>(gone) != nullptr);
  CHECK(it.standby.size() == 0);
}

TEST_CASE("replica_set: epochs") {
  bench it;
  it.fill();
  const auto tail = [&](std::uint64_t under) {
    return it.records({tokens_record{20, it.owner.chain(), {1}}}, baton::epoch{under});
  };
  for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{4}}) {
    const auto effects = it.standby.on_records(1, tail(low));
    CHECK(ack_of(effects).has_problem);
    CHECK(ack_of(effects).problem == errc::stale_epoch);
    CHECK(ack_of(effects).epoch == it.now);
    CHECK(ack_of(effects).logged == 20);
  }
  CHECK(it.standby.counted().stale == 2);
  // A higher one counts from then on, but the new owner must first find out what is held here.
  const auto higher = it.standby.on_records(2, tail(6));
  CHECK(ack_of(higher).problem == errc::gap);
  CHECK(it.standby.highest_epoch(group) == baton::epoch{6});
  CHECK(ack_of(it.standby.on_records(1, tail(5))).problem == errc::stale_epoch);
  it.now = baton::epoch{6};
  CHECK(ack_of(it.probe(it.owner, 2)).logged == 20);
  CHECK_FALSE(ack_of(it.standby.on_records(2, tail(6))).has_problem);
  const auto top = it.standby.on_resync(3, {group, baton::epoch{~0ULL}, session, it.owner.probes()});
  CHECK_FALSE(ack_of(top).has_problem);
  CHECK(ack_of(it.standby.on_records(1, tail(6))).problem == errc::stale_epoch);
  it.standby.fence(group_id{2}, baton::epoch{9});
  it.standby.fence(group_id{2}, baton::epoch{3});
  CHECK(it.standby.highest_epoch(group_id{2}) == baton::epoch{9});
}

TEST_CASE("replica_set: what does not follow is refused, and nothing counts until probes have come") {
  struct row {
    const char* what;
    session_record record;
    errc code;
  };
  const session_log other = log_of(10, 10, 3);
  const std::vector<row> table{
      {"a gap", tokens_record{21, 5, {1}}, errc::gap},
      {"a fork", tokens_record{20, other.chain(), {1}}, errc::fork},
      {"chain zero", tokens_record{20, 0, {1}}, errc::fork},
      {"an overlap with other tokens", tokens_record{18, log_of(10, 10).chain_at(18), {1, 2, 3}}, errc::fork},
      {"a turn past the end", open_record{turn(2, 22, 23)}, errc::gap},
      {"a cut past the end", truncate_record{22, 1}, errc::gap},
      {"a cut of another history", truncate_record{18, other.chain_at(18)}, errc::fork},
  };
  for (const row& it : table) {
    INFO(it.what);
    bench b;
    b.fill(8);
    const auto refused = b.say({it.record});
    CHECK(ack_of(refused).has_problem);
    CHECK(ack_of(refused).problem == it.code);
    CHECK_FALSE(ack_of(refused).about_rows);
    CHECK(b.standby.log_of(session)->point() == b.owner.point());
    const auto after = b.say({tokens_record{20, b.owner.chain(), {1}}});
    CHECK(ack_of(after).has_problem);
    CHECK(b.standby.log_of(session)->length() == 20);
    CHECK(b.standby.synced(session) == 8);
    CHECK_FALSE(ack_of(b.probe(b.owner)).has_problem);
    CHECK(ack_of(b.say({tokens_record{20, b.owner.chain(), {1}}})).logged == 21);
    CHECK(b.standby.counted().gaps + b.standby.counted().forks == 1);
  }
}

TEST_CASE("replica_set: rows that must not land") {
  struct row {
    const char* what;
    void (*change)(delta_descriptor&);
    errc code;
  };
  const std::vector<row> table{
      {"lower epoch", [](delta_descriptor& it) { it.epoch = baton::epoch{4}; }, errc::stale_epoch},
      {"epoch 0", [](delta_descriptor& it) { it.epoch = baton::epoch{0}; }, errc::stale_epoch},
      {"higher epoch, before probes", [](delta_descriptor& it) { it.epoch = baton::epoch{~0ULL}; },
       errc::gap},
      {"unknown session", [](delta_descriptor& it) { it.session = session_id{99}; }, errc::gap},
      {"session of another group", [](delta_descriptor& it) { it.group = group_id{2}; },
       errc::unknown_session},
      {"another fingerprint", [](delta_descriptor& it) { it.fingerprint ^= 1; }, errc::fingerprint_mismatch},
      {"another layout", [](delta_descriptor& it) { it.regions = 3; }, errc::fingerprint_mismatch},
      {"a part of the layout", [](delta_descriptor& it) { it.first_region = 1; }, errc::fingerprint_mismatch},
      {"too few bytes", [](delta_descriptor& it) { it.bytes -= 1; }, errc::malformed},
      {"no bytes", [](delta_descriptor& it) { it.bytes = 0; }, errc::malformed},
      {"too many bytes", [](delta_descriptor& it) { it.bytes *= 2; }, errc::malformed},
      {"no rows",
       [](delta_descriptor& it) {
         it.count = 0;
         it.bytes = 0;
         it.chain_after = it.chain_before;
       },
       errc::malformed},
      {"more rows than numbers",
       [](delta_descriptor& it) {
         it.count = 0xffff'fffe;
         it.bytes = it.count * bytes_per_token;
       },
       errc::malformed},
      {"a gap", [](delta_descriptor& it) { ++it.first; }, errc::gap},
      {"an overlap", [](delta_descriptor& it) { --it.first; }, errc::gap},
      {"past the log",
       [](delta_descriptor& it) {
         it.count = 13;
         it.bytes = 13 * bytes_per_token;
       },
       errc::gap},
      {"chain before of another branch", [](delta_descriptor& it) { it.chain_before ^= 1; }, errc::fork},
      {"chain after of another branch", [](delta_descriptor& it) { it.chain_after ^= 1; }, errc::fork},
      {"chain zero", [](delta_descriptor& it) { it.chain_after = 0; }, errc::fork},
  };
  for (const row& it : table) {
    INFO(it.what);
    bench b;
    b.fill(8);
    delta_descriptor rows = b.delta(8, 4);
    it.change(rows);
    replica_effects effects;
    CHECK_FALSE(b.admit(rows, effects));
    CHECK(ack_of(effects).has_problem);
    CHECK(ack_of(effects).problem == it.code);
    CHECK(b.standby.synced(session) == 8);
    CHECK(b.standby.on_landed(rows, 1).empty());  // it was not admitted
  }
  bench b;
  b.owner = log_of(10, 35);
  b.fill(36);
  replica_effects effects;
  CHECK_FALSE(b.admit(b.delta(36, 5), effects));
  CHECK(ack_of(effects).problem == errc::context_full);
  CHECK(b.admit(b.delta(36, 4), effects));
}

TEST_CASE("replica_set: rows that land after a cut, or twice, or out of order") {
  bench it;
  it.fill(8);
  replica_effects effects;
  REQUIRE(it.admit(it.delta(8, 2), effects));
  REQUIRE(it.admit(it.delta(10, 2), effects));
  SECTION("after a cut") {
    const auto cut = it.say({truncate_record{11, it.owner.chain_at(11)}});
    CHECK(only<cut_rows>(cut)->length == 8);  // what was on its way is given up as well
    CHECK(ack_of(cut).expected == 8);
    CHECK(it.standby.on_landed(it.delta(8, 2), 1).empty());
    CHECK(it.standby.on_landed(it.delta(10, 2), 1).empty());
  }
  SECTION("after probes") {
    it.probe(it.owner);
    CHECK(it.standby.on_landed(it.delta(8, 2), 1).empty());
    // The same again, and both report: once counts.
    REQUIRE(it.admit(it.delta(8, 2), effects));
    CHECK(only<import_rows>(it.standby.on_landed(it.delta(8, 2), 1)) != nullptr);
    CHECK(it.standby.on_landed(it.delta(8, 2), 1).empty());
  }
  SECTION("imported after a cut") {
    const auto landed = it.standby.on_landed(it.delta(8, 2), 1);
    const std::uint64_t generation = only<import_rows>(landed)->generation;
    CHECK(it.standby.current(session, generation));
    it.say({truncate_record{9, it.owner.chain_at(9)}});
    CHECK_FALSE(it.standby.current(session, generation));
    CHECK(it.standby.on_imported(session, generation, 10, {}).empty());
    CHECK(it.standby.synced(session) == 8);
  }
  SECTION("imported after the session has gone and come again") {
    const auto landed = it.standby.on_landed(it.delta(8, 2), 1);
    const std::uint64_t generation = only<import_rows>(landed)->generation;
    auto taken = it.standby.promote(group, baton::epoch{6});
    REQUIRE(taken);
    it.standby.take_back(group, std::move(*taken));
    CHECK(it.standby.on_imported(session, generation, 10, {}).empty());
    CHECK(it.standby.synced(session) == 8);
  }
  SECTION("out of order") {
    const auto late = it.standby.on_landed(it.delta(10, 2), 1);
    CHECK(ack_of(late).has_problem);
    CHECK(ack_of(late).about_rows);
    CHECK(ack_of(late).expected == 8);
    CHECK(it.standby.on_landed(it.delta(8, 2), 1).empty());
    CHECK(it.admit(it.delta(8, 2), effects));
  }
  SECTION("landing failed") {
    const auto failed = it.standby.on_landing_failed(1, it.delta(8, 2), errc::no_room);
    CHECK(ack_of(failed).problem == errc::no_room);
    CHECK(ack_of(failed).about_rows);
    CHECK(ack_of(failed).expected == 8);
    CHECK(it.standby.on_landing_failed(1, it.delta(8, 2), errc::no_room).size() ==
          1);  // says so, cuts nothing more
    CHECK(it.standby.on_landing_failed(9, it.delta(8, 2), errc::connection_lost).empty());
  }
  SECTION("corrupt") {
    const auto first = it.standby.on_landed(it.delta(8, 2), 1);
    const auto second = it.standby.on_landed(it.delta(10, 2), 1);
    const auto bad =
        it.standby.on_imported(session, only<import_rows>(first)->generation, 10, {errc::corrupt, ""});
    CHECK(ack_of(bad).problem == errc::corrupt);
    CHECK(ack_of(bad).expected == 8);
    CHECK(only<cut_rows>(bad)->length == 8);
    CHECK(it.standby.on_imported(session, only<import_rows>(second)->generation, 12, {}).empty());
    CHECK(it.standby.counted().corrupt == 1);
    it.sync(8, 4);
  }
}

TEST_CASE("replica_set: a turn voids the row before its prompt, and a batch that it cuts short") {
  bench it;
  it.fill(20);
  const auto at_end = it.say({open_record{turn(2, 20, 24)}});
  CHECK(ack_of(at_end).synced == 19);
  const auto again = it.say({open_record{turn(2, 20, 24)}});
  CHECK(ack_of(again).synced == 19);
  CHECK(only<cut_rows>(again) == nullptr);
  it.say({truncate_record{7, it.owner.chain_at(7)}});
  const auto inside = it.say({open_record{turn(2, 7, 12)}});
  CHECK(ack_of(inside).logged == 7);
  CHECK(ack_of(inside).synced == 4);  // [4, 8) was one batch; it is [4, 6) now
}

TEST_CASE("replica_set: probes cut what they contradict, not what they do not reach") {
  bench it;
  it.fill(20);
  SECTION("the owner is ahead") {
    session_log more = it.owner;
    REQUIRE(more.append(tokens(20, 100)));
    CHECK(ack_of(it.probe(more)).logged == 20);
    CHECK(it.standby.synced(session) == 20);
  }
  SECTION("the owner is behind") {
    session_log less = it.owner;
    less.truncate(13);
    CHECK(ack_of(it.probe(less)).logged == 13);
    CHECK(it.standby.synced(session) == 13);
  }
  SECTION("a fork") {
    for (const position at : {15U, 11U, 0U}) {
      session_log fork = at == 0 ? log_of(10, 10, 4) : it.owner;
      fork.truncate(at == 0 ? 20 : at);
      REQUIRE(fork.append(tokens(fork.length(), 30, 9)));
      position logged = it.standby.log_of(session)->length();
      for (int round = 0; round < 6 && logged > at; ++round) {
        const auto effects =
            it.standby.on_resync(1, {group, it.now, session, fork.probes(logged), ++it.sequence});
        REQUIRE(ack_of(effects).logged >= at);
        logged = ack_of(effects).logged;
      }
      CHECK(logged == at);
      CHECK(it.standby.synced(session) == at);
    }
  }
  SECTION("no probes at all") {
    CHECK(ack_of(it.standby.on_resync(1, {group, it.now, session, {}})).logged == 20);
  }
}

TEST_CASE("replica_set: late frames of a replaced connection do nothing") {
  bench it;
  it.fill(8);
  it.probe(it.owner, 2);
  const auto untouched = [&] {
    return it.standby.log_of(session)->point() == it.owner.point() && it.standby.synced(session) == 8;
  };
  CHECK(it.say({truncate_record{3, it.owner.chain_at(3)}}).empty());
  CHECK(it.say({drop_record{}}).empty());
  session_log less = it.owner;
  less.truncate(3);
  CHECK(it.probe(less, 1).empty());
  replica_effects effects;
  CHECK_FALSE(it.admit(it.delta(8, 2), effects));
  CHECK(effects.empty());
  CHECK(untouched());
  CHECK(it.standby.counted().stale == 4);
}

TEST_CASE("replica_set: anything said up to three times changes nothing but counters") {
  bench it;
  it.fill(8);
  const auto records = it.owner.records_from(0);
  for (int again = 0; again < 3; ++again)
    for (const session_record& record : records) {
      const auto effects = it.say({record});
      CHECK(effects.size() == 1);
      CHECK(ack_of(effects).logged == 20);
      CHECK(ack_of(effects).chain == it.owner.chain());
      CHECK(ack_of(effects).synced == 8);
    }
  for (int again = 0; again < 3; ++again)
    CHECK(ack_of(it.probe(it.owner)).synced == 8);
  replica_effects effects;
  REQUIRE(it.admit(it.delta(8, 2), effects));
  for (int again = 0; again < 3; ++again) {
    CHECK_FALSE(it.admit(it.delta(8, 2), effects));
    CHECK(ack_of(effects).problem == errc::gap);
    CHECK(ack_of(effects).expected == 10);
  }
}

TEST_CASE("replica_set: room") {
  bench it;
  for (std::uint64_t id = 1; id <= 4; ++id)
    CHECK_FALSE(ack_of(it.standby.on_resync(1, {group, it.now, session_id{id}, {}})).has_problem);
  CHECK(ack_of(it.standby.on_resync(1, {group, it.now, session_id{5}, {}})).problem == errc::no_room);
  CHECK(ack_of(it.standby.on_records(1, {group, it.now, session_id{5}, {open_record{turn(1, 0, 1)}}}))
            .problem == errc::no_room);
  CHECK(it.standby.on_records(1, {group, it.now, session_id{5}, {drop_record{}}}).empty());
  CHECK(it.standby.size() == 4);
  it.standby.on_records(1, {group, it.now, session_id{4}, {drop_record{}}});
  CHECK_FALSE(ack_of(it.standby.on_resync(1, {group, it.now, session_id{5}, {}})).has_problem);
  CHECK(it.standby.drop_group(group).size() == 4);
  CHECK(it.standby.size() == 0);
}

TEST_CASE("replica_set: promotion and back") {
  bench it;
  it.fill(8);
  CHECK_FALSE(it.standby.promote(group, baton::epoch{4}));
  auto taken = it.standby.promote(group, baton::epoch{6});
  REQUIRE(taken);
  REQUIRE(taken->size() == 1);
  CHECK(taken->front().log.point() == it.owner.point());
  CHECK(taken->front().synced == 8);
  CHECK(it.standby.owned_here(group));
  CHECK(it.standby.size() == 0);
  // The old owner is a zombie now; so would be anybody under our own epoch.
  CHECK(ack_of(it.say({tokens_record{20, it.owner.chain(), {1}}})).problem == errc::stale_epoch);
  it.now = baton::epoch{6};
  CHECK(ack_of(it.probe(it.owner)).problem == errc::stale_epoch);
  // A new owner elsewhere: not answered, however often it asks, until this node has stepped down.
  it.now = baton::epoch{7};
  for (int again = 0; again < 3; ++again) {
    const auto higher = it.probe(it.owner, 3);
    REQUIRE(only<superseded>(higher) != nullptr);
    CHECK(only<superseded>(higher)->epoch == baton::epoch{7});
    CHECK(only<send_ack>(higher) == nullptr);
  }
  CHECK_FALSE(it.standby.promote(group, baton::epoch{6}));
  it.standby.take_back(group, std::move(*taken));
  CHECK_FALSE(it.standby.owned_here(group));
  CHECK(it.standby.synced(session) == 8);
  CHECK(ack_of(it.probe(it.owner, 3)).logged == 20);
  // Promoted without replicas: an empty list, not nothing.
  const auto none = it.standby.promote(group_id{9}, baton::epoch{8});
  REQUIRE(none);
  CHECK(none->empty());
}

TEST_CASE("replica_set: no replica begins without a place in the engine") {
  auto how = usual();
  how.places = std::make_shared<engine_places>(1, 2);
  replica_set standby{how};
  const auto probe = [&](std::uint64_t id) {
    return ack_of(standby.on_resync(1, {group, baton::epoch{5}, session_id{id}, {}}));
  };
  CHECK_FALSE(probe(1).has_problem);
  CHECK_FALSE(probe(1).has_problem);
  CHECK(probe(2).problem == errc::no_room);
  const auto dropped = standby.on_records(1, {group, baton::epoch{5}, session_id{1}, {drop_record{}}});
  REQUIRE(only<drop_rows>(dropped) != nullptr);
  CHECK(probe(2).problem == errc::no_room);  // until the engine has been told
  how.places->give_back();
  CHECK_FALSE(probe(2).has_problem);
}

TEST_CASE("replica_set: what no owner keeps makes room") {
  replica_set standby{usual()};
  const auto probe = [&](std::uint64_t id, std::uint64_t under) {
    return standby.on_resync(under, {group, baton::epoch{under}, session_id{id}, {}});
  };
  for (std::uint64_t id = 1; id <= 4; ++id)
    probe(id, 5);
  CHECK(ack_of(probe(5, 5)).problem == errc::no_room);  // all are kept by the owner of now
  CHECK_FALSE(ack_of(probe(2, 6)).has_problem);         // another owner, which knows of 2 only
  const auto fifth = probe(5, 6);
  REQUIRE(only<drop_rows>(fifth) != nullptr);
  CHECK(only<drop_rows>(fifth)->session == session_id{1});
  CHECK_FALSE(only<drop_rows>(fifth)->place_unused);  // 5 has it
  CHECK_FALSE(ack_of(fifth).has_problem);
  CHECK_FALSE(ack_of(probe(6, 6)).has_problem);
  CHECK_FALSE(ack_of(probe(7, 6)).has_problem);
  CHECK(standby.size() == 4);
  CHECK(ack_of(probe(8, 6)).problem == errc::no_room);
}

/// Empty sessions that this node has served.
std::vector<held_replica> served(std::uint64_t sessions) {
  std::vector<held_replica> out;
  for (std::uint64_t id = 1; id <= sessions; ++id)
    out.push_back({group, session_log{session_id{id}, fingerprint}, 0});
  return out;
}

TEST_CASE("replica_set: sessions that come back of an own group make room first") {
  replica_set standby{usual()};
  REQUIRE(standby.promote(group, baton::epoch{6}));
  standby.take_back(group, served(4));
  const auto other = standby.on_resync(1, {group_id{9}, baton::epoch{7}, session_id{9}, {}});
  CHECK(only<drop_rows>(other) != nullptr);
  CHECK_FALSE(ack_of(other).has_problem);
}

TEST_CASE("replica_set: sessions that come back beyond the share of replicas are dropped") {
  replica_set standby{usual()};
  REQUIRE(standby.promote(group, baton::epoch{6}));
  CHECK(standby.take_back(group, served(6)).size() == 2);
  CHECK(standby.size() == 4);
}

TEST_CASE("replica_set: a session belongs to whoever holds it under the higher epoch") {
  bench it;
  it.fill(8);
  const auto lower = it.standby.on_resync(1, {group_id{2}, baton::epoch{4}, session, it.owner.probes()});
  CHECK(ack_of(lower).problem == errc::unknown_session);
  CHECK(it.standby.on_records(1, {group_id{2}, baton::epoch{9}, session, {drop_record{}}}).empty());
  CHECK(it.standby.log_of(session)->length() == 20);
  CHECK_FALSE(ack_of(it.standby.on_resync(1, {group_id{2}, baton::epoch{9}, session, it.owner.probes()}))
                  .has_problem);
  CHECK(ack_of(it.probe(it.owner)).problem == errc::unknown_session);
}

}  // namespace baton::test
