#include "actors/engines/fingerprint.hpp"

#include <catch2/catch.hpp>

namespace baton::actors::engines {

TEST_CASE("fingerprints differ in the first field that differs") {
  const fingerprint mine{{{"model", "a"}, {"kv_type", "f16"}, {"threads", "1"}}};
  auto theirs = mine;
  CHECK(mine.hash() == theirs.hash());
  CHECK(mine.difference(theirs) == std::nullopt);
  theirs.fields[1].second = "q8_0";
  theirs.fields[2].second = "2";
  CHECK(mine.hash() != theirs.hash());
  CHECK(mine.difference(theirs) == "kv_type: mine f16, theirs q8_0");
  theirs = mine;
  theirs.fields.pop_back();
  CHECK(mine.hash() != theirs.hash());
  CHECK(mine.difference(theirs) == "threads: mine 1, theirs absent");
  CHECK(theirs.difference(mine) == "threads: mine absent, theirs 1");
  theirs = mine;
  theirs.fields[0].first = "adapter";
  CHECK(mine.difference(theirs).has_value());
}

TEST_CASE("a fingerprint's hash keeps names, values and order apart") {
  CHECK(fingerprint{{{"ab", "c"}}}.hash() != fingerprint{{{"a", "bc"}}}.hash());
  CHECK(fingerprint{{{"a", "b"}, {"c", "d"}}}.hash() != fingerprint{{{"c", "d"}, {"a", "b"}}}.hash());
  CHECK(fingerprint{{{"a", "b"}}}.hash() != fingerprint{{{"b", "a"}}}.hash());
  CHECK(fingerprint{}.hash() != fingerprint{{{"", ""}}}.hash());
}

}  // namespace baton::actors::engines
