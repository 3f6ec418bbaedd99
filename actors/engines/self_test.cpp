#include "actors/engines/self_test.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

namespace baton::actors::engines {
namespace {

/// Tokens of the history: enough for a middle, few enough to cost a node a fraction of a second at start.
constexpr position history_tokens = 24;

/// A session that goes when the test is over, however it ends.
class trial_session {
 public:
  trial_session(engine& in, session_id id) : in_(in), id_(id) {}
  ~trial_session() { in_.close(id_); }
  trial_session(const trial_session&) = delete;
  trial_session& operator=(const trial_session&) = delete;

  result<void> evaluate(std::span<const token_id> tokens) {
    while (!tokens.empty()) {
      const auto chunk = tokens.first(std::min<std::size_t>(tokens.size(), in_.prefill_chunk()));
      const evaluation entry{.session = id_, .first = in_.length(id_), .tokens = chunk, .want_logits = true};
      if (auto done = in_.evaluate({&entry, 1}); !done) return done;
      tokens = tokens.subspan(chunk.size());
    }
    return {};
  }
  [[nodiscard]] std::vector<float> logits() const {
    const auto held = in_.logits(0);
    return {held.begin(), held.end()};
  }
  [[nodiscard]] session_id id() const { return id_; }

 private:
  engine& in_;
  session_id id_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_rows(const gpu::kv_layout& layout, const gpu::kv_image& a, const gpu::kv_image& b) {
  if (a.count != b.count || a.strips.size() != layout.row_bytes.size() || b.strips.size() != a.strips.size())
    return false;
  for (std::size_t region = 0; region < layout.row_bytes.size(); ++region) {
    for (std::size_t i = 0; i < a.count; ++i) {
      const auto* left = a.bytes.data() + a.strips[region].offset_bytes + i * a.strips[region].stride_bytes;
      const auto* right = b.bytes.data() + b.strips[region].offset_bytes + i * b.strips[region].stride_bytes;
      if (std::memcmp(left, right, layout.row_bytes[region]) != 0) return false;
    }
  }
  return true;
}

/// Rows of consecutive positions, carried through the device: what a standby would import.
struct carried {
  position first = 0;
  std::vector<gpu::kv_image> pieces;  // as many as staging slots were needed
};

result<carried> carry(engine& subject, gpu::device& device, session_id from, position first, position end) {
  const std::size_t token_bytes = subject.layout().bytes_per_token();
  const std::size_t slot_tokens = token_bytes == 0 ? 0 : device.staging().slot_bytes() / token_bytes;
  if (slot_tokens == 0) return {errc::no_room, "a staging slot is smaller than the rows of one token"};
  carried out{.first = first, .pieces = {}};
  while (first < end) {
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(slot_tokens, end - first));
    gpu::kv_image source;
    if (auto done = subject.export_rows(from, first, count, source); !done) return done.failure();
    auto slot = device.staging().acquire(token_bytes * count);
    if (!slot) return slot.failure();
    const auto checksum = device.pack(subject.layout(), source, slot->region());
    if (!checksum) return checksum.failure();
    gpu::kv_image target;
    if (auto done = subject.prepare_image(first, count, target); !done) return done.failure();
    if (auto done = device.unpack(subject.layout(), slot->region(), count, *checksum, target); !done) {
      return done.failure();
    }
    if (!same_rows(subject.layout(), source, target)) {
      return {errc::corrupt, "rows come out of the device other than they went in"};
    }
    out.pieces.push_back(std::move(target));
    first += count;
  }
  return out;
}

/// Imports the rows and exports them again: they must come back byte for byte.
result<void> place(engine& subject, session_id to, const carried& rows) {
  position first = rows.first;
  for (const auto& piece : rows.pieces) {
    if (auto done = subject.import_rows(to, first, piece); !done) return done;
    gpu::kv_image back;
    if (auto done = subject.export_rows(to, first, piece.count, back); !done) return done;
    if (!same_rows(subject.layout(), piece, back)) {
      return {errc::corrupt, "rows come back from the engine other than they went in"};
    }
    first += piece.count;
  }
  return {};
}

/// What the first session has done, for the second to repeat.
struct original {
  carried whole;   // the history
  carried middle;  // from the middle of the history on, with one row that was decoded alone
  std::vector<float> after_whole;
  std::vector<float> after_middle;
};

result<void> compare(engine& subject, session_id copy_id, const original& expected,
                     std::span<const token_id> next, trial_session& copy) {
  if (auto done = place(subject, copy_id, expected.whole); !done) return done;
  if (auto done = copy.evaluate(next.first(1)); !done) return done;
  if (!same_bits(copy.logits(), expected.after_whole)) {
    return {errc::corrupt, "logits after imported rows differ in their bits"};
  }
  if (auto done = subject.truncate(copy_id, expected.middle.first); !done) return done;
  if (auto done = place(subject, copy_id, expected.middle); !done) return done;
  if (auto done = copy.evaluate(next.last(1)); !done) return done;
  if (!same_bits(copy.logits(), expected.after_middle)) {
    return {errc::corrupt, "logits after rows imported from the middle differ in their bits"};
  }
  return {};
}

self_test_report only_replay(std::string reason) {
  return {.mode = replication_mode::replay, .reason = "sessions are replayed: " + std::move(reason)};
}

}  // namespace

result<self_test_report> run_self_test(engine& subject, gpu::device& device) {
  if (subject.context_tokens() < 4) return {errc::invalid_argument, "a context of less than 4 tokens"};
  const position length = std::min(history_tokens, subject.context_tokens() - 2);
  std::vector<token_id> tokens(length + 2);  // the history and two that follow
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<token_id>((i + 1) * 7919 % subject.vocabulary_size());
  }
  const auto history = std::span(tokens).first(length);
  const auto next = std::span(tokens).last(2);

  std::optional<trial_session> first(std::in_place, subject, session_id{~std::uint64_t{0}});
  trial_session second(subject, session_id{~std::uint64_t{0} - 1});
  if (auto done = subject.open(first->id()); !done) return done.failure();
  if (auto done = first->evaluate(history); !done) return done.failure();
  if (!subject.can_export_rows())
    return only_replay("the engine cannot export the state of this model by rows");

  original expected;
  auto whole = carry(subject, device, first->id(), 0, length);
  if (!whole) return only_replay(whole.failure().what);
  expected.whole = std::move(*whole);
  if (auto done = first->evaluate(next.first(1)); !done) return done.failure();
  expected.after_whole = first->logits();
  auto middle = carry(subject, device, first->id(), length / 2, length + 1);
  if (!middle) return only_replay(middle.failure().what);
  expected.middle = std::move(*middle);
  if (auto done = first->evaluate(next.last(1)); !done) return done.failure();
  expected.after_middle = first->logits();

  // Beside the first session if there is room, so that rows of others are in the way as in service.
  auto opened = subject.open(second.id());
  if (!opened && opened.code() == errc::no_room) {
    first.reset();
    opened = subject.open(second.id());
  }
  if (!opened) return opened.failure();
  if (auto done = compare(subject, second.id(), expected, next, second); !done)
    return only_replay(done.failure().what);
  return self_test_report{.mode = replication_mode::rows,
                          .reason = "rows of " + std::to_string(length + 1) +
                                    " tokens came back byte for byte, and the next logits bit for bit"};
}

}  // namespace baton::actors::engines
