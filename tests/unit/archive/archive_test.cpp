#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <set>

#include "actors/archive/reader.hpp"
#include "actors/archive/writer.hpp"
#include "tests/unit/archive/memory_store.hpp"
#include "tests/unit/protocol/support.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;
using actors::archive::manifest_folder;
using actors::archive::reader;
using actors::archive::row_format;
using actors::archive::session_folder;
using actors::archive::writer;

constexpr std::uint64_t row_bytes = 8;
constexpr std::uint32_t chunk = 16;
constexpr row_format format{fingerprint, row_bytes, chunk};
constexpr session_id session{0xabcdef};

/// A session on its way into an archive. The row of a position says which it is and in which history.
struct bench {
  explicit bench(memory_store& objects, baton::epoch under = baton::epoch{5})
      : store(objects),
        log(session, fingerprint),
        epoch(under),
        archiving({fingerprint, row_bytes, 16, 1000ms, 4096}, objects) {}

  void open(position base, position prompt) {
    log.truncate(base);
    REQUIRE(log.begin_turn(turn(number++, base, base + prompt)).ok());
    append(prompt);
  }
  void append(std::size_t count) {
    std::vector<token_id> tokens(count);
    for (token_id& token : tokens)
      token = next_token++;
    REQUIRE(log.append(tokens).ok());
  }
  [[nodiscard]] std::vector<std::byte> rows(position first, position end) const {
    std::vector<std::byte> out((end - first) * row_bytes);
    for (position at = first; at < end; ++at) {
      const std::uint64_t row = std::uint64_t{at} << 32 | static_cast<std::uint32_t>(log.tokens()[at]);
      std::memcpy(out.data() + (at - first) * row_bytes, &row, row_bytes);
    }
    return out;
  }
  result<void> take(position first, position end) {
    return archiving.take(session, generation, first, rows(first, end), now);
  }
  void cut(position length) {
    log.truncate(length);
    archiving.cut(session, length, ++generation);
  }
  void tick(std::chrono::milliseconds later = 0ms) {
    now += later;
    archiving.on_tick(now, [this](session_id) {
      return std::optional{writer::history{log, epoch, generation}};
    });
  }
  /// What can be restored for this history.
  [[nodiscard]] position restorable(const session_log& wanted) const {
    return restorable_from(session, wanted);
  }
  [[nodiscard]] position restorable_from(session_id from, const session_log& wanted) const {
    reader archive{store, from, wanted, format};
    position end = 0;
    for (auto rows = archive.read(0); !rows.empty(); rows = archive.read(end)) {
      REQUIRE(rows.size() % row_bytes == 0);
      for (std::size_t i = 0; i < rows.size(); i += row_bytes, ++end) {
        std::uint64_t row = 0;
        std::memcpy(&row, rows.data() + i, row_bytes);
        REQUIRE(row == (std::uint64_t{end} << 32 | static_cast<std::uint32_t>(wanted.tokens()[end])));
      }
    }
    return end;
  }

  memory_store& store;
  session_log log;
  baton::epoch epoch;
  std::uint64_t generation = 1;
  turn_number number = 1;
  token_id next_token = 100;
  writer::time_point now{};
  writer archiving;
};

}  // namespace

TEST_CASE("rows are written as objects of so many tokens, and a manifest after them") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  it.tick();
  REQUIRE(store.written.size() == 4);
  CHECK(store.written.back().starts_with(manifest_folder(session)));
  CHECK(it.archiving.archived(session) == 39);
  CHECK(it.archiving.waiting_bytes() == 0);
  CHECK(it.restorable(it.log) == 39);
}

TEST_CASE("few rows wait for more, but not for long") {
  memory_store store;
  bench it{store};
  it.open(0, 10);
  REQUIRE(it.take(0, 9).ok());
  it.tick(999ms);
  CHECK(store.puts == 0);
  it.tick(1ms);
  CHECK(it.restorable(it.log) == 9);
}

TEST_CASE("a manifest is replaced, and what it no longer names is removed after it") {
  memory_store store;
  bench it{store};
  it.open(0, 33);
  REQUIRE(it.take(0, 32).ok());
  it.tick();
  it.append(8);
  REQUIRE(it.take(32, 40).ok());
  it.tick(1s);
  CHECK(store.list(manifest_folder(session))->size() == 1);
  CHECK(it.restorable(it.log) == 40);
  CHECK(it.archiving.counted().objects == 3);
}

TEST_CASE("a history that was cut: rows of the dead branch are not found for the living one") {
  memory_store store;
  bench it{store};
  it.open(0, 20);
  it.append(20);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  const session_log dead = it.log;
  it.cut(25);
  it.append(15);  // other tokens
  SECTION("while the manifest is of the dead branch") {
    CHECK(it.restorable(it.log) == 25);
    CHECK(it.restorable(dead) == 39);
  }
  SECTION("once the living one is there") {
    REQUIRE(it.take(25, 39).ok());
    it.tick(1s);
    CHECK(it.restorable(it.log) == 39);
    CHECK(it.restorable(dead) == 25);
  }
  SECTION("a cut that the writer has not heard of stops it") {
    REQUIRE(it.take(25, 39).ok());
    const auto puts = store.puts;
    ++it.generation;  // the receiving end has cut, its order is on the way
    it.tick(1s);
    CHECK(store.puts == puts);
    it.archiving.cut(session, 30, it.generation);
    it.tick(1s);
    CHECK(it.restorable(it.log) == 30);
  }
}

TEST_CASE("rows that do not follow, and rows past the bound, are refused") {
  memory_store store;
  bench it{store};
  it.open(0, 1000);
  CHECK(it.take(1, 2).code() == errc::gap);
  REQUIRE(it.take(0, 10).ok());
  CHECK(it.take(9, 12).code() == errc::gap);
  REQUIRE(it.take(10, 512).ok());
  CHECK(it.take(512, 513).code() == errc::no_room);
  it.tick();
  CHECK(it.take(512, 513).ok());
}

TEST_CASE("a store that fails is asked again, less and less often, and nothing is lost") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  const int failures = GENERATE(1, 2, 3, 4, 9);
  const int first = GENERATE(1, 2, 3, 4);  // an object of rows, or the manifest
  for (int put = first; put < first + failures; ++put)
    store.failing.insert(put);
  for (int tick = 0; tick < 1000 && it.archiving.archived(session) < 39; ++tick)
    it.tick(100ms);
  CHECK(it.archiving.counted().failures == static_cast<std::uint64_t>(failures));
  CHECK(it.restorable(it.log) == 39);
  const int puts = store.puts;
  it.tick(10s);
  CHECK(store.puts == puts);  // all is said
  // What failed may have been written all the same; it is not left behind.
  CHECK(store.list(manifest_folder(session))->size() == 1);
}

TEST_CASE("a later owner's manifest takes the place of an earlier one's once it has as much") {
  memory_store store;
  bench before{store, baton::epoch{5}};
  before.open(0, 20);
  before.append(20);
  REQUIRE(before.take(0, 39).ok());
  before.tick(1s);
  bench after{store, baton::epoch{9}};
  after.open(0, 20);
  after.append(20);
  REQUIRE(after.log.tokens()[39] == before.log.tokens()[39]);
  REQUIRE(after.take(0, 16).ok());
  after.tick();
  CHECK(after.restorable(after.log) == 39);  // of the earlier one
  REQUIRE(after.take(16, 39).ok());
  after.tick(1s);
  CHECK(after.restorable(after.log) == 39);
  for (const auto& [key, object] : store.objects) {
    INFO(key);
    CHECK(key.find("0000000000000009-") != std::string::npos);
  }
  // The earlier owner wakes up: what it writes names rows that are gone, and does no harm.
  before.append(20);
  REQUIRE(before.take(39, 59).ok());
  before.tick(1s);
  CHECK(reader{store, session, before.log, format}.end() == 59);
  CHECK(after.restorable(after.log) == 40);
  CHECK(before.restorable(before.log) == 59);  // the first ones of the later owner's
}

TEST_CASE("a session that is dropped and begun again under its epoch replaces no object, and leaves none") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  const auto before = store.written;
  it.archiving.drop(session);
  REQUIRE(it.take(0, 16).ok());
  it.tick();
  CHECK(it.restorable(it.log) == 39);
  REQUIRE(it.take(16, 39).ok());
  it.tick(1s);
  CHECK(it.restorable(it.log) == 39);
  for (const std::string& key : before)
    CHECK(store.objects.count(key) == 0);
  CHECK(std::set<std::string>(store.written.begin(), store.written.end()).size() == store.written.size());
}

TEST_CASE("rows of a conversation are found for another session that continues it") {
  memory_store store;
  bench it{store};
  it.open(0, 20);
  it.append(20);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  session_log other{session_id{1}, fingerprint};
  session_piece history = it.log.piece_from(0);
  history.session = other.session();
  history.chain_before = other.chain();
  REQUIRE(other.adopt(history).ok());
  CHECK(it.restorable_from(session, other) == 39);
  CHECK(it.restorable_from(other.session(), other) == 0);
  // The next turn begins before the end: batches up to there are the same.
  other.truncate(30);
  REQUIRE(other.begin_turn(turn(7, 30, 35)).ok());
  REQUIRE(other.append(std::vector<token_id>(5, 3)).ok());
  CHECK(it.restorable_from(session, other) == 29);
}

TEST_CASE("rows that were made in another shape are not the same rows") {
  memory_store store;
  bench it{store};
  it.open(0, 40);  // chunks of 16
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  session_log other{session, fingerprint};
  REQUIRE(other.begin_turn(turn(1, 0, 20)).ok());  // the same tokens, as a prompt of 20 and one of 20
  REQUIRE(other.append(it.log.tokens().first(20)).ok());
  REQUIRE(other.begin_turn(turn(2, 20, 40)).ok());
  REQUIRE(other.append(it.log.tokens().subspan(20)).ok());
  CHECK(it.restorable(other) == 0);  // another request: not even its first chunk is believed
}

TEST_CASE("what is damaged is not used") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  auto& objects = store.objects;
  const bool manifest = GENERATE(true, false);
  for (auto& [key, object] : objects)
    if (key.starts_with(manifest_folder(session)) == manifest) object[object.size() / 2] ^= std::byte{1};
  CHECK(it.restorable(it.log) == 0);
}

TEST_CASE("what is missing or cut short ends what is found there") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  auto& objects = store.objects;
  const auto second = std::next(std::find_if(objects.begin(), objects.end(), [](const auto& object) {
    return object.first.find("/rows/") != std::string::npos;
  }));
  SECTION("missing") {
    objects.erase(second);
  }
  SECTION("cut short") {
    second->second.resize(8);
  }
  CHECK(it.restorable(it.log) == 16);
}

TEST_CASE("an engine that differs finds nothing") {
  memory_store store;
  bench it{store};
  it.open(0, 40);
  REQUIRE(it.take(0, 39).ok());
  it.tick(1s);
  CHECK(reader{store, session, it.log, format}.end() == 39);
  CHECK(reader{store, session, it.log, {fingerprint + 1, row_bytes, chunk}}.end() == 0);
  CHECK(reader{store, session, it.log, {fingerprint, row_bytes + 1, chunk}}.end() == 0);
}

}  // namespace baton::test
