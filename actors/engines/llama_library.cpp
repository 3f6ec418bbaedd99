#include "actors/engines/llama_library.hpp"

#include <llama.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>

namespace baton::actors::engines {
namespace {

constexpr std::size_t most_message_bytes = 300;

/// llama.cpp logs through one function per process; by thread, the messages of two users do not mix.
thread_local std::string first_error;

void keep_first_error(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level != GGML_LOG_LEVEL_ERROR || text == nullptr || !first_error.empty()) return;
  first_error.assign(text, std::min(std::strlen(text), most_message_bytes));
  while (!first_error.empty() && (first_error.back() == '\n' || first_error.back() == ' '))
    first_error.pop_back();
}

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(keep_first_error, nullptr);
    llama_backend_init();
  });
}

}  // namespace

void llama_model_deleter::operator()(llama_model* model) const noexcept {
  llama_model_free(model);
}
void llama_context_deleter::operator()(llama_context* context) const noexcept {
  llama_free(context);
}

llama_errors::llama_errors() {
  first_error.clear();
}

std::string llama_errors::text(const std::string& before) const {
  return first_error.empty() ? before : before + ": " + first_error;
}

result<llama_model_handle> load_llama_model(const std::string& path, bool vocabulary_only) {
  std::array<char, 4> magic{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {errc::io_failed, "cannot open the model file " + path};
  if (!file.read(magic.data(), magic.size()) || std::memcmp(magic.data(), "GGUF", magic.size()) != 0) {
    return {errc::malformed, "not a GGUF model file: " + path};
  }
  start_library();
  llama_model_params how = llama_model_default_params();
  how.n_gpu_layers = 0;
  how.vocab_only = vocabulary_only;
  const llama_errors errors;
  try {
    llama_model_handle model(llama_model_load_from_file(path.c_str(), how));
    if (model) return model;
  } catch (const std::exception& thrown) {
    return {errc::malformed, "llama.cpp cannot load the model file " + path + ": " + thrown.what()};
  }
  return {errc::malformed, errors.text("llama.cpp cannot load the model file " + path)};
}

std::string llama_metadata(const llama_model& model, const char* key) {
  std::array<char, 256> text{};
  const int length = llama_model_meta_val_str(&model, key, text.data(), text.size());
  return length > 0 ? std::string(text.data(), std::min<std::size_t>(length, text.size() - 1))
                    : std::string();
}

}  // namespace baton::actors::engines
