#include "actors/engines/toy_engine.hpp"

#include "actors/engines/toy_tokenizer.hpp"
#include "tests/unit/engines/engine_contract.hpp"

namespace baton::actors::engines {
namespace {

using namespace testing;

toy_engine::options small() {
  toy_engine::options how;
  how.context_tokens = 64;
  how.sessions = 3;
  how.prefill_chunk = 16;
  return how;
}

/// What the engine says after `text`, as bytes; "." stands for an end token.
std::string answer(engine& in, session_id session, std::size_t most) {
  std::string said;
  while (said.size() < most) {
    const token_id token = sample(in.logits(0), greedy(), in.length(session), {}).token;
    said += token < 256 ? std::string(1, static_cast<char>(token)) : std::string(".");
    if (token >= 256 || !feed(in, session, {&token, 1})) break;
  }
  return said;
}

std::string answer_to(std::string_view text, std::size_t most = 40, std::uint64_t weights_seed = 1) {
  toy_engine::options how;
  how.weights_seed = weights_seed;
  toy_engine in(how);
  REQUIRE(in.open(session_a).ok());
  REQUIRE(feed(in, session_a, toy_tokenizer().tokenize(text, true)).ok());
  return answer(in, session_a, most);
}

/// A second session of the rows `which` of the first, in that order.
void import_rows_of(engine& in, session_id from, session_id to, std::span<const position> which) {
  gpu::kv_image all;
  gpu::kv_image picked;
  REQUIRE(in.export_rows(from, 0, in.length(from), all).ok());
  REQUIRE(in.prepare_image(0, static_cast<std::uint32_t>(which.size()), picked).ok());
  for (std::uint32_t i = 0; i < which.size(); ++i)
    copy_row(in.layout(), all, which[i], picked, i);
  REQUIRE(in.import_rows(to, 0, picked).ok());
}

}  // namespace

TEST_CASE("toy: the contract of engines") {
  toy_engine subject(small());
  SECTION("constants") {
    check_constants(subject);
  }
  SECTION("sessions") {
    check_sessions(subject, 3);
  }
  SECTION("refusals") {
    check_refusals(subject);
  }
  SECTION("the end of the context") {
    check_context_end(subject);
  }
  SECTION("logits") {
    check_logits(subject);
  }
  SECTION("truncate") {
    check_truncate(subject);
  }
  SECTION("rows") {
    check_rows(subject, 200);
  }
  SECTION("refused rows") {
    check_row_refusals(subject);
  }
  SECTION("counters") {
    check_counters(subject);
  }
}

TEST_CASE("toy: the contract of engines, in batches and with odd rows") {
  auto how = small();
  how.max_batch = 3;
  how.layout = {{5, 1, 13, 64}};
  toy_engine subject(how);
  SECTION("refusals") {
    check_refusals(subject);
  }
  SECTION("rows") {
    check_rows(subject, 50);
  }
  SECTION("a batch gives what each alone gives") {
    const std::vector<token_id> one{1, 2, 3};
    const std::vector<token_id> two{4};
    REQUIRE(subject.open(session_a).ok());
    REQUIRE(subject.open(session_b).ok());
    const std::vector<evaluation> batch{{.session = session_a, .first = 0, .tokens = one},
                                        {.session = session_b, .first = 0, .tokens = two}};
    REQUIRE(subject.evaluate(batch).ok());
    const auto together = std::pair(copy_of_logits(subject, 0), copy_of_logits(subject, 1));
    REQUIRE(subject.truncate(session_a, 0).ok());
    REQUIRE(subject.truncate(session_b, 0).ok());
    REQUIRE(feed(subject, session_a, one).ok());
    CHECK(copy_of_logits(subject) == together.first);
    REQUIRE(feed(subject, session_b, two).ok());
    CHECK(copy_of_logits(subject) == together.second);
  }
}

TEST_CASE("toy: one flipped bit in any row changes what follows") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    numbers random(seed);
    toy_engine subject(small());
    const position length = 2 + random.below(30);
    const auto tokens = random_tokens(random, length, 256);
    REQUIRE(subject.open(session_a).ok());
    REQUIRE(subject.open(session_b).ok());
    REQUIRE(feed(subject, session_a, tokens).ok());
    gpu::kv_image image;
    REQUIRE(subject.export_rows(session_a, 0, length, image).ok());
    const std::size_t region = random.below(image.strips.size());
    const std::size_t byte = image.strips[region].offset_bytes +
                             random.below(length) * image.strips[region].stride_bytes +
                             random.below(subject.layout().row_bytes[region]);
    image.bytes[byte] ^= std::byte{1} << random.below(8);
    REQUIRE(subject.import_rows(session_b, 0, image).ok());
    const token_id next = 65;
    REQUIRE(feed(subject, session_a, {&next, 1}).ok());
    const auto right = copy_of_logits(subject);
    const auto text = answer(subject, session_a, 8);
    REQUIRE(feed(subject, session_b, {&next, 1}).ok());
    CHECK(copy_of_logits(subject) != right);
    CHECK(answer(subject, session_b, 8) != text);
  }
}

TEST_CASE("toy: a missing, repeated or swapped row changes what follows") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    numbers random(seed);
    toy_engine subject(small());
    const position length = 3 + random.below(30);
    const auto tokens = random_tokens(random, length, 256);
    REQUIRE(subject.open(session_a).ok());
    REQUIRE(subject.open(session_b).ok());
    REQUIRE(feed(subject, session_a, tokens).ok());
    std::vector<position> order(length);
    for (position p = 0; p < length; ++p)
      order[p] = p;
    const position at = random.below(length - 1);
    switch (seed % 4) {
      case 0:
        order.erase(order.begin() + at);
        break;
      case 1:
        order.insert(order.begin() + at, at);
        break;
      case 2:
        std::swap(order[at], order[at + 1]);
        break;
      default:
        order[at] = order[at + 1];
        break;
    }
    import_rows_of(subject, session_a, session_b, order);
    const token_id next = 65;
    REQUIRE(feed(subject, session_a, {&next, 1}).ok());
    const auto text = answer(subject, session_a, 8);
    REQUIRE(feed(subject, session_b, {&next, 1}).ok());
    CHECK(answer(subject, session_b, 8) != text);
  }
}

TEST_CASE("toy: wrong rows are forgotten with them") {
  toy_engine subject(small());
  const auto tokens = toy_tokenizer().tokenize("say:right\n", false);
  REQUIRE(subject.open(session_a).ok());
  REQUIRE(subject.open(session_b).ok());
  REQUIRE(feed(subject, session_a, tokens).ok());
  gpu::kv_image image;
  REQUIRE(subject.export_rows(session_a, 0, 10, image).ok());
  image.bytes[image.strips[3].offset_bytes + 8 * image.strips[3].stride_bytes] ^= std::byte{4};  // in row 8
  REQUIRE(subject.import_rows(session_b, 0, image).ok());
  REQUIRE(feed(subject, session_b, {&tokens[0], 1}).ok());
  CHECK(answer(subject, session_b, 6) != "right.");
  REQUIRE(subject.truncate(session_b, 8).ok());
  REQUIRE(transfer(subject, session_a, subject, session_b, 8, 9).ok());
  REQUIRE(feed(subject, session_b, {&tokens[9], 1}).ok());
  CHECK(answer(subject, session_b, 6) == "right.");
}

TEST_CASE("toy: other weights are another model") {
  CHECK(answer_to("hello", 20, 1) == answer_to("hello", 20, 1));
  CHECK(answer_to("hello", 20, 1) != answer_to("hello", 20, 2));
  CHECK(answer_to("hello", 20) != answer_to("hallo", 20));
  for (const char c : answer_to("hello", 500))
    CHECK((c >= 32 && c < 127));
  auto how = small();
  how.weights_seed = 2;
  CHECK(toy_engine(small()).identity().difference(toy_engine(how).identity()) ==
        "weights_seed: mine 1, theirs 2");
  how = small();
  how.layout.row_bytes[0] = 24;
  CHECK(toy_engine(small()).identity().hash() != toy_engine(how).identity().hash());
}

TEST_CASE("toy: follows a script") {
  CHECK(answer_to("say:hello world\n") == "hello world.");
  CHECK(answer_to("before say:x\n") == "x.");
  CHECK(answer_to("say:first\nsay:second\n") == "second.");
  CHECK(answer_to("say:say:inner\n") == "inner.");
  CHECK(answer_to("say:\n") == ".");
  CHECK(answer_to("say:\xF0\x9F\x98\x80\n") == "\xF0\x9F\x98\x80.");
  CHECK(answer_to("say:no end", 8) != "no end.");
  CHECK(answer_to("say:cut\nmore", 4) != "cut.");
  CHECK(answer_to("say:hello\nhel") == "lo.");  // text that goes on as the script does has been said
}

TEST_CASE("toy: follows a script in a chat, turn by turn") {
  const toy_tokenizer words;
  const auto first = words.render({{"system", "You are say:wrong"}, {"user", "say:one two"}}, true);
  REQUIRE(first.ok());
  CHECK(answer_to(*first) == "one two.");
  const auto lines = words.render({{"user", "say:one\nthen more"}}, true);
  REQUIRE(lines.ok());
  CHECK(answer_to(*lines) == "one.");
  const auto second = words.render({{"user", "say:one"}, {"assistant", "one"}, {"user", "say:two"}}, true);
  REQUIRE(second.ok());
  CHECK(answer_to(*second) == "two.");
  // A script that has been said to its end is over.
  const auto over = words.render({{"user", "say:one"}, {"assistant", "one"}, {"user", "and now?"}}, true);
  REQUIRE(over.ok());
  CHECK(answer_to(*over).find("one.") == std::string::npos);
  const auto system = words.render({{"system", "say:one"}, {"user", "hello"}}, true);
  REQUIRE(system.ok());
  CHECK(answer_to(*system) == "one.");
}

TEST_CASE("toy: a script goes on in an engine that only has the rows") {
  for (std::size_t moved_at = 0; moved_at <= 12; ++moved_at) {
    INFO("moved after " << moved_at << " tokens of the answer");
    toy_engine from;
    toy_engine to;
    REQUIRE(from.open(session_a).ok());
    REQUIRE(to.open(session_a).ok());
    auto log = toy_tokenizer().tokenize("say:hello \xC3\xA4 world\n", false);
    REQUIRE(feed(from, session_a, log).ok());
    const auto begun = generate(from, session_a, greedy(), log, moved_at + 1);
    REQUIRE(transfer(from, session_a, to, session_a, 0, from.length(session_a)).ok());
    REQUIRE(feed(to, session_a, std::span(log).last(1)).ok());
    const auto rest = generate(to, session_a, greedy(), log, 20);
    std::string text;
    for (const token_id token : begun.tokens)
      text += toy_tokenizer().piece(token);
    for (const token_id token : rest.tokens) {
      if (token == toy::turn_end) break;
      text += toy_tokenizer().piece(token);
    }
    CHECK(text == "hello \xC3\xA4 world");
  }
}

TEST_CASE("toy: models what can only be replayed") {
  auto how = small();
  how.can_export_rows = false;
  how.can_truncate = false;
  toy_engine subject(how);
  check_constants(subject);
  check_refusals(subject);
  REQUIRE(subject.open(session_a).ok());
  REQUIRE(feed(subject, session_a, std::vector<token_id>{1, 2, 3}).ok());
  gpu::kv_image image;
  CHECK(subject.export_rows(session_a, 0, 1, image).code() == errc::unsupported);
  CHECK(subject.prepare_image(0, 1, image).code() == errc::unsupported);
  CHECK(subject.import_rows(session_a, 3, image).code() == errc::unsupported);
  CHECK(subject.truncate(session_a, 2).code() == errc::unsupported);
  CHECK(subject.length(session_a) == 3);
  CHECK(subject.truncate(session_a, 0).ok());
}

TEST_CASE("toy: a shared cache fills up") {
  auto how = small();
  how.cache_tokens = 30;
  toy_engine subject(how);
  const std::vector<token_id> tokens(16, 7);
  REQUIRE(subject.open(session_a).ok());
  REQUIRE(subject.open(session_b).ok());
  REQUIRE(feed(subject, session_a, tokens).ok());
  CHECK(feed(subject, session_b, tokens).code() == errc::no_room);
  CHECK(subject.length(session_b) == 0);
  CHECK(feed(subject, session_b, std::span(tokens).first(14)).ok());
  CHECK(transfer(subject, session_b, subject, session_a, 0, 1).code() == errc::gap);
  gpu::kv_image image;
  REQUIRE(subject.prepare_image(16, 1, image).ok());
  CHECK(subject.import_rows(session_a, 16, image).code() == errc::no_room);
  subject.close(session_b);
  CHECK(subject.import_rows(session_a, 16, image).ok());
}

TEST_CASE("toy: time passes where the options say") {
  auto how = small();
  std::chrono::microseconds waited{0};
  how.delay_per_evaluation = std::chrono::microseconds{100};
  how.delay_per_token = std::chrono::microseconds{3};
  how.wait = [&](std::chrono::microseconds time) { waited += time; };
  toy_engine subject(how);
  REQUIRE(subject.open(session_a).ok());
  REQUIRE(feed(subject, session_a, std::vector<token_id>(20, 1)).ok());  // chunks of 16 and 4
  CHECK(waited.count() == 2 * 100 + 20 * 3);
}

TEST_CASE("toy tokenizer: bytes, and control tokens only where they are meant") {
  const toy_tokenizer words("tiny");
  CHECK(words.model_name() == "tiny");
  CHECK(words.vocabulary_size() == toy::vocabulary);
  CHECK(words.tokenize("a\xFF", false) == std::vector<token_id>{97, 255});
  const std::string text = "<|im_start|>x<|im_end|><|endoftext|><|im_";
  const auto special = words.tokenize(text, true);
  CHECK(special.size() == 4 + 5);
  CHECK(special[0] == toy::turn_start);
  CHECK(special[2] == toy::turn_end);
  CHECK(special[3] == toy::end_of_text);
  CHECK(words.tokenize(text, false).size() == text.size());
  CHECK(words.piece(97) == "a");
  CHECK(words.piece(0) == std::string(1, '\0'));
  for (const token_id token :
       {toy::turn_start, toy::turn_end, toy::end_of_text, token_id{-1}, token_id{1000}}) {
    CHECK(words.piece(token).empty());
  }
  CHECK(words.ends_generation(toy::turn_end));
  CHECK(words.ends_generation(toy::end_of_text));
  CHECK_FALSE(words.ends_generation(toy::turn_start));
  CHECK_FALSE(words.ends_generation(97));
  CHECK(words.prefix().empty());
  const auto chat = words.render({{"system", "s"}, {"user", "hi"}}, true);
  REQUIRE(chat.ok());
  CHECK(*chat == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  CHECK_FALSE(words.render({}, true).ok());
  CHECK_FALSE(words.render({{"", "x"}}, true).ok());
}

}  // namespace baton::actors::engines
