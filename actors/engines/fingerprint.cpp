#include "actors/engines/fingerprint.hpp"

#include <algorithm>

#include "schemas/hash.hpp"

namespace baton::actors::engines {

std::uint64_t fingerprint::hash() const {
  std::uint64_t chain = hash_text("baton fingerprint");
  for (const auto& [name, value] : fields) {
    chain = hash_step(chain, hash_text(name));
    chain = hash_step(chain, hash_text(value));
  }
  return chain;
}

std::optional<std::string> fingerprint::difference(const fingerprint& theirs) const {
  const std::size_t common = std::min(fields.size(), theirs.fields.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto& [my_name, my_value] = fields[i];
    const auto& [their_name, their_value] = theirs.fields[i];
    if (my_name != their_name)
      return my_name + ": mine " + my_value + ", theirs has " + their_name + " there";
    if (my_value != their_value) return my_name + ": mine " + my_value + ", theirs " + their_value;
  }
  if (fields.size() > common)
    return fields[common].first + ": mine " + fields[common].second + ", theirs absent";
  if (theirs.fields.size() > common) {
    return theirs.fields[common].first + ": mine absent, theirs " + theirs.fields[common].second;
  }
  return std::nullopt;
}

}  // namespace baton::actors::engines
