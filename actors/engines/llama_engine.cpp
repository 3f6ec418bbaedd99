#include "actors/engines/llama_engine.hpp"

#include <ggml.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <utility>

#include "schemas/hash.hpp"

namespace baton::actors::engines {
namespace {

constexpr std::array<std::pair<const char*, ggml_type>, 4> kv_types{{
    {"f32", GGML_TYPE_F32},
    {"f16", GGML_TYPE_F16},
    {"q8_0", GGML_TYPE_Q8_0},
    {"q4_0", GGML_TYPE_Q4_0},
}};

std::optional<ggml_type> kv_type_named(const std::string& name) {
  for (const auto& [known, type] : kv_types) {
    if (name == known) return type;
  }
  return std::nullopt;
}

error unknown_session() {
  return {errc::unknown_session, "no such session in the engine"};
}

/// A hash over the whole file, block by block: nodes must run equal weights, not files of equal names.
result<std::string> hash_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(1U << 20);
  std::uint64_t chain = 0;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    chain = hash_step(chain, hash_text({block.data(), static_cast<std::size_t>(file.gcount())}));
  }
  if (!file.eof()) return {errc::io_failed, "cannot read the model file " + path};
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(chain));
  return std::string(text.data());
}

/// What the library was built to use, without the separator at its end.
std::string instruction_set() {
  std::string text = llama_print_system_info();
  while (!text.empty() && (text.back() == ' ' || text.back() == '|'))
    text.pop_back();
  return text;
}

/// "30x384, 30x192": regions of equal rows together.
std::string text_of(const gpu::kv_layout& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.row_bytes.size();) {
    std::size_t end = i;
    while (end < layout.row_bytes.size() && layout.row_bytes[end] == layout.row_bytes[i])
      ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(end - i) + "x" + std::to_string(layout.row_bytes[i]);
    i = end;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

/// One context of the library: sequences for sessions, and one more as scratch.
struct llama_engine::lane {
  llama_context_handle context;
  llama_memory_t memory = nullptr;  // of `context`
  std::vector<bool> taken;          // by sequence
  llama_seq_id scratch = 0;

  [[nodiscard]] std::optional<llama_seq_id> free_sequence() const {
    const auto found = std::find(taken.begin(), taken.end(), false);
    if (found == taken.end()) return std::nullopt;
    return static_cast<llama_seq_id>(found - taken.begin());
  }
  void drop_scratch() { llama_memory_seq_rm(memory, scratch, -1, -1); }
};

struct llama_engine::batch_buffer {
  explicit batch_buffer(std::uint32_t tokens)
      : batch(llama_batch_init(static_cast<std::int32_t>(tokens), 0, 1)) {}
  ~batch_buffer() { llama_batch_free(batch); }
  batch_buffer(const batch_buffer&) = delete;
  batch_buffer& operator=(const batch_buffer&) = delete;

  /// Returns the index of the token within the batch.
  std::int32_t add(token_id token, position at, llama_seq_id sequence, bool want_logits) {
    const std::int32_t i = batch.n_tokens++;
    batch.token[i] = token;
    batch.pos[i] = static_cast<llama_pos>(at);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = sequence;
    batch.logits[i] = static_cast<std::int8_t>(want_logits);
    return i;
  }

  llama_batch batch;
};

// --- start -------------------------------------------------------------------------------------------------

llama_engine::llama_engine(options how) : how_(std::move(how)) {}
llama_engine::~llama_engine() = default;

result<std::unique_ptr<llama_engine>> llama_engine::load(options how) {
  std::unique_ptr<llama_engine> made(new llama_engine(std::move(how)));
  if (auto started = made->start(); !started) return started.failure();
  return made;
}

result<void> llama_engine::start() {
  if (auto fit = check_options(); !fit) return fit;
  auto model = load_llama_model(how_.model_path, false);
  if (!model) return model.failure();
  model_ = std::move(*model);
  if (auto fit = check_model(); !fit) return fit;
  vocabulary_size_ = static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())));
  if (how_.context_tokens == 0)
    how_.context_tokens = static_cast<std::uint32_t>(llama_model_n_ctx_train(model_.get()));
  how_.prefill_chunk = std::min(how_.prefill_chunk, how_.context_tokens);
  batch_ = std::make_unique<batch_buffer>(max_batch() * how_.prefill_chunk);

  const std::uint32_t most = how_.mode == batching::exact ? how_.sessions : 1;
  const std::uint32_t wanted = std::clamp(how_.prepared_lanes, 1U, most);
  while (lanes_.size() < wanted) {
    if (auto made = make_lane(); !made) return made.failure();
  }
  if (auto learned = learn_format(); !learned) return learned;
  return describe();
}

result<void> llama_engine::check_options() const {
  const auto within = [](const char* name, std::uint32_t value, std::uint32_t most) -> result<void> {
    if (value >= 1 && value <= most) return {};
    return {errc::invalid_argument,
            std::string(name) + " is " + std::to_string(value) + ", not 1 to " + std::to_string(most)};
  };
  const auto most_sequences = static_cast<std::uint32_t>(llama_max_parallel_sequences());
  const std::uint32_t most_sessions = how_.mode == batching::throughput ? most_sequences - 1 : 4096;
  if (auto fit = within("sessions", how_.sessions, most_sessions); !fit) return fit;
  if (auto fit = within("threads", how_.threads, 512); !fit) return fit;
  if (auto fit = within("prefill_chunk", how_.prefill_chunk, 4096); !fit) return fit;
  if (!kv_type_named(how_.kv_type)) {
    return {errc::invalid_argument, "kv_type is \"" + how_.kv_type + "\", not f32, f16, q8_0 or q4_0"};
  }
  return {};
}

result<void> llama_engine::check_model() const {
  const llama_model* model = model_.get();
  if (!llama_model_has_decoder(model) || llama_model_has_encoder(model) || llama_model_is_diffusion(model)) {
    return {errc::unsupported, "not a model that generates text token by token: " + how_.model_path};
  }
  const auto trained = static_cast<std::uint32_t>(std::max(0, llama_model_n_ctx_train(model)));
  if (trained == 0 || how_.context_tokens > trained) {
    return {errc::invalid_argument, "context is " + std::to_string(how_.context_tokens) +
                                        ", but the model was trained for " + std::to_string(trained) + ": " +
                                        how_.model_path};
  }
  return {};
}

std::uint32_t llama_engine::max_batch() const {
  return how_.mode == batching::exact ? 1 : how_.sessions;
}

std::uint32_t llama_engine::lane_cells() const {
  if (how_.mode == batching::exact) return how_.context_tokens;
  return how_.cache_tokens != 0 ? how_.cache_tokens : how_.sessions * how_.context_tokens;
}

result<llama_engine::lane*> llama_engine::make_lane() {
  llama_context_params how = llama_context_default_params();
  how.n_ctx = lane_cells();
  how.n_batch = max_batch() * how_.prefill_chunk;
  how.n_ubatch = how_.prefill_chunk;
  how.n_seq_max = max_batch() + 1;
  how.n_outputs_max = max_batch() + 1;  // the library asserts that it is at least `n_seq_max`
  how.n_threads = static_cast<std::int32_t>(how_.threads);
  how.n_threads_batch = how.n_threads;
  how.flash_attn_type = how_.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  how.type_k = how.type_v = *kv_type_named(how_.kv_type);
  how.kv_unified =
      true;  // copying a range between sequences is possible in one stream only; it asserts otherwise
  how.no_perf = true;
  const llama_errors errors;
  auto made = std::make_unique<lane>();
  try {
    made->context.reset(llama_init_from_model(model_.get(), how));
  } catch (const std::exception& thrown) {
    return {errc::engine_failed, std::string("llama.cpp cannot make a context: ") + thrown.what()};
  }
  if (!made->context)
    return {errc::engine_failed, errors.text("llama.cpp cannot make a context for " + how_.model_path)};
  made->memory = llama_get_memory(made->context.get());
  if (made->memory == nullptr) return {errc::unsupported, "a model without a KV cache: " + how_.model_path};
  made->taken.resize(max_batch());
  made->scratch = static_cast<llama_seq_id>(max_batch());
  lanes_.push_back(std::move(made));
  return lanes_.back().get();
}

/// Evaluates three tokens and takes their saved state apart. Anything unexpected: rows cannot be carried.
result<void> llama_engine::learn_format() {
  const session_id trial{0};
  if (auto opened = open(trial); !opened) return opened;
  std::array<token_id, 3> tokens{};
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<token_id>((i + 1) % vocabulary_size_);
  for (position at = 0; at < std::min<position>(tokens.size(), how_.context_tokens); ++at) {
    const evaluation entry{.session = trial, .first = at, .tokens = std::span(tokens).subspan(at, 1)};
    if (auto done = evaluate({&entry, 1}); !done) return done;
  }
  const place& held = sessions_.at(trial);
  const bool whole_history = !llama_model_is_recurrent(model_.get()) &&
                             !llama_model_is_hybrid(model_.get()) && llama_model_n_swa(model_.get()) == 0;
  if (whole_history && held.length == tokens.size()) {
    gpu::kv_image two;
    gpu::kv_image three;
    if (save_state(held, 1, 2, two) && save_state(held, 0, 3, three)) {
      format_ = llama_state_format::learn(two.bytes, 1, 2);
      three.count = 3;
      if (format_ && !format_->matches(0, three)) format_.reset();
    }
  }
  if (format_) layout_ = format_->layout;
  close(trial);
  counters_ = {};
  logits_index_.clear();
  return {};
}

result<void> llama_engine::describe() {
  auto model_hash = hash_of_file(how_.model_path);
  if (!model_hash) return model_hash.failure();
  const llama_model* model = model_.get();
  std::array<char, 128> kind{};
  llama_model_desc(model, kind.data(), kind.size());
  identity_.fields = {
      {"engine", "llama.cpp"},
      {"build", std::string(llama_version()) + ", ggml " + ggml_version() + " " + ggml_commit()},
      {"instruction_set", instruction_set()},
      {"model_xxh3", *model_hash},
      {"model", kind.data()},
      {"context_tokens", std::to_string(how_.context_tokens)},
      {"rope", std::to_string(llama_model_rope_type(model)) + " x " +
                   std::to_string(llama_model_rope_freq_scale_train(model))},
      {"window_tokens", std::to_string(llama_model_n_swa(model))},
      {"threads", std::to_string(how_.threads)},
      {"prefill_chunk", std::to_string(how_.prefill_chunk)},
      {"flash_attention", how_.flash_attention ? "on" : "off"},
      {"kv_type", how_.kv_type},
      {"batching", how_.mode == batching::exact ? "exact" : "throughput"},
      {"row_bytes", text_of(layout_)},
  };
  return {};
}

// --- sessions ----------------------------------------------------------------------------------------------

result<void> llama_engine::open(session_id session) {
  if (sessions_.contains(session)) return {errc::invalid_argument, "the session is open already"};
  if (sessions_.size() >= how_.sessions) {
    return {errc::no_room, "all " + std::to_string(how_.sessions) + " sessions of the engine are taken"};
  }
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [](const auto& each) { return each->free_sequence().has_value(); });
  lane* in = found != lanes_.end() ? found->get() : nullptr;
  if (in == nullptr) {
    auto made = make_lane();
    if (!made) return {errc::no_room, made.failure().what};
    in = *made;
  }
  const llama_seq_id sequence = *in->free_sequence();
  in->taken[static_cast<std::size_t>(sequence)] = true;
  sessions_[session] = {.in = in, .sequence = sequence, .length = 0};
  return {};
}

void llama_engine::close(session_id session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const place held = found->second;
  forget_from(held, 0);
  held.in->taken[static_cast<std::size_t>(held.sequence)] = false;
  sessions_.erase(found);
}

position llama_engine::length(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.length;
}

/// False if the library cannot forget only a part.
bool llama_engine::forget_from(const place& held, position length) {
  if (length > 0)
    return llama_memory_seq_rm(held.in->memory, held.sequence, static_cast<llama_pos>(length), -1);
  if (held.in->taken.size() == 1) {
    llama_memory_clear(held.in->memory, false);  // cells of the next session of this lane ascend from 0 again
    return true;
  }
  return llama_memory_seq_rm(held.in->memory, held.sequence, -1, -1);
}

result<void> llama_engine::truncate(session_id session, position length) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return unknown_session();
  place& held = found->second;
  if (length >= held.length) return {};
  // Behind a sliding window the rows that the shorter session needs may be gone.
  const auto window = static_cast<position>(std::max(0, llama_model_n_swa(model_.get())));
  const llama_pos oldest = llama_memory_seq_pos_min(held.in->memory, held.sequence);
  const bool window_gone =
      window > 0 && length > 0 && oldest > static_cast<llama_pos>(length > window ? length - window : 0);
  if (window_gone || !forget_from(held, length)) {
    return {errc::unsupported, "this model cannot forget a part of a session"};
  }
  held.length = length;
  return {};
}

// --- work --------------------------------------------------------------------------------------------------

result<void> llama_engine::check_room(const place& held, std::size_t more_rows) const {
  for (const auto& [session, other] : sessions_) {
    if (other.in == held.in) more_rows += other.length;
  }
  if (more_rows <= lane_cells()) return {};
  return {errc::no_room, "the cache of " + std::to_string(lane_cells()) + " tokens is full"};
}

result<void> llama_engine::check(std::span<const evaluation> batch) const {
  if (batch.empty() || batch.size() > max_batch()) {
    return {errc::invalid_argument, "a batch of " + std::to_string(batch.size()) + " sessions, not 1 to " +
                                        std::to_string(max_batch())};
  }
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const evaluation& entry = batch[i];
    const auto found = sessions_.find(entry.session);
    if (found == sessions_.end()) return unknown_session();
    const position length = found->second.length;
    if (std::any_of(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const evaluation& other) { return other.session == entry.session; })) {
      return {errc::invalid_argument, "a session twice in one batch"};
    }
    if (entry.tokens.empty() || entry.tokens.size() > how_.prefill_chunk) {
      return {errc::invalid_argument, std::to_string(entry.tokens.size()) +
                                          " tokens in one evaluation, not 1 to " +
                                          std::to_string(how_.prefill_chunk)};
    }
    if (entry.first != length) {
      return {errc::gap, "tokens from position " + std::to_string(entry.first) + " for a session of length " +
                             std::to_string(length)};
    }
    if (entry.tokens.size() > how_.context_tokens - length) {
      return {errc::context_full,
              "the context of " + std::to_string(how_.context_tokens) + " tokens is used up"};
    }
    for (const token_id token : entry.tokens) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= vocabulary_size_) {
        return {errc::invalid_argument,
                "a token outside the vocabulary of " + std::to_string(vocabulary_size_)};
      }
    }
    tokens += entry.tokens.size();
  }
  return check_room(sessions_.at(batch.front().session), tokens);
}

result<void> llama_engine::decode(lane& in, std::span<const evaluation> batch) {
  const llama_errors errors;
  int code = -1;
  std::string reason;
  try {
    code = llama_decode(in.context.get(), batch_->batch);
    if (code == 0) llama_synchronize(in.context.get());
  } catch (const std::exception& thrown) {
    reason = std::string(" (") + thrown.what() + ")";
  }
  if (code == 0 && reason.empty()) return {};
  for (const evaluation& entry : batch)
    forget_from(sessions_.at(entry.session), entry.first);
  if (code == 1) return {errc::no_room, "llama.cpp finds no free cells in its cache"};
  return {errc::engine_failed,
          errors.text("llama.cpp refuses a batch with " + std::to_string(code) + reason)};
}

result<void> llama_engine::evaluate(std::span<const evaluation> batch) {
  if (auto fit = check(batch); !fit) return fit;
  lane& in = *sessions_.at(batch.front().session).in;
  logits_index_.clear();
  evaluated_ = &in;
  batch_->batch.n_tokens = 0;
  std::vector<std::int32_t> last_of_entry;
  for (const evaluation& entry : batch) {
    const place& held = sessions_.at(entry.session);
    std::int32_t last = 0;
    for (std::size_t i = 0; i < entry.tokens.size(); ++i) {
      const bool want = entry.want_logits && i + 1 == entry.tokens.size();
      last = batch_->add(entry.tokens[i], entry.first + static_cast<position>(i), held.sequence, want);
    }
    last_of_entry.push_back(entry.want_logits ? last : -1);
  }
  if (auto done = decode(in, batch); !done) return done;
  for (const evaluation& entry : batch)
    sessions_.at(entry.session).length += static_cast<position>(entry.tokens.size());
  logits_index_ = std::move(last_of_entry);
  counters_.evaluated_tokens += static_cast<std::uint64_t>(batch_->batch.n_tokens);
  ++counters_.evaluations;
  return {};
}

std::span<const float> llama_engine::logits(std::size_t index) const {
  if (index >= logits_index_.size() || logits_index_[index] < 0) return {};
  const float* first = llama_get_logits_ith(evaluated_->context.get(), logits_index_[index]);
  if (first == nullptr) return {};
  return {first, vocabulary_size_};
}

// --- rows --------------------------------------------------------------------------------------------------

/// Fills `image.bytes` with the library's state of these positions, in whatever order it has them.
result<void> llama_engine::save_state(const place& held, position first, std::uint32_t count,
                                      gpu::kv_image& image) {
  lane& in = *held.in;
  const llama_errors errors;
  llama_memory_seq_cp(in.memory, held.sequence, in.scratch, static_cast<llama_pos>(first),
                      static_cast<llama_pos>(first + count));
  // The library's own count costs a pass over the cells; it is only needed until the format is known.
  const std::size_t bytes =
      format_ ? format_->bytes(count) : llama_state_seq_get_size(in.context.get(), in.scratch);
  image.bytes.resize(bytes);
  const std::size_t written = llama_state_seq_get_data(
      in.context.get(), reinterpret_cast<std::uint8_t*>(image.bytes.data()), image.bytes.size(), in.scratch);
  in.drop_scratch();
  if (written == bytes && bytes > 0) return {};
  return {errc::engine_failed, errors.text("llama.cpp saves " + std::to_string(written) +
                                           " bytes of state, not " + std::to_string(bytes))};
}

result<void> llama_engine::export_rows(session_id session, position first, std::uint32_t count,
                                       gpu::kv_image& image) {
  if (!format_) return {errc::unsupported, "this model's state cannot be carried by rows"};
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return unknown_session();
  const place& held = found->second;
  if (count == 0 || first > held.length || count > held.length - first) {
    return {errc::invalid_argument, "rows [" + std::to_string(first) + ", +" + std::to_string(count) +
                                        ") of a session of length " + std::to_string(held.length)};
  }
  if (auto prepared = prepare_image(first, count, image); !prepared) return prepared;
  if (auto saved = save_state(held, first, count, image); !saved) return saved;
  if (!format_->sort_rows(first, image) || !format_->matches(first, image)) {
    return {errc::engine_failed, "llama.cpp saved a state of another form than at start"};
  }
  counters_.exported_rows += count;
  return {};
}

result<void> llama_engine::prepare_image(position first, std::uint32_t count, gpu::kv_image& image) const {
  if (!format_) return {errc::unsupported, "this model's state cannot be carried by rows"};
  if (count == 0 || count > how_.context_tokens || first > how_.context_tokens - count) {
    return {errc::invalid_argument,
            "an image of " + std::to_string(count) + " positions from " + std::to_string(first)};
  }
  format_->prepare(first, count, image);
  return {};
}

result<void> llama_engine::import_rows(session_id session, position first, const gpu::kv_image& image) {
  if (!format_) return {errc::unsupported, "this model's state cannot be carried by rows"};
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return unknown_session();
  place& held = found->second;
  if (first != held.length) {
    return {errc::gap, "rows from position " + std::to_string(first) + " for a session of length " +
                           std::to_string(held.length)};
  }
  // The library takes most damaged states for good ones and asserts on some: it only gets our own form.
  if (!format_->matches(first, image)) {
    return {errc::invalid_argument, "an image that this engine has not prepared for these positions"};
  }
  if (image.count > how_.context_tokens - held.length) {
    return {errc::context_full,
            "the context of " + std::to_string(how_.context_tokens) + " tokens is used up"};
  }
  if (auto room = check_room(held, image.count); !room) return room;
  lane& in = *held.in;
  const llama_errors errors;
  const std::size_t read =
      llama_state_seq_set_data(in.context.get(), reinterpret_cast<const std::uint8_t*>(image.bytes.data()),
                               image.bytes.size(), in.scratch);
  if (read != image.bytes.size()) {
    in.drop_scratch();
    return {errc::engine_failed, errors.text("llama.cpp refuses rows")};
  }
  llama_memory_seq_cp(in.memory, in.scratch, held.sequence, -1, -1);
  in.drop_scratch();
  held.length += image.count;
  counters_.imported_rows += image.count;
  return {};
}

}  // namespace baton::actors::engines
