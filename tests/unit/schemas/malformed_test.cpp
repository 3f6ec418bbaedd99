#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>

#include "tests/unit/schemas/samples.hpp"

// Bytes of anybody: `decode` answers with a value or with `malformed`, quickly, and never throws.

using namespace baton;
using namespace baton::test;

namespace {

using bytes = std::vector<std::byte>;

bytes of_words(const std::vector<std::uint64_t>& words) {
  bytes out(words.size() * 8);
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

/// One segment with a header.
bytes message_of(std::vector<std::uint64_t> words) {
  words.insert(words.begin(), std::uint64_t{words.size()} << 32);
  return of_words(words);
}

constexpr std::uint64_t struct_pointer(std::int32_t offset, std::uint16_t data_words,
                                       std::uint16_t pointers) {
  return static_cast<std::uint32_t>(offset) << 2 | std::uint64_t{data_words} << 32 |
         std::uint64_t{pointers} << 48;
}

constexpr std::uint64_t list_pointer(std::uint32_t offset, unsigned element_size, std::uint32_t count) {
  return (std::uint64_t{offset} << 2 | 1) | (std::uint64_t{count} << 3 | element_size) << 32;
}
constexpr unsigned size_void = 0, size_byte = 2, size_composite = 7;

template <class Message>
void check_refused(std::span<const std::byte> input) {
  const auto got = decode<Message>(input);
  REQUIRE_FALSE(got.ok());
  CHECK(got.code() == errc::malformed);
  CHECK_FALSE(got.failure().what.empty());
}

/// Whatever it is, it is refused or a value like any other.
template <class Message>
bool sane(std::span<const std::byte> input) {
  const auto got = decode<Message>(input);
  if (!got.ok()) return got.code() == errc::malformed;
  const bytes again = encode(*got);
  if (again.size() > limits::control_bytes) return true;  // what was shared is written out
  const auto back = decode<Message>(again);
  return back.ok() && encode(*back) == again;
}

/// A group record of `members` standbys that all have one and the same text of `length` bytes as their name.
bytes shared_names(std::uint32_t members, std::uint32_t length) {
  std::vector<std::uint64_t> words{struct_pointer(0, 3, 2),
                                   1,
                                   2,
                                   3,
                                   0,
                                   list_pointer(0, size_composite, members * 2),
                                   struct_pointer(static_cast<std::int32_t>(members), 1, 1)};
  for (std::uint32_t i = 0; i < members; ++i) {
    words.push_back(i);
    words.push_back(list_pointer((members - 1 - i) * 2, size_byte, length + 1));
  }
  words.resize(words.size() + length / 8 + 1);
  return message_of(words);
}

template <class Call>
std::chrono::milliseconds time_of(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

// A message takes microseconds; what the limits prevent takes minutes. The bound leaves room for a loaded
// machine.
constexpr std::chrono::milliseconds quick{5000};

}  // namespace

TEST_CASE("empty, odd and oversized input is refused by every message") {
  const bytes large(limits::control_bytes + 8);
  for_each_message([&](auto type) {
    using message = typename decltype(type)::type;
    INFO(wire_name<message>());
    check_refused<message>({});
    check_refused<message>(large);
    const bytes whole = encode(samples<message>()[1]);
    for (const std::size_t odd : {std::size_t{1}, std::size_t{7}, std::size_t{9}, whole.size() - 1})
      check_refused<message>(std::span{whole}.first(odd));
  });
}

TEST_CASE("a message cut at any word is refused") {
  for_each_message([](auto type) {
    using message = typename decltype(type)::type;
    const bytes whole = encode(samples<message>()[1]);
    for (std::size_t size = 0; size < whole.size(); size += 8) {
      INFO(wire_name<message>() << " cut at " << size);
      check_refused<message>(std::span{whole}.first(size));
    }
  });
}

TEST_CASE("flipped bits give a value or malformed") {
  const auto taken = time_of([] {
    for_each_message([](auto type) {
      using message = typename decltype(type)::type;
      dice draw{hash_text(wire_name<message>())};
      const auto all = samples<message>();
      std::vector<bytes> inputs;
      for (const message& it : all)
        if (bytes input = encode(it); input.size() < 4096) inputs.push_back(std::move(input));
      for (int round = 0; round < 1500; ++round) {
        bytes input = inputs[draw.below(inputs.size())];
        for (std::size_t flips = 1 + draw.below(4); flips > 0; --flips) {
          const std::size_t bit = draw.below(input.size() * 8);
          input[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        }
        INFO(wire_name<message>() << " round " << round);
        if (!sane<message>(input)) FAIL("neither a value nor malformed");
      }
    });
  });
  CHECK(taken < quick * 6);
}

TEST_CASE("words of other messages and of nothing give a value or malformed") {
  for_each_message([](auto type) {
    using message = typename decltype(type)::type;
    dice draw{hash_text(wire_name<message>()) + 1};
    for_each_message([](auto other_type) {
      using other = typename decltype(other_type)::type;
      INFO(wire_name<other>() << " read as " << wire_name<message>());
      CHECK(sane<message>(encode(samples<other>()[1])));
    });
    for (int round = 0; round < 300; ++round) {
      std::vector<std::uint64_t> words(1 + draw.below(40));
      for (std::uint64_t& word : words)
        word = draw.below(3) == 0 ? draw.next() : draw.next() & 0x0003'0003'0000'001f;
      INFO(wire_name<message>() << " round " << round);
      if (!sane<message>(message_of(words)) || !sane<message>(of_words(words)))
        FAIL("neither a value nor malformed");
    }
  });
}

TEST_CASE("many segments, deep nesting and pointers in circles end") {
  std::vector<std::uint64_t> many(301 + 1);  // 600 segments: one word, then none
  many[0] = 599 | std::uint64_t{1} << 32;
  for_each_message([&](auto type) { check_refused<typename decltype(type)::type>(of_words(many)); });
  std::vector<std::uint64_t> deep;  // structs of one pointer, each the next word
  for (int i = 0; i < 70; ++i)
    deep.push_back(struct_pointer(0, 0, 1));
  deep.push_back(0);
  std::vector<std::uint64_t> deep_lists;
  for (int i = 0; i < 70; ++i)
    deep_lists.push_back(list_pointer(0, 6, 1));
  deep_lists.push_back(0);
  const std::uint64_t far_to_itself = 2;                      // segment 0, word 0
  const std::uint64_t far_twice = 2 | 4;                      // the same, with a landing pad of two words
  const std::uint64_t far_away = 2 | std::uint64_t{9} << 32;  // no such segment
  const bytes inputs[] = {of_words(many),
                          of_words({0xffff'ffff, 0}),  // 2^32 segments
                          of_words({0xffff'ffff'ffff'ffff, 0xffff'ffff'ffff'ffff}),
                          message_of(deep),
                          message_of(deep_lists),
                          message_of({struct_pointer(-1, 0, 1)}),  // contains itself
                          message_of({struct_pointer(-1, 4, 4), 0, 0}),
                          message_of({struct_pointer(0, 0, 1), list_pointer(0x3fff'ffff, size_composite, 1)}),
                          message_of({far_to_itself}),
                          message_of({far_twice, far_twice}),
                          message_of({far_away}),
                          message_of({3})};  // a capability
  const auto taken = time_of([&] {
    for (const bytes& input : inputs)
      for_each_message([&](auto type) {
        using message = typename decltype(type)::type;
        INFO(wire_name<message>() << " from input " << std::distance(std::begin(inputs), &input));
        CHECK(sane<message>(input));
      });
  });
  CHECK(taken < quick);
  const auto from_many = decode<heartbeat>(of_words(many));
  if (from_many.ok()) CHECK(*from_many == heartbeat{});
}

TEST_CASE("shared pointers do not amplify") {
  // A little sharing is legal.
  const auto fine = decode<group_record>(shared_names(3, 15));
  REQUIRE(fine.ok());
  CHECK(fine->in_sync.size() == 3);
  CHECK(fine->in_sync[2].name == std::string(15, '\0'));
  const auto taken = time_of([] {
    check_refused<group_record>(shared_names(20'000, 600'000));  // 12 GB from 0.9 MB
    check_refused<group_record>(shared_names(60'000, 40'000));
    // Elements of no size: as many as a pointer can say.
    constexpr std::uint32_t most = (1U << 29) - 1;
    check_refused<group_record>(
        message_of({struct_pointer(0, 3, 2), 1, 2, 3, 0, list_pointer(0, size_composite, 0),
                    struct_pointer(static_cast<std::int32_t>(most), 0, 0)}));
    check_refused<group_record>(
        message_of({struct_pointer(0, 3, 2), 1, 2, 3, 0, list_pointer(0, size_void, most), 0}));
  });
  CHECK(taken < quick);
}

TEST_CASE("elements of no size do not amplify") {
  // A cluster view of `words` words whose list of nodes has `count` elements without a byte on the wire.
  const auto view_of = [](std::uint32_t count, std::size_t words) {
    std::vector<std::uint64_t> content{struct_pointer(0, 2, 3),
                                       7,
                                       8,
                                       list_pointer(2, size_composite, 0),
                                       0,
                                       0,
                                       struct_pointer(static_cast<std::int32_t>(count), 0, 0)};
    content.resize(words);
    return message_of(content);
  };
  const auto some = decode<cluster_view>(view_of(2, 100));  // what an older peer without any field would send
  REQUIRE(some.ok());
  CHECK(some->nodes == std::vector<node_view>(2));
  check_refused<cluster_view>(view_of(400, 100));
  check_refused<cluster_view>(view_of(4U << 20, limits::control_bytes / 8 - 1));  // 0.7 GB from 8 MB

  // A frame of 1 MiB with 400 thousand records.
  std::vector<std::uint64_t> frame{struct_pointer(0, 1, 1),
                                   3,
                                   list_pointer(0, size_composite, 5),
                                   struct_pointer(1, 4, 1),
                                   1,
                                   1,
                                   1,
                                   1,
                                   list_pointer(0, size_composite, 0),
                                   0};
  frame.back() = struct_pointer(400'000, 0, 0);
  frame.resize(limits::message_bytes / 8 - 1);
  check_refused<link_frame>(message_of(frame));
}

TEST_CASE("an unknown variant is refused") {
  bytes frame = encode(link_frame{acks_frame{}});
  // Header, root pointer, then the data whose first half word is the tag.
  REQUIRE(std::to_integer<int>(frame[16]) == 5);
  for (const int tag : {6, 7, 255}) {
    frame[16] = static_cast<std::byte>(tag);
    check_refused<link_frame>(frame);
  }
  frame[16] = std::byte{0};
  frame[17] = std::byte{0xff};
  check_refused<link_frame>(frame);

  bytes records =
      encode(link_frame{records_frame{{{group_id{1}, epoch{1}, session_id{1}, {close_record{0x11223344}}}}}});
  const std::byte mark[] = {std::byte{0x44}, std::byte{0x33}, std::byte{0x22}, std::byte{0x11}};
  const auto at = std::search(records.begin(), records.end(), std::begin(mark), std::end(mark)) -
                  4;  // the tag, a word of 32 bits before
  REQUIRE(at + 8 < records.end());
  REQUIRE(std::to_integer<int>(*at) == 3);
  for (const int tag : {5, 6, 255}) {
    *at = static_cast<std::byte>(tag);
    check_refused<link_frame>(records);
  }
}

TEST_CASE("values that parse but mean nothing are refused") {
  turn_header turn = full_turn();
  turn.prompt_end = turn.base;
  check_refused<turn_header>(encode(turn));
  session_piece piece = full_piece();
  piece.turns = {turn};
  check_refused<session_piece>(encode(piece));
  piece = full_piece();
  piece.first = limits::session_tokens - 4;  // it has five tokens
  check_refused<session_piece>(encode(piece));
  check_refused<seal_reply>(encode(seal_reply{true, epoch{1}, {{group_id{1}, epoch{1}, piece, 1, {}}}}));

  turn_tokens tokens = samples<turn_tokens>()[1];
  tokens.reports.pop_back();
  check_refused<turn_tokens>(encode(tokens));

  for (const auto& change : std::initializer_list<std::function<void(replica_ack&)>>{
           [](replica_ack& it) { it.synced = it.logged + 1; },
           [](replica_ack& it) { it.expected = it.synced - 1; }}) {
    replica_ack ack{session_id{1}, epoch{1}, 10, 1, 5, 7};
    change(ack);
    check_refused<link_frame>(encode(link_frame{acks_frame{{ack}}}));
  }
  resync_frame resync;
  resync.probes.resize(limits::resync_probes + 1);
  check_refused<link_frame>(encode(link_frame{resync}));

  for (const auto& change : std::initializer_list<std::function<void(delta_descriptor&)>>{
           [](delta_descriptor& it) { it.count = 0; },
           [](delta_descriptor& it) { it.count = limits::session_tokens + 1; },
           [](delta_descriptor& it) { it.first = limits::session_tokens; },
           [](delta_descriptor& it) { it.first = max32; },
           [](delta_descriptor& it) { it.codec = static_cast<row_codec>(1); }}) {
    delta_descriptor delta = samples<delta_descriptor>()[1];
    change(delta);
    check_refused<delta_descriptor>(encode(delta));
  }
}
