#include "actors/engines/llama_engine.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "actors/engines/llama_state_format.hpp"
#include "actors/engines/self_test.hpp"
#include "gpu/host_device.hpp"
#include "tests/unit/engines/engine_contract.hpp"
#include "tests/unit/engines/llama_fixture.hpp"

namespace baton::actors::engines {
namespace {

using namespace testing;

/// `count` tokens after `prompt` in one engine without a break.
generated uninterrupted(engine& in, const std::vector<token_id>& prompt, const sampling_parameters& how,
                        std::size_t count) {
  auto log = prompt;
  REQUIRE(in.open(session_a).ok());
  REQUIRE(feed(in, session_a, log).ok());
  auto out = generate(in, session_a, how, log, count);
  in.close(session_a);
  return out;
}

/// The same, but moved to `to` by rows after `moved_at` tokens: the rows follow each evaluation, the last
/// `gap` of them never arrive and are evaluated one by one.
generated handed_over(engine& from, engine& to, const std::vector<token_id>& prompt,
                      const sampling_parameters& how, std::size_t moved_at, std::size_t count,
                      position gap = 0) {
  auto log = prompt;
  REQUIRE(from.open(session_a).ok());
  REQUIRE(to.open(session_a).ok());
  const auto replicate = [&] {
    const position end = from.length(session_a);
    if (end > to.length(session_a))
      REQUIRE(transfer(from, session_a, to, session_a, to.length(session_a), end).ok());
  };
  for (std::size_t at = 0; at < prompt.size(); at += from.prefill_chunk()) {
    const auto part =
        std::span(prompt).subspan(at).first(std::min<std::size_t>(from.prefill_chunk(), prompt.size() - at));
    REQUIRE(feed(from, session_a, part).ok());
    replicate();
  }
  generated out;
  for (std::size_t i = 0; i < moved_at; ++i) {
    const auto one = generate(from, session_a, how, log, 1);
    out.tokens.push_back(one.tokens.front());
    out.logits.push_back(one.logits.front());
    REQUIRE(feed(from, session_a, std::span(log).last(1)).ok());
    if (i + 1 + gap <= moved_at) replicate();
  }
  from.close(session_a);
  const position held = to.length(session_a);
  const auto before = to.counters().evaluated_tokens;
  if (held == log.size()) {
    REQUIRE(to.truncate(session_a, held - 1).ok());  // logits come from evaluating the last token once more
  }
  REQUIRE(feed(to, session_a, std::span(log).subspan(to.length(session_a)), 1).ok());
  CHECK(to.counters().evaluated_tokens - before == std::max<position>(gap, 1));
  const auto rest = generate(to, session_a, how, log, count - moved_at);
  out.tokens.insert(out.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  out.logits.insert(out.logits.end(), rest.logits.begin(), rest.logits.end());
  to.close(session_a);
  return out;
}

}  // namespace

TEST_CASE("llama: the contract of engines") {
  auto how = model_options(64, 3);
  how.prefill_chunk = 16;
  const auto subject = load(how);
  check_constants(*subject);
  check_sessions(*subject, 3);
  check_refusals(*subject);
  check_context_end(*subject);
  check_logits(*subject);
  check_truncate(*subject);
  check_rows(*subject, 3);
  check_row_refusals(*subject);
  check_counters(*subject);
}

TEST_CASE("llama: the contract of engines, in throughput mode") {
  auto how = model_options(64, 3);
  how.prefill_chunk = 16;
  how.mode = llama_engine::batching::throughput;
  const auto subject = load(how);
  CHECK(subject->max_batch() == 3);
  check_constants(*subject);
  check_sessions(*subject, 3);
  check_refusals(*subject);
  check_context_end(*subject);
  check_truncate(*subject);
  check_rows(*subject, 3);
  check_row_refusals(*subject);
  check_counters(*subject);
}

TEST_CASE("llama: a second engine goes on bit for bit from replicated rows") {
  const auto first = load(model_options(256));
  const auto second = load(model_options(256));
  CHECK(first->identity() == second->identity());
  const auto prompt = prompt_of(70);
  for (const auto& how : {greedy(), sampling()}) {
    INFO("temperature " << how.temperature);
    const auto expected = uninterrupted(*first, prompt, how, 52);
    CHECK(handed_over(*first, *second, prompt, how, 20, 52) == expected);
  }
}

TEST_CASE("llama: a gap is evaluated one by one, bit for bit") {
  const auto first = load(model_options(256));
  const auto second = load(model_options(256));
  const auto prompt = prompt_of(40);
  const auto expected = uninterrupted(*first, prompt, greedy(), 32);
  CHECK(handed_over(*first, *second, prompt, greedy(), 20, 32, 1) == expected);
  CHECK(handed_over(*first, *second, prompt, greedy(), 20, 32, 16) == expected);
}

TEST_CASE("llama: prompts beyond 512 tokens") {
  const auto first = load(model_options(768));
  const auto second = load(model_options(768));
  const auto prompt = prompt_of(700);
  auto log = prompt;
  REQUIRE(first->open(session_a).ok());
  REQUIRE(second->open(session_a).ok());
  REQUIRE(feed(*first, session_a, prompt).ok());
  REQUIRE(transfer(*first, session_a, *second, session_a, 0, 700).ok());
  (void)generate(*first, session_a, greedy(), log, 1);
  auto other_log = log;
  REQUIRE(feed(*first, session_a, std::span(log).last(1)).ok());
  const auto expected = generate(*first, session_a, greedy(), log, 12);
  REQUIRE(feed(*second, session_a, std::span(other_log).last(1)).ok());
  CHECK(generate(*second, session_a, greedy(), other_log, 12) == expected);

  // From the middle, into a session whose cells another one used before.
  REQUIRE(second->truncate(session_a, 300).ok());
  REQUIRE(transfer(*first, session_a, *second, session_a, 300, 555).ok());
  REQUIRE(transfer(*first, session_a, *second, session_a, 555, 701).ok());
  auto third_log = std::vector(log.begin(), log.begin() + 702);
  REQUIRE(feed(*second, session_a, std::span(third_log).last(1)).ok());
  auto again = generate(*second, session_a, greedy(), third_log, 11);
  CHECK(again.tokens == std::vector(expected.tokens.begin() + 1, expected.tokens.end()));
  CHECK(again.logits == std::vector(expected.logits.begin() + 1, expected.logits.end()));
}

TEST_CASE("llama: in exact mode other sessions change no bit") {
  const auto subject = load(model_options(256, 3));
  const auto one = prompt_of(40, 1);
  const auto two = prompt_of(33, 2);
  const auto alone = uninterrupted(*subject, one, sampling(), 16);
  auto log_one = one;
  auto log_two = two;
  generated woven;
  REQUIRE(subject->open(session_b).ok());
  REQUIRE(feed(*subject, session_b, two).ok());
  auto logits_two = copy_of_logits(*subject);
  REQUIRE(subject->open(session_a).ok());
  REQUIRE(feed(*subject, session_a, one).ok());
  for (int i = 0; i < 16; ++i) {
    const auto next = generate(*subject, session_a, sampling(), log_one, 1);
    woven.tokens.push_back(next.tokens.front());
    woven.logits.push_back(next.logits.front());
    log_two.push_back(sample(logits_two, greedy(), 0, {}).token);
    REQUIRE(feed(*subject, session_b, std::span(log_two).last(1)).ok());
    logits_two = copy_of_logits(*subject);
    REQUIRE(feed(*subject, session_a, std::span(log_one).last(1)).ok());
  }
  CHECK(woven == alone);
}

TEST_CASE("llama: a wrong row shows in the logits") {
  const auto subject = load(model_options(64));
  const auto tokens = prompt_of(21);
  REQUIRE(subject->open(session_a).ok());
  REQUIRE(feed(*subject, session_a, std::span(tokens).first(20)).ok());
  gpu::kv_image image;
  REQUIRE(subject->export_rows(session_a, 0, 20, image).ok());
  REQUIRE(feed(*subject, session_a, std::span(tokens).last(1)).ok());
  const auto right = hash_of_logits(*subject);
  const auto after = [&](const gpu::kv_image& rows) {
    REQUIRE(subject->open(session_b).ok());
    REQUIRE(subject->import_rows(session_b, 0, rows).ok());
    REQUIRE(feed(*subject, session_b, std::span(tokens).last(1)).ok());
    subject->close(session_b);
    return hash_of_logits(*subject);
  };
  CHECK(after(image) == right);
  for (const std::size_t region : {0U, 29U, 30U, 59U}) {  // the first and the last of K and V
    auto flipped = image;
    flipped.bytes[image.strips[region].offset_bytes + 7 * image.strips[region].stride_bytes + 101] ^=
        std::byte{8};
    CHECK(after(flipped) != right);
  }
  auto swapped = image;
  copy_row(subject->layout(), image, 3, swapped, 4);
  copy_row(subject->layout(), image, 4, swapped, 3);
  CHECK(after(swapped) != right);
}

TEST_CASE("llama: throughput mode decodes three sessions in one batch") {
  auto how = model_options(128, 3);
  how.mode = llama_engine::batching::throughput;
  const auto subject = load(how);
  std::vector<std::vector<token_id>> logs;
  std::vector<generated> alone;
  std::vector<token_id> next(3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    logs.push_back(prompt_of(30 + 5 * i, i));
    alone.push_back(uninterrupted(*subject, logs.back(), greedy(), 8));
  }
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(subject->open(session_id{i}).ok());
    REQUIRE(feed(*subject, session_id{i}, logs[i]).ok());
    next[i] = sample(subject->logits(0), greedy(), 0, {}).token;
  }
  const auto evaluations = subject->counters().evaluations;
  for (std::size_t step = 0; step < 8; ++step) {
    std::vector<evaluation> batch;
    for (std::uint64_t i = 0; i < 3; ++i) {
      CHECK(next[i] == alone[i].tokens[step]);  // the bits may differ, this text does not
      batch.push_back(
          {.session = session_id{i}, .first = subject->length(session_id{i}), .tokens = {&next[i], 1}});
    }
    batch[1].want_logits = step % 2 == 0;
    REQUIRE(subject->evaluate(batch).ok());
    CHECK(subject->logits(1).empty() == (step % 2 != 0));
    if (step % 2 != 0) {  // forget and repeat what gave no logits
      REQUIRE(subject->truncate(session_id{1}, subject->length(session_id{1}) - 1).ok());
    }
    const token_id second = next[1];
    for (const std::size_t i : {0U, 2U})
      next[i] = sample(subject->logits(i), greedy(), 0, {}).token;
    if (step % 2 != 0) REQUIRE(feed(*subject, session_id{1}, {&second, 1}).ok());
    next[1] = sample(subject->logits(step % 2 != 0 ? 0 : 1), greedy(), 0, {}).token;
  }
  CHECK(subject->counters().evaluations == evaluations + 8 + 4);
}

// A batch of 64 tokens or more takes another attention kernel, which rounds otherwise; below, and below 512
// rows, not even the bits differ. The bound tells rounding from rows of the wrong session.
TEST_CASE("llama: prompts of several sessions in one batch give nearly the logits of each alone") {
  auto how = model_options(128, 3);
  how.mode = llama_engine::batching::throughput;
  const auto subject = load(how);
  std::vector<std::vector<token_id>> prompts;
  std::vector<std::vector<float>> alone;
  std::vector<evaluation> batch;
  for (std::uint64_t i = 0; i < 3; ++i)
    prompts.push_back(prompt_of(30 + 5 * i, i));
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(subject->open(session_id{i}).ok());
    REQUIRE(feed(*subject, session_id{i}, prompts[i]).ok());
    alone.push_back(copy_of_logits(*subject));
    REQUIRE(subject->truncate(session_id{i}, 0).ok());
    batch.push_back({.session = session_id{i}, .first = 0, .tokens = prompts[i]});
  }
  REQUIRE(subject->evaluate(batch).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    float furthest = 0;
    for (std::size_t t = 0; t < alone[i].size(); ++t) {
      furthest = std::max(furthest, std::abs(alone[i][t] - subject->logits(i)[t]));
    }
    INFO("session " << i << ": logits up to " << furthest << " apart");
    CHECK(furthest < 2.0F);
  }
}

TEST_CASE("llama: sessions move into engines whose cells are in disorder") {
  for (const auto mode : {llama_engine::batching::exact, llama_engine::batching::throughput}) {
    INFO("mode " << static_cast<int>(mode));
    auto how = model_options(192, 4);
    how.mode = mode;
    how.cache_tokens = 320;
    const auto first = load(how);
    const auto second = load(how);
    const auto prompt = prompt_of(115);
    const auto expected = uninterrupted(*first, prompt, greedy(), 12);

    numbers random(11);
    for (std::uint64_t round = 0; round < 3;
         ++round) {  // fill and free, so that holes of many sizes are left
      for (std::uint64_t i = 0; i < 3; ++i) {
        const session_id session{100 + 3 * round + i};
        if (!second->open(session)) continue;
        const auto tokens = random_tokens(random, 8 + random.below(10), second->vocabulary_size());
        REQUIRE(feed(*second, session, tokens).ok());
      }
      second->close(session_id{100 + 3 * round});
      second->close(session_id{101 + 3 * round});
    }
    CHECK(handed_over(*first, *second, prompt, greedy(), 4, 12).tokens == expected.tokens);

    // And back out of the disorder: rows leave in the order of positions, wherever their cells lie.
    REQUIRE(first->open(session_a).ok());
    REQUIRE(second->open(session_a).ok());
    REQUIRE(feed(*first, session_a, prompt).ok());
    REQUIRE(transfer(*first, session_a, *second, session_a, 0, 115).ok());
    gpu::kv_image straight;
    gpu::kv_image returned;
    REQUIRE(first->export_rows(session_a, 0, 115, straight).ok());
    REQUIRE(second->export_rows(session_a, 0, 115, returned).ok());
    CHECK(rows_of(first->layout(), straight) == rows_of(second->layout(), returned));
  }
}

TEST_CASE("llama: a shared cache that is full refuses and keeps what it has") {
  auto how = model_options(128, 3);
  how.mode = llama_engine::batching::throughput;
  how.cache_tokens = 128;
  const auto subject = load(how);
  const auto tokens = prompt_of(64);
  REQUIRE(subject->open(session_a).ok());
  REQUIRE(subject->open(session_b).ok());
  REQUIRE(feed(*subject, session_a, tokens).ok());
  REQUIRE(feed(*subject, session_b, std::span(tokens).first(60)).ok());
  CHECK(feed(*subject, session_a, std::span(tokens).first(5)).code() == errc::no_room);
  CHECK(transfer(*subject, session_b, *subject, session_a, 0, 5).code() == errc::gap);
  gpu::kv_image image;
  REQUIRE(subject->prepare_image(64, 5, image).ok());
  CHECK(subject->import_rows(session_a, 64, image).code() == errc::no_room);
  CHECK(subject->length(session_a) == 64);
  subject->close(session_b);
  CHECK(feed(*subject, session_a, std::span(tokens).first(5)).ok());
}

TEST_CASE("llama: quantised KV moves bit for bit, and only to its like") {
  std::vector<fingerprint> identities;
  for (const char* type : {"q8_0", "q4_0"}) {
    INFO(type);
    auto how = model_options(128);
    how.kv_type = type;
    const auto first = load(how);
    const auto second = load(how);
    REQUIRE(first->can_export_rows());
    const auto prompt = prompt_of(40);
    CHECK(handed_over(*first, *second, prompt, greedy(), 4, 12) ==
          uninterrupted(*first, prompt, greedy(), 12));
    identities.push_back(first->identity());
  }
  CHECK(identities[0].difference(identities[1]) == "kv_type: mine q8_0, theirs q4_0");
}

TEST_CASE("llama: the start-up self-test decides") {
  gpu::host_device device({.slot_bytes = 16 * 23040, .slots = 2});
  for (const bool flash_attention : {true, false}) {
    auto how = model_options(128, 1);
    how.flash_attention = flash_attention;
    const auto subject = load(how);
    CHECK(subject->can_export_rows() == flash_attention);
    const auto report = run_self_test(*subject, device);
    REQUIRE(report.ok());
    INFO(report->reason);
    CHECK(report->mode == (flash_attention ? replication_mode::rows : replication_mode::replay));
    CHECK(subject->open(session_a).ok());
  }
  auto how = model_options(128, 3);
  how.mode = llama_engine::batching::throughput;
  const auto report = run_self_test(*load(how), device);
  REQUIRE(report.ok());
  CHECK(report->mode == replication_mode::rows);
}

TEST_CASE("llama: files and options that cannot be are named") {
  const auto refused = [](const llama_engine::options& how, errc why, const std::string& part) {
    const auto made = llama_engine::load(how);
    REQUIRE_FALSE(made.ok());
    INFO(made.failure().what);
    CHECK(made.code() == why);
    CHECK(made.failure().what.find(part) != std::string::npos);
  };
  auto how = model_options(128);
  how.model_path = "/nonexistent/model.gguf";
  refused(how, errc::io_failed, "/nonexistent/model.gguf");
  CHECK(llama_tokenizer::load(how.model_path).code() == errc::io_failed);

  const auto folder =
      std::filesystem::temp_directory_path() / ("baton-engines-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  std::ifstream whole(model_path(), std::ios::binary);
  std::vector<char> start(4U << 20);
  REQUIRE(whole.read(start.data(), static_cast<std::streamsize>(start.size())));
  const auto write = [&](const char* name, std::span<const char> bytes) {
    const auto path = (folder / name).string();
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  };
  for (const std::size_t size : {0U, 3U, 4U, 30U, 1000U, 100000U, 4U << 20}) {
    INFO(size << " bytes");
    how.model_path = write("short.gguf", std::span(start).first(size));
    refused(how, errc::malformed, how.model_path);
  }
  auto bad = start;
  bad[4] = 77;  // the version
  how.model_path = write("version.gguf", bad);
  refused(how, errc::malformed, how.model_path);
  how.model_path = write("text.gguf", std::string_view("this is no model"));
  refused(how, errc::malformed, how.model_path);
  CHECK(llama_tokenizer::load(how.model_path).code() == errc::malformed);
  std::filesystem::remove_all(folder);

  how = model_options(128);
  how.kv_type = "f17";
  refused(how, errc::invalid_argument, "kv_type");
  how = model_options(1U << 20);
  refused(how, errc::invalid_argument, "context is");
  how = model_options(128, 0);
  refused(how, errc::invalid_argument, "sessions");
  how = model_options(128, 1000);
  how.mode = llama_engine::batching::throughput;
  refused(how, errc::invalid_argument, "sessions");
  how = model_options(128);
  how.flash_attention = false;
  how.kv_type = "q8_0";  // the library cannot do this pair
  refused(how, errc::engine_failed, "llama.cpp");
}

TEST_CASE("llama: the fingerprint tells engines apart") {
  const auto plain = load(model_options(128, 1));
  auto how = model_options(128, 2);
  how.prepared_lanes = 1;
  CHECK(load(how)->identity() == plain->identity());  // how many sessions there are does not matter
  how.prefill_chunk = 32;
  CHECK(load(how)->identity().difference(plain->identity()) == "prefill_chunk: mine 32, theirs 64");
  how = model_options(128, 2);
  how.threads = 2;
  CHECK(load(how)->identity().difference(plain->identity()) == "threads: mine 2, theirs 1");
  how = model_options(128, 2);
  how.mode = llama_engine::batching::throughput;
  CHECK(load(how)->identity().difference(plain->identity()) == "batching: mine throughput, theirs exact");
}

TEST_CASE("llama: the saved state is taken apart, sorted and refused") {
  llama_state_format format{.magic = 7, .sequence = 2, .layers = 1, .types = {1, 1}, .layout = {{4, 8}}};
  gpu::kv_image image;
  format.prepare(5, 3, image);
  CHECK(image.bytes.size() == format.bytes(3));
  CHECK(format.matches(5, image));
  CHECK_FALSE(format.matches(6, image));
  const auto learned = llama_state_format::learn(image.bytes, 5, 3);
  REQUIRE(learned.has_value());
  CHECK(learned->layout == format.layout);
  CHECK(learned->types == format.types);
  for (std::size_t cut = 1; cut < image.bytes.size(); ++cut) {
    // Without the last region whole it is a model that keeps no V.
    const bool no_v = cut == image.bytes.size() - 12 - std::size_t{3} * 8;
    CHECK(llama_state_format::learn(std::span(image.bytes).first(cut), 5, 3).has_value() == no_v);
  }
  for (const std::size_t word :
       {2U, 3U, 4U, 5U, 6U, 13U, 14U}) {  // streams, cells, a cell, V transposed, layers
    auto other = image.bytes;
    other[word * 4] ^= std::byte{16};
    CHECK_FALSE(llama_state_format::learn(other, 5, 3).has_value());
  }
  // Cells hold positions 6, 7, 5; the rows are marked with them.
  const std::array<std::uint32_t, 3> cells{6, 7, 5};
  for (std::size_t cell = 0; cell < 3; ++cell) {
    std::memcpy(image.bytes.data() + 16 + 12 * cell, &cells[cell], 4);
    for (const auto& [offset, stride] : image.strips) {
      std::fill_n(image.bytes.begin() + static_cast<std::ptrdiff_t>(offset + cell * stride), stride,
                  static_cast<std::byte>(cells[cell]));
    }
  }
  const auto disordered = image;
  REQUIRE(format.sort_rows(5, image));
  CHECK(format.matches(5, image));
  const auto rows = rows_of(format.layout, image);
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(rows[i] == static_cast<std::byte>(5 + i / 12));
  image = disordered;
  CHECK_FALSE(format.sort_rows(6, image));
  std::memcpy(image.bytes.data() + 16, &cells[1], 4);  // position 7 twice
  CHECK_FALSE(format.sort_rows(5, image));
}

TEST_CASE("llama: what moving rows costs, beside evaluating them", "[cost]") {
  const auto from = load(model_options(1024, 1));
  const auto to = load(model_options(1024, 1));
  const auto tokens = prompt_of(513);
  REQUIRE(from->open(session_a).ok());
  REQUIRE(to->open(session_a).ok());
  const auto time_us = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  std::printf("  %zu bytes per token; microseconds per token:\n", from->layout().bytes_per_token());
  std::printf("  length  prefill  decode | export by 1   by 16   by 64 | import by 1   by 16   by 64\n");
  for (const position length : {64U, 256U, 512U}) {
    const auto rest = std::span(tokens).first(length).subspan(from->length(session_a));
    const double prefill =
        time_us([&] { REQUIRE(feed(*from, session_a, rest).ok()); }) / static_cast<double>(rest.size());
    const double decode = time_us([&] { REQUIRE(feed(*from, session_a, std::span(tokens).last(1)).ok()); });
    REQUIRE(from->truncate(session_a, length).ok());
    std::vector<double> exports;
    std::vector<double> imports;
    for (const std::uint32_t piece : {1U, 16U, 64U}) {
      double out = 0;
      double in = 0;
      if (to->length(session_a) < length - 64) {
        REQUIRE(transfer(*from, session_a, *to, session_a, to->length(session_a), length - 64).ok());
      }
      REQUIRE(to->truncate(session_a, length - 64).ok());
      gpu::kv_image image;
      for (position at = length - 64; at < length; at += piece) {
        out += time_us([&] { REQUIRE(from->export_rows(session_a, at, piece, image).ok()); });
        in += time_us([&] { REQUIRE(to->import_rows(session_a, at, image).ok()); });
      }
      exports.push_back(out / 64);
      imports.push_back(in / 64);
    }
    std::printf("  %6u %8.0f %7.0f | %11.1f %7.1f %7.1f | %11.1f %7.1f %7.1f\n", length, prefill, decode,
                exports[0], exports[1], exports[2], imports[0], imports[1], imports[2]);
  }
}

}  // namespace baton::actors::engines
