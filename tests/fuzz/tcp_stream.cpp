#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "schemas/limits.hpp"
#include "tests/fuzz/memory_meter.hpp"
#include "tests/fuzz/targets.hpp"
#include "transports/tcp_connection.hpp"

namespace baton::fuzz {

namespace {

using namespace transports;
using transports::detail::tcp_connection;
using transports::detail::tcp_frame;
using transports::detail::tcp_frame_head;
using transports::detail::unique_fd;

constexpr std::string_view greeting = "baton tcp 1\n";
constexpr connection_id peer{7};
/// Rows up to this size are taken.
constexpr std::size_t most_rows_bytes = 1U << 16;

/// What a sink does with rows, by the first byte of their descriptor.
enum class answer : std::uint8_t { take, refuse, too_small };
answer answer_to(input descriptor, std::size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > most_rows_bytes || descriptor.empty()) return answer::refuse;
  return static_cast<answer>(std::to_integer<unsigned>(descriptor[0]) % 3);
}

/// What has arrived, each as one text.
class recorder final : public frame_sink {
 public:
  void on_accepted(connection_id from) override { add(from, "accepted"); }
  void on_message(connection_id from, input message) override {
    BATON_ASSERT(reinterpret_cast<std::uintptr_t>(message.data()) % 8 == 0 || message.empty());
    add(from, "message " + std::string{text_of(message)});
  }
  memory_region on_rows(connection_id from, input descriptor, std::size_t size_bytes) override {
    BATON_ASSERT(!landing_);  // one after the other
    BATON_ASSERT(descriptor.size() <= limits::descriptor_bytes);
    add(from, "rows " + std::to_string(size_bytes) + " " + std::string{text_of(descriptor)});
    const answer how = answer_to(descriptor, size_bytes);
    if (how == answer::refuse) return {};
    const std::size_t room = how == answer::take ? size_bytes : size_bytes - 1;
    landing_ = std::make_unique<std::byte[]>(room + 1);  // an overrun by one is seen too
    landing_[room] = std::byte{0x5A};
    region_ = {landing_.get(), room};
    if (region_.empty()) landing_.reset();
    return region_;
  }
  void on_landed(connection_id from, memory_region landing, result<void> outcome) override {
    BATON_ASSERT(landing_ && landing.address == landing_.get());
    BATON_ASSERT(landing_[region_.size_bytes] == std::byte{0x5A});
    add(from, outcome.ok() ? "landed " + std::string{text_of(landing.bytes())}
                           : "failed " + std::string{name_of(outcome.code())});
    landing_.reset();
  }
  void on_lost(connection_id, const error&) override { BATON_ASSERT(false); }  // the transport's to say

  [[nodiscard]] const std::vector<std::string>& events() const { return events_; }
  [[nodiscard]] bool landing() const { return landing_ != nullptr; }

 private:
  void add(connection_id from, std::string what) {
    BATON_ASSERT(from == peer);
    events_.push_back(std::move(what));
  }

  std::vector<std::string> events_;
  std::unique_ptr<std::byte[]> landing_;
  memory_region region_;
};

/// What a stream means, read in one piece: the events, and whether it is refused.
struct meaning {
  std::vector<std::string> events;
  bool malformed = false;
};

meaning meaning_of(input stream) {
  meaning out;
  if (stream.size() < greeting.size()) return out;
  if (text_of(stream.first(greeting.size())) != greeting) return {{}, true};
  out.events.emplace_back("accepted");
  stream = stream.subspan(greeting.size());
  while (stream.size() >= sizeof(tcp_frame_head)) {
    tcp_frame_head head;
    std::memcpy(&head, stream.data(), sizeof head);
    const bool rows = head.is_rows == 1;
    if (head.is_rows > 1 || head.head_bytes > (rows ? limits::descriptor_bytes : limits::message_bytes) ||
        (!rows && head.rows_bytes != 0))
      return {std::move(out.events), true};
    stream = stream.subspan(sizeof head);
    if (stream.size() < head.head_bytes) break;
    const input first = stream.first(head.head_bytes);
    stream = stream.subspan(first.size());
    if (!rows) {
      out.events.push_back("message " + std::string{text_of(first)});
      continue;
    }
    out.events.push_back("rows " + std::to_string(head.rows_bytes) + " " + std::string{text_of(first)});
    answer how = answer_to(first, head.rows_bytes);
    if (how == answer::too_small && head.rows_bytes == 1) how = answer::refuse;
    if (how == answer::too_small) out.events.emplace_back("failed invalid_argument");
    if (stream.size() < head.rows_bytes) {
      if (how == answer::take) out.events.emplace_back("failed connection_lost");
      break;
    }
    if (how == answer::take)
      out.events.push_back("landed " + std::string{text_of(stream.first(head.rows_bytes))});
    stream = stream.subspan(head.rows_bytes);
  }
  return out;
}

std::array<unique_fd, 2> socket_pair() {
  int ends[2];
  BATON_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

/// Any bytes in pieces of any size: what arrives is what they mean in one piece, and never more memory than a
/// head, a landing and a piece to drop.
void check_reader(choices& draw) {
  const bool greeted = draw.flag();
  std::vector<std::size_t> pieces(1 + draw.below(6));
  for (std::size_t& piece : pieces)
    piece = 1 + draw.below(64);
  std::string stream = greeted ? std::string{greeting} : std::string{};
  stream += text_of(draw.rest());
  const meaning expected = meaning_of(std::as_bytes(std::span{stream}));

  auto ends = socket_pair();
  recorder sink;
  const memory_meter meter;
  tcp_connection connection(peer, std::move(ends[0]), true);
  bool malformed = false;
  for (std::size_t at = 0, turn = 0; at < stream.size() && !malformed; ++turn) {
    const std::size_t size = std::min(pieces[turn % pieces.size()], stream.size() - at);
    BATON_ASSERT(::send(ends[1].get(), stream.data() + at, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
    at += size;
    const auto read = connection.read_some(sink);
    malformed = !read.ok();
    if (malformed) BATON_ASSERT(read.code() == errc::malformed);
  }
  BATON_ASSERT(malformed == expected.malformed);
  if (!malformed) {
    ends[1].reset();
    const auto read = connection.read_some(sink);
    BATON_ASSERT(!read.ok() && read.code() == errc::connection_lost);
  }
  connection.end(sink);
  BATON_ASSERT(!sink.landing());
  BATON_ASSERT(sink.events() == expected.events);
  BATON_ASSERT(meter.peak_bytes() <= limits::message_bytes + (256U << 10) + 32 * stream.size());
}

/// Frames from one connection to another: all arrive as they were sent, in order.
void check_both_ways(choices& draw) {
  auto ends = socket_pair();
  tcp_connection from(peer, std::move(ends[0]), true);
  tcp_connection to(peer, std::move(ends[1]), true);
  std::vector<std::string> expected{"accepted"};
  std::vector<std::unique_ptr<std::vector<std::byte>>> lent;
  std::size_t left_whole = 0, completed = 0, pushed = 0;
  recorder sink;
  const auto turn = [&] {
    BATON_ASSERT(from.write_some([&](tcp_frame& frame) {
                       ++left_whole;
                       if (frame.done) frame.done({});
                     })
                     .ok());
    BATON_ASSERT(to.read_some(sink).ok());
  };
  while (draw.any()) {
    const bool rows = draw.flag();
    const input head = draw.next(draw.below(40));
    tcp_frame frame;
    frame.head.assign(head.begin(), head.end());
    frame.wire = {rows ? 1U : 0U, static_cast<std::uint32_t>(head.size()), 0};
    if (rows) {
      const input body = draw.next(draw.below(200));
      lent.push_back(std::make_unique<std::vector<std::byte>>(body.begin(), body.end()));
      frame.rows = {lent.back()->data(), lent.back()->size()};
      frame.wire.rows_bytes = body.size();
      frame.done = [&](const result<void>& outcome) { completed += outcome.ok() ? 1 : 0; };
    }
    std::vector<std::byte> wire(greeting.size() + sizeof frame.wire);
    std::memcpy(wire.data(), greeting.data(), greeting.size());
    std::memcpy(wire.data() + greeting.size(), &frame.wire, sizeof frame.wire);
    wire.insert(wire.end(), head.begin(), head.end());
    if (rows) wire.insert(wire.end(), lent.back()->begin(), lent.back()->end());
    const auto meant = meaning_of(wire);
    BATON_ASSERT(!meant.malformed);
    expected.insert(expected.end(), meant.events.begin() + 1, meant.events.end());
    from.push(std::move(frame));
    ++pushed;
    if (draw.flag()) turn();
  }
  for (std::size_t i = 0; i <= pushed && from.wants_to_write(); ++i)
    turn();  // the socket takes a part at a time
  turn();
  BATON_ASSERT(left_whole == pushed && completed == lent.size() && !from.wants_to_write());
  BATON_ASSERT(sink.events() == expected);
  BATON_ASSERT(from.end(sink).empty());
}

}  // namespace

// The framing of the tcp body, over a socket pair.
void tcp_stream(input bytes) {
  choices draw{bytes};
  if (draw.below(4) != 3)
    check_reader(draw);
  else
    check_both_ways(draw);
}

}  // namespace baton::fuzz
