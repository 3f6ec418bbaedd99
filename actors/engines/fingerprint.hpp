#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What must match for KV rows of one engine to be usable in another.
namespace baton::actors::engines {

/// Ordered name/value pairs: model hash, engine build, instruction set, threads, KV types, layout, context
/// parameters, batching mode. Two engines may exchange rows only if all are equal.
struct fingerprint {
  std::vector<std::pair<std::string, std::string>> fields;

  /// A hash over all fields, the first link of every chain.
  [[nodiscard]] std::uint64_t hash() const;

  /// The first field in which the two differ, as "name: mine X, theirs Y"; nothing if they are equal.
  [[nodiscard]] std::optional<std::string> difference(const fingerprint& theirs) const;

  friend bool operator==(const fingerprint&, const fingerprint&) = default;
};

}  // namespace baton::actors::engines
