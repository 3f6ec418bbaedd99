#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "schemas/codec.hpp"
#include "schemas/hash.hpp"
#include "schemas/limits.hpp"

/// Values of every message type: at [0] the emptiest one that is valid, at [1] one with every field set
/// (whose bytes are the golden ones), then the awkward ones.
namespace baton::test {

/// Every type that `encode` and `decode` are defined for.
using every_message =
    std::tuple<turn_header, session_piece, link_frame, delta_descriptor, node_registration,
               gateway_registration, heartbeat, heartbeat_ack, group_record, cluster_view, in_sync_change,
               hand_over, in_sync_reply, gateway_hello, open_turn, open_turn_reply, turn_tokens, turn_failure,
               end_turn, seal, seal_reply, archive_manifest, archived_conversation>;

/// Calls `visit(std::type_identity<Message>{})` for every message type.
template <class Visit>
void for_each_message(Visit visit) {
  std::apply(
      [&](const auto&... message) { (visit(std::type_identity<std::decay_t<decltype(message)>>{}), ...); },
      every_message{});
}

inline constexpr std::uint32_t max32 = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint64_t some64 = 0x1122334455667788;

/// Strings that break careless code: empty, an embedded zero, not ASCII, not even UTF-8, longer than a
/// builder's scratch space.
inline std::vector<std::string> awkward_texts() {
  using namespace std::string_literals;
  return {"", "a\0b"s, "\0"s, "grüße 名前 🚀", "\xff\xfe\x80", std::string(20'000, 'x')};
}

inline turn_header full_turn(turn_number number = 3, position base = 5, position prompt_end = 9) {
  turn_header turn;
  turn.number = number;
  turn.base = base;
  turn.prompt_end = prompt_end;
  turn.parameters.sampling = {0.5F,   40, 0.9F, 0.05F, 1.1F, 0.2F, -0.3F, 128, {{7, -1.5F}, {-1, 100.0F}},
                              some64, 5,  true};
  turn.parameters.max_tokens = 77;
  turn.parameters.end_tokens = {2, 32'000, -5};
  return turn;
}

inline turn_header greatest_turn() {
  turn_header turn;
  turn.number = max32;
  turn.base = max32 - 1;
  turn.prompt_end = max32;
  const float infinity = std::numeric_limits<float>::infinity();
  const float least = std::numeric_limits<float>::denorm_min();
  turn.parameters.sampling = {infinity, max32, -infinity, least, -0.0F, least,
                              -least,   max32, {},        max64, max32, true};
  turn.parameters.sampling.logit_bias = {{std::numeric_limits<token_id>::min(), infinity},
                                         {std::numeric_limits<token_id>::max(), -infinity}};
  turn.parameters.max_tokens = max32;
  turn.parameters.end_tokens = {std::numeric_limits<token_id>::min(), std::numeric_limits<token_id>::max()};
  return turn;
}

inline process_id process(const char* name, std::uint64_t number) {
  return {name, incarnation{number}};
}
inline process_id greatest_process() {
  return {"grüße 名前 🚀", incarnation{max64}};
}

inline session_piece full_piece() {
  return {session_id{some64}, 5, 0xabcdef, {full_turn(3, 5, 7), full_turn(4, 9, 10)}, {1, -2, 3, 4, 5}};
}

inline std::vector<session_record> every_record() {
  return {open_record{full_turn()}, tokens_record{9, 0x99, {1, -2, 3}}, truncate_record{8, 0x88},
          close_record{3}, drop_record{}};
}

inline group_record full_group() {
  return {group_id{4}, epoch{17}, 23, process("a", 1), {process("b", 2), process("c", 3)}};
}
inline group_record greatest_group() {
  return {group_id{max64}, epoch{max64}, max64, greatest_process(), {process("", 0), greatest_process()}};
}

inline open_turn full_open_turn() {
  return {group_id{4}, epoch{17}, full_piece(), 4, process("gateway", 6), session_id{some64}};
}

/// The samples of a type; see above.
template <class Message>
std::vector<Message> samples();

template <>
inline std::vector<turn_header> samples() {
  turn_header least;
  least.prompt_end = 1;
  return {least, full_turn(), greatest_turn()};
}

template <>
inline std::vector<session_piece> samples() {
  std::vector<session_piece> out{{}, full_piece(), {session_id{max64}, max32, max64, {greatest_turn()}, {}}};
  session_piece longest{session_id{1}, limits::session_tokens - 100'000, 0, {}, {}};
  longest.tokens.assign(100'000, -1);
  out.push_back(longest);
  return out;
}

template <>
inline std::vector<link_frame> samples() {
  replica_ack full{session_id{5}, epoch{17}, 100, 0xabc, 90, 95};
  full.has_problem = true;
  full.problem = errc::fork;
  full.about_rows = true;
  full.sequence = 14;
  replica_ack greatest{session_id{max64}, epoch{max64}, max32, max64, max32, max32};
  greatest.has_problem = true;
  greatest.problem = errc::conflict;
  greatest.sequence = max64;
  session_records records{group_id{4}, epoch{17}, session_id{5}, every_record(), 12};
  resync_frame probes{group_id{max64}, epoch{max64}, session_id{max64}, {}};
  for (std::size_t i = 0; i < limits::resync_probes; ++i)
    probes.probes.push_back({max32 - static_cast<position>(i), max64 - i});
  records_frame many;
  for (int i = 0; i < 300; ++i)
    many.sessions.push_back(records);
  return {
      acks_frame{},
      link_hello{process("a", 1), process("b", 2), "baton 0.1", {{"model", "toy"}, {"layout", "rows"}}},
      link_welcome{process("b", 2), false},
      link_refusal{errc::fingerprint_mismatch, "model"},
      records_frame{{records}},
      resync_frame{group_id{4}, epoch{17}, session_id{5}, {{100, 0xabc}, {50, 0xdef}}, 13},
      acks_frame{{full, {}}},
      appointment_frame{group_id{4}, epoch{18}},
      link_hello{},
      link_hello{greatest_process(), {}, "", {{"", ""}}},
      link_welcome{},
      link_refusal{},
      records_frame{},
      records_frame{{{}, {}}},
      many,
      resync_frame{},
      probes,
      acks_frame{},
      acks_frame{{greatest}},
      appointment_frame{},
      appointment_frame{group_id{max64}, epoch{max64}},
  };
}

template <>
inline std::vector<delta_descriptor> samples() {
  delta_descriptor least;
  least.count = 1;
  const delta_descriptor full{group_id{4}, epoch{17}, session_id{5},   100,  64,  0xabc, 0xdef, some64,
                              1,           2,         row_codec::none, 4096, 0x99};
  const delta_descriptor greatest{group_id{max64},
                                  epoch{max64},
                                  session_id{max64},
                                  limits::session_tokens - 1,
                                  1,
                                  max64,
                                  max64,
                                  max64,
                                  max32,
                                  max32,
                                  row_codec::none,
                                  max64,
                                  max64};
  delta_descriptor longest = greatest;
  longest.first = 0;
  longest.count = limits::session_tokens;
  return {least, full, greatest, longest};
}

template <>
inline std::vector<node_registration> samples() {
  return {{},
          {process("a", 1),
           "10.0.0.1:4000",
           "10.0.0.1:4001",
           {"b", "c"},
           {{"model", "toy"}},
           64,
           4096,
           some64,
           {some64, 3, epoch{17}}},
          {greatest_process(),
           "",
           std::string(100'000, '\0'),
           awkward_texts(),
           {{"", ""}, {"ключ", ""}},
           max32,
           max32,
           max64,
           {max64, max64, epoch{max64}}}};
}

template <>
inline std::vector<gateway_registration> samples() {
  return {{},
          {process("gateway", 6), {process("b", 2)}, {some64, 3, epoch{17}}},
          {greatest_process(), {greatest_process(), {}}}};
}

template <>
inline std::vector<heartbeat> samples() {
  const group_status full{group_id{4}, epoch{17}, true, 12, 3456, 7};
  const group_status greatest{group_id{max64}, epoch{max64}, true, max32, max64, max32};
  return {
      {},
      {process("a", 1), 100, 200, true, 9, {full, {}}, "{\"rows\": 1}", true},
      {greatest_process(), max64, max64, true, max64, std::vector<group_status>(1000, greatest), "", true}};
}

template <>
inline std::vector<heartbeat_ack> samples() {
  return {{0, 0, false}, {100, 7, true}, {max64, max64, true}};
}

template <>
inline std::vector<group_record> samples() {
  return {{}, full_group(), greatest_group()};
}

template <>
inline std::vector<cluster_view> samples() {
  const node_view full{
      process("a", 1), "10.0.0.1:4000", "10.0.0.1:4001", {"b"}, true, 12, 64, 4096, some64, true};
  const node_view greatest{
      greatest_process(), "", "", awkward_texts(), true, max32, max32, max32, max64, true};
  return {{},
          {7,
           8,
           {full, {}},
           {process("gateway", 6)},
           {full_group()},
           {{group_id{4}, epoch{17}, process("b", 2)}}},
          {max64,
           max64,
           std::vector<node_view>(10, greatest),
           {greatest_process(), {}},
           std::vector<group_record>(500, greatest_group()),
           std::vector<group_move>(500, {group_id{max64}, epoch{max64}, greatest_process()})}};
}

template <>
inline std::vector<in_sync_change> samples() {
  return {{},
          {group_id{4}, epoch{17}, 23, process("a", 1), process("b", 2), true},
          {group_id{max64}, epoch{max64}, max64, greatest_process(), greatest_process(), true}};
}

template <>
inline std::vector<hand_over> samples() {
  return {{},
          {group_id{4}, epoch{17}, process("a", 1), process("b", 2)},
          {group_id{max64}, epoch{max64}, greatest_process(), greatest_process()}};
}

template <>
inline std::vector<in_sync_reply> samples() {
  return {{}, {true, full_group()}, {true, greatest_group()}};
}

template <>
inline std::vector<gateway_hello> samples() {
  return {{}, {process("gateway", 6)}, {greatest_process()}};
}

template <>
inline std::vector<open_turn> samples() {
  return {{},
          full_open_turn(),
          {group_id{max64}, epoch{max64}, {}, max32, greatest_process(), session_id{max64}}};
}

template <>
inline std::vector<open_turn_reply> samples() {
  return {{},
          {true, errc::gap, "history is missing", {100, 0xabc}, 90},
          {true, errc::conflict, "", {max32, max64}, max32}};
}

template <>
inline std::vector<turn_tokens> samples() {
  std::vector<turn_tokens> out{{},
                               {group_id{4},
                                epoch{17},
                                session_id{5},
                                3,
                                9,
                                0x99,
                                {1, -2},
                                {{-0.5F, {{1, -0.5F}, {8, -1.5F}}}, {-0.25F, {}}},
                                6,
                                true,
                                1000,
                                10,
                                900,
                                940},
                               {group_id{max64},
                                epoch{max64},
                                session_id{max64},
                                max32,
                                max32,
                                max64,
                                {},
                                {},
                                max32,
                                true,
                                max64,
                                max64,
                                max32,
                                max32}};
  turn_tokens many = out[1];
  many.tokens.assign(5000, 1);
  many.reports.assign(5000, {-1.0F, std::vector<token_logprob>(3)});
  out.push_back(many);
  many.reports.clear();
  out.push_back(many);
  return out;
}

template <>
inline std::vector<turn_failure> samples() {
  return {{},
          {group_id{4}, epoch{17}, session_id{5}, 3, errc::context_full, "no room"},
          {group_id{max64}, epoch{max64}, session_id{max64}, max32, errc::conflict, ""}};
}

template <>
inline std::vector<end_turn> samples() {
  return {{},
          {group_id{4}, epoch{17}, session_id{5}, 3, 42},
          {group_id{max64}, epoch{max64}, session_id{max64}, max32, max32}};
}

template <>
inline std::vector<seal> samples() {
  return {{},
          {group_id{4}, epoch{17}, process("b", 2), {{session_id{5}, {100, 0xabc}}, {}}},
          {group_id{max64}, epoch{max64}, greatest_process(),
           std::vector<held_session>(limits::node_sessions, {session_id{max64}, {max32, max64}})}};
}

template <>
inline std::vector<seal_reply> samples() {
  return {{},
          {true, epoch{17}, {full_open_turn(), {}}},
          {true, epoch{max64}, std::vector<open_turn>(100, full_open_turn())}};
}

/// A whole log, as an archive has it.
inline session_piece full_log() {
  return {session_id{5}, 0, 0x77, {full_turn(1, 0, 2), full_turn(2, 3, 4)}, {1, -2, 3, 4, 5}};
}

template <>
inline std::vector<archive_manifest> samples() {
  std::vector<archive_manifest> out{
      {},
      {epoch{17}, some64, 23040, full_log(), {{"sessions/5/rows/1", 0, 3, 8, 0xabc}, {"r", 3, 2, 2, max64}}},
      {epoch{max64}, max64, max64, {}, {}}};
  for (const std::string& text : awkward_texts())
    out.push_back({epoch{1}, 2, 3, full_log(), {{text, 0, 1, max32 >> 12, 0}}});
  return out;
}

template <>
inline std::vector<archived_conversation> samples() {
  std::vector<archived_conversation> out{
      {}, {"chat", some64, full_log(), {{0x33, 2, 3}, {max64, max32, 5}}}, {"", max64, full_log(), {}}};
  for (const std::string& text : awkward_texts())
    out.push_back({text, 1, full_log(), {}});
  return out;
}

/// A seeded generator, the same on every machine.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(mix64(seed)) {}
  std::uint64_t next() { return state_ = mix64(state_); }
  /// Uniform in [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

}  // namespace baton::test
