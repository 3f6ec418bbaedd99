#include "actors/protocol/link_sender.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "tests/unit/protocol/support.hpp"

namespace baton::test {
namespace {

using namespace actors::protocol;
using std::chrono::milliseconds;

constexpr group_id group{1};
constexpr session_id session{7};
constexpr baton::epoch now_epoch{5};

/// A sender with one session of 10 prompt tokens and 10 generated ones, and 20 rows.
struct bench {
  link_sender::options how{};
  link_sender sender{options()};
  session_log log = log_of(10, 10);
  time_point now{milliseconds{1000}};

  static link_sender::options options() {
    link_sender::options it;
    it.fingerprint = fingerprint;
    it.regions = 1;
    it.window_deltas = 2;
    it.delta_tokens = 4;
    it.deadline = milliseconds{400};
    return it;
  }
  link_effects begin() {
    sender.on_session(group, now_epoch, log, 20, now);
    return sender.on_connected(now, true);
  }
  replica_ack ack(position logged, position synced, position expected, std::uint64_t sequence = ~0ULL) const {
    replica_ack it;
    it.session = session;
    it.epoch = now_epoch;
    it.logged = logged;
    it.chain = log.chain_at(logged);
    it.synced = synced;
    it.expected = expected;
    it.sequence = sequence;
    return it;
  }
  replica_ack problem(errc code, bool about_rows, position expected = 0) const {
    replica_ack it = ack(20, 0, expected);
    it.has_problem = true;
    it.problem = code;
    it.about_rows = about_rows;
    return it;
  }
  /// Connected, and the standby has answered that it holds all records and no rows.
  void stream() {
    begin();
    const auto effects = sender.on_ack(ack(20, 0, 0), now);
    REQUIRE(only<want_rows>(effects) != nullptr);
    REQUIRE(only<want_rows>(effects)->first == 0);
  }
  /// Packed rows come by; true if they were sent.
  bool pack(position first, std::uint32_t count) {
    bool sent = false;
    last = sender.on_packed({session, first, count, count * 8ULL, 1, 0, 0}, sent, now);
    return sent;
  }
  link_effects last;
};

}  // namespace

TEST_CASE("link_sender: a connection begins with probes, then records, then rows") {
  bench it;
  const auto begun = it.begin();
  REQUIRE(begun.size() == 1);
  const auto& probes = std::get<resync_frame>(only<send_frame>(begun)->frame);
  CHECK(probes.probes == it.log.probes());
  CHECK(probes.epoch == now_epoch);
  CHECK_FALSE(it.pack(0, 4));  // not yet
  const auto answered = it.sender.on_ack(it.ack(4, 0, 0), it.now);
  const auto frames = all<send_frame>(answered);
  REQUIRE(frames.size() == 1);
  const auto& sent = std::get<records_frame>(frames[0].frame);
  CHECK(std::get<tokens_record>(sent.sessions[0].records[0]).first == 4);
  CHECK(sent.sessions[0].sequence > probes.sequence);
  REQUIRE(only<standby_progress>(answered) != nullptr);
  CHECK(only<standby_progress>(answered)->logged == 4);
  CHECK(only<standby_progress>(answered)->chain == it.log.chain_at(4));
  const auto* wanted = only<want_rows>(answered);
  REQUIRE(wanted != nullptr);
  CHECK((wanted->first == 0 && wanted->count == 4));
  REQUIRE(it.pack(0, 4));
  const auto* rows = only<send_rows>(it.last);
  CHECK(rows->rows.chain_before == it.log.chain_at(0));
  CHECK(rows->rows.chain_after == it.log.chain_at(4));
  CHECK(rows->rows.fingerprint == fingerprint);
}

TEST_CASE("link_sender: a session that has just been born needs no probes") {
  bench it;
  it.sender.on_connected(it.now, true);
  const session_log none{session, fingerprint};
  CHECK(it.sender.on_session(group, now_epoch, none, 0, it.now).empty());
  const auto said = it.sender.on_records({{group, now_epoch, session, {open_record{turn(1, 0, 4)}}}}, it.now);
  CHECK(only<send_frame>(said) != nullptr);
  // Of another epoch: not ours.
  CHECK(it.sender.on_records({{group, baton::epoch{4}, session, {close_record{1}}}}, it.now).empty());
  // Dropped and opened again: the standby may hold the old one.
  it.sender.on_session_ended(session, true);
  const auto again = it.sender.on_session(group, now_epoch, none, 0, it.now);
  REQUIRE(only<send_frame>(again) != nullptr);
  CHECK(std::holds_alternative<resync_frame>(only<send_frame>(again)->frame));
}

TEST_CASE("link_sender: the window") {
  bench it;
  it.stream();
  CHECK(it.pack(0, 4));
  CHECK(it.pack(4, 4));
  CHECK_FALSE(it.pack(8, 4));
  CHECK(it.sender.synced(session) == 0);
  const auto effects = it.sender.on_ack(it.ack(20, 4, 8), it.now);
  CHECK(it.sender.synced(session) == 4);
  REQUIRE(only<want_rows>(effects) != nullptr);
  CHECK(only<want_rows>(effects)->first == 8);
  CHECK(it.pack(8, 4));
  CHECK_FALSE(it.pack(16, 4));  // not the next ones
  CHECK(it.sender.counted().deltas == 3);
  CHECK(it.sender.counted().retransmitted_tokens == 0);
}

TEST_CASE("link_sender: refused rows are sent again from where the standby stands, once") {
  bench it;
  it.stream();
  REQUIRE(it.pack(0, 4));
  REQUIRE(it.pack(4, 4));
  // The first was corrupt, the second came after that.
  it.sender.on_ack(it.problem(errc::corrupt, true, 0), it.now);
  CHECK(it.sender.on_ack(it.problem(errc::gap, true, 0), it.now).size() == 1);  // asks
  REQUIRE(it.pack(0, 4));
  // A late refusal of what was sent before must not send it yet again.
  CHECK(it.sender.on_ack(it.problem(errc::gap, true, 0), it.now).empty());
  CHECK(it.pack(4, 4));
  CHECK(it.sender.counted().retransmitted_tokens == 8);
  // The standby is ahead of what was thought: skip.
  it.sender.on_ack(it.problem(errc::gap, true, 12), it.now);
  CHECK_FALSE(it.pack(8, 4));
  CHECK(it.pack(12, 4));
}

TEST_CASE("link_sender: rows given up by the standby are asked for again") {
  bench it;
  it.stream();
  REQUIRE(it.pack(0, 4));
  REQUIRE(it.pack(4, 4));
  it.sender.on_records({{group, now_epoch, session, {truncate_record{6, it.log.chain_at(6)}}}}, it.now);
  // [4, 8) reached over the cut, so the standby has given it up, and [0, 4), which had not been imported yet,
  // too.
  const auto effects = it.sender.on_ack(it.ack(6, 0, 0), it.now);
  REQUIRE(only<want_rows>(effects) != nullptr);
  CHECK(only<want_rows>(effects)->first == 0);
}

TEST_CASE("link_sender: acknowledgements that do not count") {
  bench it;
  it.stream();
  SECTION("of an unknown session") {
    replica_ack other = it.ack(20, 20, 20);
    other.session = session_id{99};
    CHECK(it.sender.on_ack(other, it.now).empty());
  }
  SECTION("of a lower epoch") {
    replica_ack old = it.ack(20, 20, 20);
    old.epoch = baton::epoch{4};
    CHECK(it.sender.on_ack(old, it.now).empty());
    CHECK(it.sender.synced(session) == 0);
  }
  SECTION("of a higher epoch: this node has been replaced") {
    replica_ack higher = it.ack(20, 20, 20);
    higher.epoch = baton::epoch{6};
    CHECK(only<fenced>(it.sender.on_ack(higher, it.now))->epoch == baton::epoch{6});
    CHECK(only<fenced>(it.sender.on_ack(it.problem(errc::stale_epoch, false), it.now)) != nullptr);
  }
  SECTION("of another history") {
    replica_ack fork = it.ack(20, 20, 20);
    fork.chain ^= 1;
    CHECK(it.sender.on_ack(fork, it.now).empty());
    CHECK(it.sender.synced(session) == 0);
  }
  SECTION("of more than there is") {
    replica_ack more = it.ack(20, 20, 20);
    more.logged = 21;
    CHECK(it.sender.on_ack(more, it.now).empty());
  }
  SECTION("from before a cut, although the same has followed it since") {
    const auto cut = it.sender.on_records(
        {{group,
          now_epoch,
          session,
          {truncate_record{12, it.log.chain_at(12)}, tokens_record{12, it.log.chain_at(12), tokens(12, 8)}}}},
        it.now);
    const std::uint64_t sequence = std::get<records_frame>(only<send_frame>(cut)->frame).sessions[0].sequence;
    CHECK(it.sender.on_ack(it.ack(20, 16, 16, sequence - 1), it.now).empty());
    const auto after = it.sender.on_ack(it.ack(20, 12, 12, sequence), it.now);
    REQUIRE(only<standby_progress>(after) != nullptr);
    CHECK(only<standby_progress>(after)->cuts == 1);
  }
  SECTION("that answer no probes") {
    const auto probed = it.sender.on_ack(it.problem(errc::gap, false), it.now);
    const std::uint64_t sequence = std::get<resync_frame>(only<send_frame>(probed)->frame).sequence;
    CHECK(it.sender.on_ack(it.ack(18, 0, 0, sequence - 1), it.now).empty());
    CHECK(only<send_frame>(it.sender.on_ack(it.ack(18, 0, 0, sequence), it.now)) != nullptr);
  }
}

TEST_CASE("link_sender: probes come closer until both have the point") {
  bench it;
  it.begin();
  replica_ack fork = it.ack(15, 0, 0);
  fork.chain ^= 1;
  const auto closer = it.sender.on_ack(fork, it.now);
  const auto& probes = std::get<resync_frame>(only<send_frame>(closer)->frame).probes;
  CHECK(probes[0].length == 20);
  CHECK(probes[1].length == 15);
  CHECK(probes[2].length == 14);
  const auto found = it.sender.on_ack(it.ack(12, 0, 0), it.now);
  CHECK(std::get<records_frame>(all<send_frame>(found)[0].frame).sessions[0].records.size() == 1);
}

TEST_CASE("link_sender: a standby without room, and again later") {
  bench it;
  it.stream();
  const auto refused = it.sender.on_ack(it.problem(errc::no_room, false), it.now);
  REQUIRE(only<unprotected>(refused) != nullptr);
  CHECK(only<unprotected>(refused)->code == errc::no_room);
  CHECK(it.sender.on_records({{group, now_epoch, session, {close_record{1}}}}, it.now).empty());
  CHECK_FALSE(it.pack(0, 4));
  for (const int wait : {50, 100, 200, 400, 800, 1600, 1600}) {  // of a deadline of 400 ms
    it.now += milliseconds{wait};
    CHECK(it.sender.on_tick(it.now).empty());  // nothing is owed by it
    it.now += milliseconds{1};
    CHECK(only<send_frame>(it.sender.on_tick(it.now)) != nullptr);
    CHECK(only<unprotected>(it.sender.on_ack(it.problem(errc::no_room, false), it.now)) != nullptr);
  }
  it.now += milliseconds{1601};
  CHECK(only<send_frame>(it.sender.on_tick(it.now)) != nullptr);
  CHECK_FALSE(only<standby_progress>(it.sender.on_ack(it.ack(20, 0, 0), it.now)) == nullptr);
  CHECK(it.pack(0, 4));
}

TEST_CASE(
    "link_sender: the last rows of a turn, for which there was no staging memory, are asked for on a tick") {
  bench it;
  it.stream();
  REQUIRE(it.pack(0, 4));
  it.sender.on_rows_held(session, 4);
  CHECK(it.sender.on_ack(it.ack(20, 4, 4), it.now).size() == 1);  // progress; nothing is known to be missing
  it.sender.on_made(session, 6);
  it.now += milliseconds{101};
  const auto ticked = it.sender.on_tick(it.now);
  REQUIRE(only<want_rows>(ticked) != nullptr);
  CHECK(only<want_rows>(ticked)->first == 4);
  CHECK(only<want_rows>(ticked)->count == 2);
}

TEST_CASE("link_sender: a standby without room is asked again once it has been told to drop a session") {
  bench it;
  it.stream();
  it.sender.on_session(group, now_epoch, session_log{session_id{8}, fingerprint}, 0, it.now);
  it.sender.on_ack(it.problem(errc::no_room, false), it.now);
  CHECK(it.sender.on_tick(it.now).empty());
  it.now += milliseconds{1};
  CHECK(it.sender.on_tick(it.now).empty());
  it.sender.on_session_ended(session_id{8}, true);
  CHECK(only<send_frame>(it.sender.on_tick(it.now)) != nullptr);
}

TEST_CASE("link_sender: a standby short of staging memory is asked again on a tick, not at once") {
  bench it;
  it.stream();
  REQUIRE(it.pack(0, 4));
  CHECK(it.sender.on_ack(it.problem(errc::no_room, true, 0), it.now).empty());
  it.now += milliseconds{50};
  const auto ticked = it.sender.on_tick(it.now);
  REQUIRE(only<want_rows>(ticked) != nullptr);
  CHECK(only<want_rows>(ticked)->first == 0);
}

TEST_CASE("link_sender: silence") {
  bench it;
  SECTION("records without an answer stall the link") {
    it.stream();
    it.sender.on_records({{group, now_epoch, session, {tokens_record{20, it.log.chain(), {1}}}}}, it.now);
    it.now += milliseconds{400};
    CHECK(only<link_stalled>(it.sender.on_tick(it.now)) == nullptr);
    it.now += milliseconds{1};
    CHECK(only<link_stalled>(it.sender.on_tick(it.now)) != nullptr);
  }
  SECTION("probes without an answer are sent again, then stall the link") {
    it.begin();
    it.now += milliseconds{101};
    CHECK(only<send_frame>(it.sender.on_tick(it.now)) != nullptr);
    it.now += milliseconds{300};
    CHECK(only<link_stalled>(it.sender.on_tick(it.now)) != nullptr);
  }
  SECTION("an export that came to nothing is asked for again") {
    it.stream();
    it.now += milliseconds{101};
    CHECK(only<want_rows>(it.sender.on_tick(it.now)) != nullptr);
  }
  SECTION("without a connection nothing happens") {
    it.stream();
    it.sender.on_disconnected();
    it.now += milliseconds{5000};
    CHECK(it.sender.on_tick(it.now).empty());
    CHECK_FALSE(it.pack(0, 4));
  }
}

TEST_CASE("link_sender: fewer rows in the engine do not void what the standby holds") {
  bench it;
  it.stream();
  REQUIRE(it.pack(0, 4));
  it.sender.on_ack(it.ack(20, 4, 4), it.now);
  it.sender.on_rows_held(session, 0);  // a batch is made again
  CHECK(it.sender.synced(session) == 4);
  CHECK_FALSE(it.pack(0, 2));
  CHECK(it.pack(4, 2));
}

TEST_CASE("link_sender: a dropped session is said again after a reconnect, and not for ever") {
  bench it;
  it.stream();
  it.sender.on_disconnected();
  CHECK(it.sender.on_session_ended(session, true).empty());
  const auto drops = [](const link_effects& effects) {
    const auto* frame = only<send_frame>(effects);
    return frame != nullptr &&
           std::holds_alternative<drop_record>(std::get<records_frame>(frame->frame).sessions[0].records[0]);
  };
  CHECK(drops(it.sender.on_connected(it.now, true)));
  it.sender.on_disconnected();
  CHECK(drops(it.sender.on_connected(it.now, true)));
  it.sender.on_tick(it.now);
  it.now += milliseconds{1601};
  it.sender.on_tick(it.now);
  it.sender.on_disconnected();
  CHECK(it.sender.on_connected(it.now, true).empty());
}

TEST_CASE("link_sender: what a standby is not known to hold is its lag") {
  SECTION("of rows") {
    bench it;
    CHECK(it.sender.lag_tokens() == 0);
    it.begin();
    CHECK(it.sender.lag_tokens() == 19);  // of a log of 20: the last has no row yet
    it.sender.on_ack(it.ack(20, 0, 0), it.now);
    CHECK(it.sender.lag_tokens() == 19);
    it.sender.on_ack(it.ack(20, 12, 12), it.now);
    CHECK(it.sender.lag_tokens() == 7);
    it.sender.on_session_ended(session, false);
    CHECK(it.sender.lag_tokens() == 0);
  }
  SECTION("of records, where rows do not move") {
    bench it;
    it.sender.on_session(group, now_epoch, it.log, 20, it.now);
    it.sender.on_connected(it.now, false);
    CHECK(it.sender.lag_tokens() == 20);
    it.sender.on_ack(it.ack(20, 0, 0), it.now);
    CHECK(it.sender.lag_tokens() == 0);
  }
}

}  // namespace baton::test
