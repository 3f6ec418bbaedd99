#include "actors/protocol/commit_rule.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <vector>

namespace baton::actors::protocol {

position commit_rule::committed(position length, std::span<const standby_position> standbys) const {
  if (standbys.empty() || how == mode::async) return length;
  std::vector<position> held;
  held.reserve(standbys.size());
  for (const standby_position& standby : standbys) {
    // In strict mode the last token counts as covered once all rows before it are: its own row comes with the
    // next step.
    const position in_rows = standby.synced >= standby.logged ? standby.logged : standby.synced + 1;
    held.push_back(std::min(length, how == mode::strict ? in_rows : standby.logged));
  }
  std::sort(held.begin(), held.end(), std::greater<>{});
  if (how == mode::quorum)
    return held[std::min<std::size_t>(std::max<std::uint32_t>(quorum, 1), held.size()) - 1];
  return held.back();
}

result<commit_rule> parse_commit_rule(std::string_view text) {
  if (text == "async") return commit_rule{commit_rule::mode::async, 0};
  if (text == "semi-sync") return commit_rule{commit_rule::mode::semi_sync, 0};
  if (text == "strict") return commit_rule{commit_rule::mode::strict, 0};
  constexpr std::string_view prefix = "quorum:";
  if (text.starts_with(prefix)) {
    const std::string_view digits = text.substr(prefix.size());
    std::uint32_t quorum = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), quorum);
    if (code == std::errc{} && end == digits.data() + digits.size() && quorum > 0)
      return commit_rule{commit_rule::mode::quorum, quorum};
  }
  return {errc::invalid_argument,
          "commit mode \"" + std::string{text} + "\": expected async, semi-sync, quorum:K or strict"};
}

}  // namespace baton::actors::protocol
