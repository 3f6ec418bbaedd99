#include <catch2/catch.hpp>

#include <cstring>
#include <set>
#include <string_view>

#include "tests/unit/schemas/samples.hpp"

using namespace baton;
using namespace baton::test;

namespace {

template <class Message>
void check_round_trip(const Message& message) {
  const auto bytes = encode(message);
  CHECK(bytes.size() % 8 == 0);
  REQUIRE(bytes.size() <= most_bytes<Message>);
  const auto back = decode<Message>(bytes);
  INFO((back ? std::string{} : back.failure().what));
  REQUIRE(back.ok());
  CHECK((*back == message));
  CHECK(encode(*back) == bytes);
}

}  // namespace

TEST_CASE("every message comes back as it went") {
  for_each_message([](auto type) {
    using message = typename decltype(type)::type;
    const auto all = samples<message>();
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO(wire_name<message>() << " sample " << i);
      check_round_trip(all[i]);
    }
  });
}

TEST_CASE("any text comes back as it went") {
  for (const std::string& text : awkward_texts()) {
    INFO("text of " << text.size() << " bytes");
    check_round_trip(gateway_hello{{text, incarnation{1}}});
    check_round_trip(turn_failure{{}, {}, {}, 1, errc::no_room, text});
    check_round_trip(link_frame{link_refusal{errc::no_room, text}});
    check_round_trip(link_frame{link_hello{{}, {}, text, {{text, text}}}});
    check_round_trip(heartbeat{{text, {}}, 0, 0, false, 0, {}, text});
  }
}

TEST_CASE("each kind of record comes back alone and among others") {
  const auto records = every_record();
  REQUIRE(records.size() == std::variant_size_v<session_record>);
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK(records[i].index() == i);
    check_round_trip(link_frame{records_frame{{{group_id{1}, epoch{2}, session_id{3}, {records[i]}}}}});
  }
  check_round_trip(link_frame{records_frame{{{group_id{1}, epoch{2}, session_id{3}, records}}}});
  std::set<std::size_t> kinds;
  for (const link_frame& frame : samples<link_frame>())
    kinds.insert(frame.index());
  CHECK(kinds.size() == std::variant_size_v<link_frame>);
}

TEST_CASE("each error code comes back; one of a newer peer becomes unavailable") {
  for (std::uint16_t i = 1; name_of(static_cast<errc>(i)) != "unknown"; ++i) {
    const auto code = static_cast<errc>(i);
    check_round_trip(turn_failure{{}, {}, {}, 0, code, ""});
    check_round_trip(open_turn_reply{false, code, "", {}, 0});
    check_round_trip(link_frame{link_refusal{code, ""}});
    replica_ack ack;
    ack.has_problem = true;
    ack.problem = code;
    check_round_trip(link_frame{acks_frame{{ack}}});
  }
  for (const int newer : {0, 999, 0xffff}) {
    const auto code = static_cast<errc>(newer);
    const auto back = decode<turn_failure>(encode(turn_failure{{}, {}, {}, 0, code, ""}));
    REQUIRE(back);
    CHECK(back->code == errc::unavailable);
  }
}

TEST_CASE("bytes need not be aligned") {
  for_each_message([](auto type) {
    using message = typename decltype(type)::type;
    const message value = samples<message>()[1];
    const auto bytes = encode(value);
    std::vector<std::byte> room(bytes.size() + 8);
    for (std::size_t offset = 0; offset < 8; ++offset) {
      std::memcpy(room.data() + offset, bytes.data(), bytes.size());
      const auto back = decode<message>(std::span{room}.subspan(offset, bytes.size()));
      INFO(wire_name<message>() << " at offset " << offset);
      REQUIRE(back.ok());
      CHECK((*back == value));
    }
  });
}

TEST_CASE("the same bytes can be read any number of times") {  // case 63: the read budget is of one reading
  const heartbeat beat = samples<heartbeat>()[1];
  const auto bytes = encode(beat);
  std::size_t read = 0;
  for (int i = 0; i < 100'000; ++i)
    if (const auto back = decode<heartbeat>(bytes); back.ok() && back->sequence == beat.sequence) ++read;
  CHECK(read == 100'000);
}

TEST_CASE("the largest message is read, one word more is not") {
  node_registration filler;
  const std::size_t frame = encode(filler).size();
  filler.control_address.assign(limits::control_bytes - frame - 64, 'x');
  while (encode(filler).size() < limits::control_bytes)
    filler.control_address += "xxxxxxxx";
  REQUIRE(encode(filler).size() == limits::control_bytes);
  check_round_trip(filler);
  filler.control_address += "xxxxxxxx";
  const auto refused = decode<node_registration>(encode(filler));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.code() == errc::malformed);
}

TEST_CASE("every message has a name of its own") {
  std::set<std::string_view> names;
  for_each_message([&](auto type) {
    const std::string_view name = wire_name<typename decltype(type)::type>();
    CHECK(name.substr(0, 6) == "baton.");
    names.insert(name);
  });
  CHECK(names.size() == std::tuple_size_v<every_message>);
}
