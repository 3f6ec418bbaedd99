#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/stores/record_store.hpp"
#include "tests/unit/stores/etcd_server.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using actors::stores::etcd_client;
using actors::stores::open_etcd_store;
using actors::stores::open_store;
using actors::stores::record_store;
using store_ptr = std::unique_ptr<record_store>;

store_ptr open(const std::string& where, const std::string& cluster = "test") {
  auto store = open_store(where, cluster);
  REQUIRE(store.ok());
  return std::move(*store);
}

group_record wanted(std::uint64_t group, const std::string& owner) {
  group_record out;
  out.group = group_id{group};
  out.owner = {owner, incarnation{7}};
  return out;
}

/// A store of its own kind, empty, and how to open it once more after the first has been given up.
struct kind {
  std::shared_ptr<void> server;
  std::string where;
};

kind in_a_file() {
  auto folder = std::make_shared<std::string>(
      (std::filesystem::temp_directory_path() / ("baton-store-" + std::to_string(::getpid()) + ".db"))
          .string());
  std::filesystem::remove(*folder);
  return {std::shared_ptr<void>{folder.get(), [folder](void*) { std::filesystem::remove(*folder); }},
          "sqlite:" + *folder};
}

kind in_etcd() {
  auto server = std::make_shared<etcd_server>();
  return {server, "etcd:" + server->url()};
}

void keeps_to_the_contract(const kind& it) {
  store_ptr store = open(it.where);
  const auto first = store->begin_term();
  REQUIRE(first.ok());
  CHECK(first->term > 0);
  CHECK(first->store != 0);
  REQUIRE(store->load().ok());
  CHECK(store->load()->empty());

  // A new record has an epoch, which is its revision.
  const auto made = store->swap(wanted(4, "a"), 0, true);
  REQUIRE(made.ok());
  CHECK(made->owner.name == "a");
  CHECK(made->revision > 0);
  CHECK(raw(made->epoch) == made->revision);

  // A change that is not one of the owner keeps the epoch; the revision grows.
  group_record changed = *made;
  changed.in_sync = {{"b", incarnation{1}}, {"c", incarnation{2}}};
  const auto second = store->swap(changed, made->revision, false);
  REQUIRE(second.ok());
  CHECK(second->epoch == made->epoch);
  CHECK(second->revision > made->revision);
  CHECK(second->in_sync == changed.in_sync);

  // Who does not know the last revision changes nothing.
  for (const std::uint64_t expected : {std::uint64_t{0}, made->revision, second->revision + 1}) {
    const auto refused = store->swap(changed, expected, true);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.code() == errc::conflict);
  }
  CHECK(store->swap(wanted(5, "b"), 3, true).code() == errc::conflict);  // there is no such group

  // Revisions grow over all groups, and so do epochs.
  const auto other = store->swap(wanted(3, ""), 0, true);
  REQUIRE(other.ok());
  CHECK(other->revision > second->revision);
  CHECK(other->epoch > second->epoch);
  CHECK(*store->load() == std::vector{*other, *second});

  // Whoever comes next finds it so.
  store.reset();
  store = open(it.where);
  const auto next = store->begin_term();
  REQUIRE(next.ok());
  CHECK(next->term > first->term);
  CHECK(next->store == first->store);
  CHECK(*store->load() == std::vector{*other, *second});
  const auto taken = store->swap(wanted(4, "b"), second->revision, true);
  REQUIRE(taken.ok());
  CHECK(taken->epoch > other->epoch);
}

}  // namespace

TEST_CASE("record_store: SQLite keeps to the contract") {
  keeps_to_the_contract(in_a_file());
}

TEST_CASE("record_store: a store that is made anew is another one") {
  const auto one = open("sqlite::memory:")->begin_term();
  const auto two = open("sqlite::memory:")->begin_term();
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(one->store != two->store);
}

TEST_CASE("record_store: etcd keeps to the contract") {
  keeps_to_the_contract(in_etcd());
}

TEST_CASE("record_store: in etcd the later term writes, the earlier one does not") {
  const etcd_server server;
  const store_ptr earlier = open("etcd:" + server.url());
  const store_ptr later = open("etcd:" + server.url());
  REQUIRE(earlier->begin_term().ok());
  const auto made = earlier->swap(wanted(1, "a"), 0, true);
  REQUIRE(made.ok());
  REQUIRE(later->begin_term().ok());
  CHECK(earlier->swap(wanted(1, "b"), made->revision, true).code() == errc::stale_epoch);
  CHECK(earlier->swap(wanted(1, "b"), 0, true).code() == errc::stale_epoch);
  CHECK(earlier->swap(wanted(2, "b"), 0, true).code() == errc::stale_epoch);
  CHECK(*later->load() == std::vector{*made});
  CHECK(later->swap(wanted(1, "c"), made->revision, true).ok());
  // Who has begun no term writes nothing.
  CHECK(open("etcd:" + server.url())->swap(wanted(9, "d"), 0, true).code() == errc::stale_epoch);
}

TEST_CASE("record_store: deployments that share an etcd do not meet") {
  const etcd_server server;
  const store_ptr one = open("etcd:" + server.url(), "one");
  const store_ptr two = open("etcd:" + server.url(), "two");
  const auto first = one->begin_term();
  const auto second = two->begin_term();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->store != second->store);
  REQUIRE(one->swap(wanted(1, "a"), 0, true).ok());
  CHECK(two->load()->empty());
  CHECK(two->swap(wanted(1, "b"), 0, true).ok());
  CHECK(one->load()->front().owner.name == "a");
}

TEST_CASE("record_store: members of etcd that nobody answers at are passed over") {
  const etcd_server server;
  const std::string dead = "http://127.0.0.1:" + std::to_string(free_port());
  const store_ptr store = open("etcd:" + dead + "," + server.url() + "," + dead);
  const auto begun = std::chrono::steady_clock::now();
  REQUIRE(store->begin_term().ok());
  CHECK(store->swap(wanted(1, "a"), 0, true).ok());
  CHECK(store->load()->size() == 1);
  CHECK(std::chrono::steady_clock::now() - begun < 1s);
  CHECK(open("etcd:" + dead)->begin_term().code() == errc::io_failed);
}

TEST_CASE("record_store: of a write to a frozen etcd nothing is known, and another write tells") {
  const etcd_server server;
  const store_ptr store = open("etcd:" + server.url());
  REQUIRE(store->begin_term().ok());
  const auto made = store->swap(wanted(1, "a"), 0, true);
  REQUIRE(made.ok());
  server.stop();
  const auto begun = std::chrono::steady_clock::now();
  const auto lost = actors::stores::try_swap(*store, {wanted(1, "b"), made->revision, true});
  CHECK(std::chrono::steady_clock::now() - begun < 2s);
  CHECK_FALSE(lost.done);
  CHECK(lost.why.code == errc::io_failed);
  CHECK(lost.record.revision == 0);
  server.go_on();
  // The record as it was known, written again: after that the first write is past, carried out or not.
  actors::stores::swap_outcome sure;
  for (int i = 0; i < 50 && (i == 0 || sure.why.code == errc::io_failed); ++i)
    sure = actors::stores::try_swap(*store, {*made, made->revision, false});
  CHECK((sure.done || sure.why.code == errc::conflict));
  CHECK(sure.record.owner.name == (sure.done ? "a" : "b"));
  CHECK(*store->load() == std::vector{sure.record});
}

TEST_CASE("record_store: what a deployment may say of it") {
  CHECK(open_store("sqlite::memory:", "x").ok());
  for (const char* bad : {"", "sqlite", "sqlite:", "etcd:", "etcd3:http://a:1", "file:x"})
    CHECK(open_store(bad, "x").code() == errc::invalid_argument);
}

TEST_CASE("etcd_client: base64 there and back") {
  for (std::size_t size = 0; size < 70; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i)
      bytes += static_cast<char>(i * 37);
    const std::string text = etcd_client::to_base64(bytes);
    CHECK(text.size() == 4 * ((size + 2) / 3));
    REQUIRE(etcd_client::from_base64(text).ok());
    CHECK(*etcd_client::from_base64(text) == bytes);
  }
  CHECK(etcd_client::to_base64("\xff\xfe") == "//4=");
  for (const char* bad : {"a", "ab=", "a*==", "====="})
    CHECK_FALSE(etcd_client::from_base64(bad).ok());
}

}  // namespace baton::test
