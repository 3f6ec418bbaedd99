#include "gpu/host_device.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "schemas/hash.hpp"

using namespace baton;
using namespace baton::gpu;

namespace {

using bytes = std::vector<std::byte>;

struct example {
  kv_layout layout;
  kv_image image;
};

/// A random layout, and an image of random bytes whose strips lie in random order with gaps before and
/// between rows.
example random_example(std::mt19937& random) {
  example made;
  const auto pick = [&](std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random);
  };
  const auto regions = pick(1, 12);
  made.image.count = pick(0, 20);
  for (std::uint32_t i = 0; i < regions; ++i)
    made.layout.row_bytes.push_back(pick(1, 4) == 1 ? pick(0, 3) : pick(1, 300));
  std::size_t end = 0;
  made.image.strips.resize(regions);
  std::vector<std::uint32_t> order(regions);
  for (std::uint32_t i = 0; i < regions; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const auto region : order) {
    auto& strip = made.image.strips[region];
    strip.offset_bytes = end + pick(0, 40);
    strip.stride_bytes = made.layout.row_bytes[region] + (pick(0, 1) == 0 ? 0 : pick(0, 30));
    end = strip.offset_bytes + strip.stride_bytes * made.image.count + made.layout.row_bytes[region];
  }
  made.image.bytes.resize(end);
  for (auto& each : made.image.bytes)
    each = std::byte(random());
  return made;
}

/// The wire order, said as simply as can be.
bytes naive_pack(const example& of) {
  bytes wire;
  for (std::uint32_t position = 0; position < of.image.count; ++position)
    for (std::size_t region = 0; region < of.layout.row_bytes.size(); ++region)
      for (std::uint32_t i = 0; i < of.layout.row_bytes[region]; ++i)
        wire.push_back(of.image.bytes[of.image.strips[region].offset_bytes +
                                      position * of.image.strips[region].stride_bytes + i]);
  return wire;
}

void naive_unpack(const kv_layout& layout, const bytes& wire, std::uint32_t count, kv_image& into) {
  std::size_t at = 0;
  for (std::uint32_t position = 0; position < count; ++position)
    for (std::size_t region = 0; region < layout.row_bytes.size(); ++region)
      for (std::uint32_t i = 0; i < layout.row_bytes[region]; ++i)
        into.bytes[into.strips[region].offset_bytes + position * into.strips[region].stride_bytes + i] =
            wire[at++];
}

memory_region region_of(bytes& of) {
  return {of.data(), of.size(), memory_kind::host};
}

}  // namespace

TEST_CASE("pack and unpack agree with a naive reference on any layout") {
  host_device device({64, 1});
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto source = random_example(random);
    const auto expected = naive_pack(source);
    bytes slot(expected.size() + 16, std::byte{0xee});
    const auto checksum = device.pack(source.layout, source.image, region_of(slot));
    REQUIRE(checksum);
    CHECK(*checksum == hash_bytes(expected));
    CHECK((bytes(slot.begin(), slot.end() - 16) == expected));
    CHECK((bytes(slot.end() - 16, slot.end()) == bytes(16, std::byte{0xee})));  // nothing past the rows

    auto target = source.image;
    for (auto& each : target.bytes)
      each = std::byte(random());
    auto reference = target;
    naive_unpack(source.layout, expected, source.image.count, reference);
    REQUIRE(device.unpack(source.layout, region_of(slot), source.image.count, *checksum, target));
    CHECK((target.bytes == reference.bytes));
  }
}

TEST_CASE("a prefix of positions is a prefix of bytes") {
  host_device device({64, 1});
  std::mt19937 random(4);
  example source;
  do
    source = random_example(random);
  while (source.image.count < 5 || source.layout.bytes_per_token() == 0);
  bytes slot(source.layout.bytes_per_token() * source.image.count);
  REQUIRE(device.pack(source.layout, source.image, region_of(slot)));
  bytes part(slot.begin(), slot.begin() + static_cast<std::ptrdiff_t>(3 * source.layout.bytes_per_token()));
  auto target = source.image, reference = source.image;
  std::fill(target.bytes.begin(), target.bytes.end(), std::byte{});
  reference.bytes = target.bytes;
  naive_unpack(source.layout, part, 3, reference);
  REQUIRE(device.unpack(source.layout, region_of(part), 3, hash_bytes(part), target));
  CHECK((target.bytes == reference.bytes));
}

TEST_CASE("rows that do not match their checksum touch nothing") {
  host_device device({64, 1});
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto source = random_example(random);
    const auto total = source.layout.bytes_per_token() * source.image.count;
    if (total == 0) continue;
    bytes slot(total);
    const auto checksum = device.pack(source.layout, source.image, region_of(slot));
    REQUIRE(checksum);
    slot[random() % total] ^= std::byte(1U << random() % 8);
    auto target = source.image;
    const auto before = target.bytes;
    const auto refused = device.unpack(source.layout, region_of(slot), source.image.count, *checksum, target);
    REQUIRE_FALSE(refused);
    CHECK(refused.code() == errc::corrupt);
    CHECK((target.bytes == before));
  }
}

TEST_CASE("what does not fit is refused before anything is written") {
  host_device device({64, 1});
  const kv_layout layout{{8, 16}};
  const kv_image good{bytes(24 * 4), {{0, 8}, {32, 16}}, 4};
  constexpr auto huge = std::numeric_limits<std::size_t>::max();
  bytes slot(96, std::byte{0xee});
  REQUIRE(device.pack(layout, good, region_of(slot)));

  const auto refused = [&](const kv_layout& how, const kv_image& image, std::size_t slot_bytes) {
    std::fill(slot.begin(), slot.end(), std::byte{0xee});
    auto region = region_of(slot);
    region.size_bytes = slot_bytes;
    const auto packed = device.pack(how, image, region);
    auto target = image;
    const auto unpacked = device.unpack(how, region, image.count, 0, target);
    return !packed && packed.code() == errc::invalid_argument && !unpacked &&
           unpacked.code() == errc::invalid_argument && slot == bytes(96, std::byte{0xee}) &&
           target.bytes == image.bytes;
  };
  const auto with = [&](auto change) {
    auto image = good;
    change(image);
    return image;
  };
  CHECK(refused(layout, good, 95));
  CHECK(refused(layout, with([](kv_image& i) { i.strips.pop_back(); }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips.push_back({0, 8}); }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.bytes.pop_back(); }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips[1].offset_bytes = 33; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips[1].stride_bytes = 17; }), 96));
  CHECK(
      refused(layout, with([](kv_image& i) { i.strips[0].stride_bytes = 7; }), 96));  // rows over each other
  CHECK(refused(layout, with([](kv_image& i) { i.strips[0].offset_bytes = huge; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips[0].offset_bytes = huge - 7; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips[0].stride_bytes = huge; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.strips[0].stride_bytes = huge / 3 + 1; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.count = 5; }), 96));
  CHECK(refused(layout, with([](kv_image& i) { i.count = std::numeric_limits<std::uint32_t>::max(); }), 96));
  CHECK(refused(kv_layout{{8, std::numeric_limits<std::uint32_t>::max()}}, good, 96));

  auto target = good;
  const auto device_memory = device.pack(layout, good, {slot.data(), slot.size(), memory_kind::cuda_device});
  REQUIRE_FALSE(device_memory);
  CHECK(device_memory.code() == errc::invalid_argument);
  const auto too_many = device.unpack(layout, region_of(slot), 5, 0, target);
  REQUIRE_FALSE(too_many);
  CHECK(too_many.code() == errc::invalid_argument);
}

TEST_CASE("nothing packs to nothing") {
  host_device device({64, 1});
  kv_image none{{}, {{0, 0}}, 0};
  const auto checksum = device.pack(kv_layout{{8}}, none, {});
  REQUIRE(checksum);
  CHECK(*checksum == hash_bytes({}));
  CHECK(device.unpack(kv_layout{{8}}, {}, 0, *checksum, none));
}

TEST_CASE("the host device lends from its own ring") {
  const auto device = make_host_device({128, 3});
  CHECK(device->name() == "host");
  CHECK(device->staging().used().total == 3);
  CHECK(device->staging().slot_bytes() == 128);
}
