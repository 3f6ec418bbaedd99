#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// Errors as values, and assertions for our own broken invariants.
namespace baton {

/// What went wrong, in the terms of the caller. Input that is stale or corrupt is an error, never an
/// assertion.
enum class errc {
  invalid_argument = 1,  ///< a value outside what the call documents
  malformed,             ///< bytes that do not parse, or break a read limit
  stale_epoch,           ///< the writer has been fenced: a higher epoch is known here
  gap,                   ///< the piece does not follow what is held: something before it is missing
  fork,                  ///< the piece follows another history than the one held
  corrupt,               ///< a checksum does not match
  fingerprint_mismatch,  ///< KV rows of the other side cannot be used here
  unknown_session,       ///< no such session here
  no_room,               ///< a bound of `limits.hpp` or of the configuration is reached
  context_full,          ///< the session's context window is used up
  not_owner,             ///< this node does not own the session's group
  unavailable,           ///< no node can serve this now
  timed_out,             ///< no answer within the deadline
  connection_lost,       ///< the peer closed, died or was cut off
  cancelled,             ///< given up by the caller
  engine_failed,         ///< the model library refused a call
  io_failed,             ///< the operating system refused a call
  unsupported,           ///< a feature this build or this model does not have
  conflict,              ///< a compare-and-swap lost
  poisoned,              ///< nodes died of this request; it is not run again
  not_found,             ///< no object under that key
};

/// The stable lower-case name of a code, for logs, metrics and JSON.
std::string_view name_of(errc code) noexcept;

/// A code and one sentence of what, where, and with which values. Never token text, prompt text, keys or KV
/// bytes.
struct error {
  errc code;
  std::string what;
};

/// Either a value or an `error`. `T` may be void.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  result(error failure)
      : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT(google-explicit-constructor)
  result(errc code, std::string what) : state_(std::in_place_index<1>, error{code, std::move(what)}) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const error& failure() const { return std::get<1>(state_); }
  [[nodiscard]] errc code() const { return failure().code; }

 private:
  std::variant<T, error> state_;
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;
  result(error failure) : error_(std::move(failure)), ok_(false) {}  // NOLINT(google-explicit-constructor)
  result(errc code, std::string what) : error_{code, std::move(what)}, ok_(false) {}

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] const error& failure() const { return error_; }
  [[nodiscard]] errc code() const { return error_.code; }

 private:
  error error_{};
  bool ok_ = true;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;
}

/// A broken invariant of our own ends the process, in release builds too: wrong text is never an outcome.
#define BATON_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::baton::detail::assertion_failed(#condition, __FILE__, __LINE__))

}  // namespace baton
