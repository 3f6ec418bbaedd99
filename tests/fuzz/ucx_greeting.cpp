#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "schemas/memory.hpp"
#include "tests/fuzz/memory_meter.hpp"
#include "tests/fuzz/targets.hpp"
#include "transports/ucx_socket.hpp"

namespace baton::fuzz {

namespace {

using transports::detail::ucx_socket;
using transports::detail::unique_fd;

constexpr std::size_t preamble_bytes = 40;
constexpr std::size_t most_address_bytes = 64U << 10;

std::array<unique_fd, 2> socket_pair() {
  int ends[2];
  BATON_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

/// What this release says for this address.
std::vector<std::byte> greeting_of(const std::vector<std::byte>& address) {
  auto ends = socket_pair();
  auto speaker = ucx_socket::accepted(std::move(ends[0]));
  speaker.say(address);
  const auto advanced = speaker.advance();
  BATON_ASSERT(advanced.ok() && !*advanced && !speaker.wants_to_write());
  std::vector<std::byte> said(preamble_bytes + address.size() + 1);
  const auto got = ::recv(ends[1].get(), said.data(), said.size(), 0);
  BATON_ASSERT(got == static_cast<ssize_t>(preamble_bytes + address.size()));
  said.resize(static_cast<std::size_t>(got));
  return said;
}

}  // namespace

// The exchange of addresses beside a UCX connection: a greeting, changed at some places, in pieces, and more
// bytes after it. It is read whole and no further, or refused; unchanged, it gives the address that was said.
void ucx_greeting(input bytes) {
  choices draw{bytes};
  const input drawn = draw.next(1 + draw.below(64));
  const std::vector<std::byte> address(drawn.begin(), drawn.end());
  if (address.empty()) return;
  std::vector<std::byte> stream = greeting_of(address);
  const std::vector<std::byte> unchanged = stream;
  for (std::uint32_t changes = draw.below(4); changes > 0; --changes) {
    const std::size_t at = draw.below(preamble_bytes);
    stream[at] = std::byte{draw.byte()};
  }
  const std::size_t piece = 1 + draw.below(64);
  const input more = draw.rest();
  stream.insert(stream.end(), more.begin(), more.end());

  auto ends = socket_pair();
  const memory_meter meter;
  auto listener = ucx_socket::accepted(std::move(ends[0]));
  std::size_t sent = 0;
  bool whole = false, refused = false;
  while (!whole && !refused && sent < stream.size()) {
    const std::size_t size = std::min(piece, stream.size() - sent);
    BATON_ASSERT(::send(ends[1].get(), stream.data() + sent, size, MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(size));
    sent += size;
    const auto advanced = listener.advance();
    refused = !advanced.ok();
    if (refused) BATON_ASSERT(advanced.code() == errc::malformed);
    whole = !refused && *advanced;
  }
  BATON_ASSERT(meter.peak_bytes() <= 2 * (most_address_bytes + preamble_bytes) + 4096);

  // The probe, in the middle, may say anything; of the rest only the length may differ.
  std::uint64_t address_bytes = 0;
  std::memcpy(&address_bytes, stream.data() + 32, sizeof address_bytes);
  const bool ours = std::equal(unchanged.begin(), unchanged.begin() + 16, stream.begin()) &&
                    address_bytes > 0 && address_bytes <= most_address_bytes;
  BATON_ASSERT(refused == !ours);
  if (refused) return;
  BATON_ASSERT(whole == (stream.size() >= preamble_bytes + address_bytes));
  if (!whole) {
    ends[1].reset();
    const auto advanced = listener.advance();
    BATON_ASSERT(!advanced.ok() && advanced.code() == errc::connection_lost);
    return;
  }
  const auto got = listener.take_peer_address();
  BATON_ASSERT(got.size() == address_bytes);
  BATON_ASSERT(std::equal(got.begin(), got.end(), stream.begin() + preamble_bytes));
  std::uint64_t probe_address = 0;
  std::memcpy(&probe_address, stream.data() + 16, sizeof probe_address);
  BATON_ASSERT(listener.peer_probe().address == probe_address);
  // Not a byte further: whatever follows shows as a peer that no longer keeps to the exchange.
  if (sent > preamble_bytes + address_bytes) BATON_ASSERT(!listener.peer_holds());
}

}  // namespace baton::fuzz
