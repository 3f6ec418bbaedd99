#pragma once

#include <utility>  // caf/meta/load_callback.hpp forgets it

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>

#include <cstring>
#include <vector>

#include "schemas/codec.hpp"

namespace baton::actors {

/// One element of a CAF message: the Cap'n Proto bytes of a `Message`. One C++ type per message, so that
/// actor interfaces stay strongly typed; CAF copies the bytes as they are. Reading never throws: what a peer
/// sends may be anything.
template <class Message>
class wire {
 public:
  wire() = default;
  wire(const Message& message) {  // NOLINT(google-explicit-constructor): a message is its wire form
    const std::vector<std::byte> encoded = encode(message);
    bytes_.resize(encoded.size());
    std::memcpy(bytes_.data(), encoded.data(), encoded.size());
  }

  /// The message; `malformed` if the bytes are none.
  [[nodiscard]] result<Message> read() const {
    return decode<Message>({reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()});
  }

  friend bool operator==(const wire& a, const wire& b) { return a.bytes_ == b.bytes_; }

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, wire& x) {
    const auto check = [&]() -> caf::error {
      if (x.bytes_.size() % 8 != 0 || x.bytes_.size() > most_bytes<Message>)
        return caf::sec::invalid_argument;
      return caf::none;
    };
    return f(caf::meta::type_name("baton.wire"), x.bytes_, caf::meta::load_callback(check));
  }

 private:
  std::vector<char>
      bytes_;  // of CAF's byte sequences the one without a small-buffer optimisation: aligned to 16
};

}  // namespace baton::actors
