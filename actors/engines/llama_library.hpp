#pragma once

#include <memory>
#include <string>

#include "schemas/errors.hpp"

struct llama_model;
struct llama_context;

/// What the users of llama.cpp share: handles, start-up, its messages. llama.h itself stays in .cpp files.
namespace baton::actors::engines {

struct llama_model_deleter {
  void operator()(llama_model* model) const noexcept;
};
struct llama_context_deleter {
  void operator()(llama_context* context) const noexcept;
};
using llama_model_handle = std::unique_ptr<llama_model, llama_model_deleter>;
using llama_context_handle = std::unique_ptr<llama_context, llama_context_deleter>;

/// Collects what llama.cpp says about errors on this thread from here on; the library is silent otherwise.
/// The first message is kept, because it names the cause and those after it only what failed in turn.
class llama_errors {
 public:
  llama_errors();
  /// "before" and, if there was one, the library's message after a colon.
  [[nodiscard]] std::string text(const std::string& before) const;
};

/// Opens a model file on the CPU. `vocabulary_only` reads no weights and takes milliseconds. `io_failed` if
/// the file cannot be read, `malformed` if llama.cpp cannot use it; both name the file. Thread-safe.
result<llama_model_handle> load_llama_model(const std::string& path, bool vocabulary_only);

/// The value of a key of the model file, "" if it has none.
std::string llama_metadata(const llama_model& model, const char* key);

}  // namespace baton::actors::engines
