#include "schemas/errors.hpp"

namespace baton {

std::string_view name_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid_argument";
    case errc::malformed:
      return "malformed";
    case errc::stale_epoch:
      return "stale_epoch";
    case errc::gap:
      return "gap";
    case errc::fork:
      return "fork";
    case errc::corrupt:
      return "corrupt";
    case errc::fingerprint_mismatch:
      return "fingerprint_mismatch";
    case errc::unknown_session:
      return "unknown_session";
    case errc::no_room:
      return "no_room";
    case errc::context_full:
      return "context_full";
    case errc::not_owner:
      return "not_owner";
    case errc::unavailable:
      return "unavailable";
    case errc::timed_out:
      return "timed_out";
    case errc::connection_lost:
      return "connection_lost";
    case errc::cancelled:
      return "cancelled";
    case errc::engine_failed:
      return "engine_failed";
    case errc::io_failed:
      return "io_failed";
    case errc::unsupported:
      return "unsupported";
    case errc::conflict:
      return "conflict";
    case errc::poisoned:
      return "poisoned";
    case errc::not_found:
      return "not_found";
  }
  return "unknown";
}

namespace detail {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "baton: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace detail
}  // namespace baton
