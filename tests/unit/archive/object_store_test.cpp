#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/unit/archive/memory_store.hpp"
#include "transports/stores/object_store.hpp"

using namespace baton;
using namespace baton::transports::stores;

namespace {

namespace fs = std::filesystem;

struct folder {
  folder() {
    std::string name = (fs::temp_directory_path() / "baton-objects-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  fs::path path;
};

bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

constexpr std::size_t any_size = 1U << 30;

/// What every body promises.
void check_contract(object_store& store) {
  REQUIRE(store.list("").ok());
  CHECK(store.list("")->empty());
  CHECK(store.get("a/b", any_size).code() == errc::not_found);
  CHECK(store.remove("a/b").ok());

  REQUIRE(store.put("a/b", bytes_of("one")).ok());
  CHECK(*store.get("a/b", any_size) == bytes_of("one"));
  CHECK(*store.get("a/b", 3) == bytes_of("one"));
  CHECK(store.get("a/b", 2).code() == errc::no_room);
  REQUIRE(store.put("a/b", bytes_of("another")).ok());
  CHECK(*store.get("a/b", any_size) == bytes_of("another"));
  REQUIRE(store.put("a/empty", {}).ok());
  CHECK(store.get("a/empty", any_size)->empty());

  REQUIRE(store.put("a/c/d", bytes_of("deep")).ok());
  REQUIRE(store.put("ab", bytes_of("beside")).ok());
  CHECK(*store.list("a") == std::vector<std::string>{"a/b", "a/c/d", "a/empty"});
  CHECK(*store.list("a/c") == std::vector<std::string>{"a/c/d"});
  CHECK(store.list("nowhere")->empty());
  CHECK(store.list("")->size() == 4);

  REQUIRE(store.remove("a/c/d").ok());
  CHECK(store.get("a/c/d", any_size).code() == errc::not_found);
  REQUIRE(store.put("a/c/d", bytes_of("again")).ok());
  CHECK(*store.get("a/c/d", any_size) == bytes_of("again"));

  const bytes large(5U << 20, std::byte{7});
  REQUIRE(store.put("large", large).ok());
  CHECK(*store.get("large", any_size) == large);
}

}  // namespace

TEST_CASE("the contract of an object store: the fake") {
  test::memory_store store;
  check_contract(store);
}

TEST_CASE("the contract of an object store: a directory") {
  const folder home;
  const auto store = open_object_store("file:" + home.path.string());
  REQUIRE(store.ok());
  CHECK((*store)->where() == "file:" + home.path.string());
  check_contract(**store);
}

TEST_CASE("case 65: odd keys stay within the directory, apart from each other, and are listed as they are") {
  const folder home;
  const auto store = open_directory((home.path / "root").string());
  REQUIRE(store.ok());
  const std::vector<std::string> keys{"a b+c",
                                      "é€/ü",
                                      "(x)!'*",
                                      "@,;:=&$",
                                      "?#",
                                      "%41%2F",
                                      "tab\tand\nline",
                                      "日本",
                                      "../../escape",
                                      ".hidden",
                                      ".partial-1",
                                      "CON",
                                      std::string("zero\0byte", 9),
                                      "a.b",
                                      "A.B",
                                      "dot/./dot/../x"};
  for (const std::string& key : keys) {
    INFO(key);
    REQUIRE((*store)->put(key, bytes_of(key)).ok());
  }
  for (const std::string& key : keys) {
    INFO(key);
    const auto got = (*store)->get(key, any_size);
    REQUIRE(got.ok());
    CHECK(*got == bytes_of(key));
  }
  auto sorted = keys;
  std::ranges::sort(sorted);
  CHECK(*(*store)->list("") == sorted);
  CHECK(*(*store)->list("..") == std::vector<std::string>{"../../escape"});
  std::size_t outside = 0;
  for (const auto& entry : fs::directory_iterator(home.path))
    outside += entry.path().filename() == "root" ? 0 : 1;
  CHECK(outside == 0);
}

TEST_CASE("what is no key is refused") {
  const folder home;
  const auto store = open_directory(home.path.string());
  REQUIRE(store.ok());
  for (const char* key : {"", "/a", "a/", "a//b"}) {
    INFO(key);
    CHECK((*store)->put(key, {}).code() == errc::invalid_argument);
    CHECK((*store)->get(key, 1).code() == errc::invalid_argument);
  }
}

TEST_CASE("a directory that cannot be made is named") {
  const folder home;
  std::ofstream(home.path / "file") << "in the way";
  const auto store = open_object_store("file:" + (home.path / "file" / "below").string());
  REQUIRE_FALSE(store.ok());
  CHECK(store.code() == errc::io_failed);
  CHECK(store.failure().what.find("below") != std::string::npos);
  CHECK(open_object_store("file:").code() == errc::invalid_argument);
  CHECK(open_object_store("ftp://host").code() == errc::invalid_argument);
}

TEST_CASE("an object is never seen half written") {
  const folder home;
  const auto writer = open_directory(home.path.string());
  const auto reader = open_directory(home.path.string());
  REQUIRE(writer.ok());
  REQUIRE(reader.ok());
  const bytes old(300'000, std::byte{1});
  const bytes fresh(500'000, std::byte{2});
  REQUIRE((*writer)->put("k", old).ok());
  std::atomic<bool> done{false};
  std::thread writing([&] {
    for (int i = 0; i < 40; ++i)
      if (!(*writer)->put("k", i % 2 == 0 ? fresh : old).ok()) break;
    done = true;
  });
  int torn = 0;
  while (!done) {
    const auto got = (*reader)->get("k", any_size);
    if (!got || (*got != old && *got != fresh)) ++torn;
    if ((*reader)->list("")->size() != 1) ++torn;  // nor is a draft an object
  }
  writing.join();
  CHECK(torn == 0);
}

TEST_CASE("a folder that one removes while another writes into it is made again") {
  const folder home;
  const auto one = open_directory(home.path.string());
  const auto two = open_directory(home.path.string());
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  std::atomic<bool> done{false};
  std::thread removing([&] {
    while (!done)
      if (!(*two)->put("f/other", {}).ok() || !(*two)->remove("f/other").ok()) break;
  });
  int failed = 0;
  for (int i = 0; i < 100; ++i) {
    failed += (*one)->put("f/mine", bytes_of("x")).ok() ? 0 : 1;
    failed += (*one)->get("f/mine", any_size).ok() ? 0 : 1;
    failed += (*one)->remove("f/mine").ok() ? 0 : 1;
  }
  done = true;
  removing.join();
  CHECK(failed == 0);
}
