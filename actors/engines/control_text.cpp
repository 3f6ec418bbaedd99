#include "actors/engines/control_text.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors::engines {

control_text::control_text(std::vector<std::string> spellings, std::size_t part_bytes)
    : part_bytes_(part_bytes) {
  for (std::string& spelling : spellings)
    if (!spelling.empty())
      spellings_[static_cast<unsigned char>(spelling.front())].push_back(std::move(spelling));
  for (auto& same_start : spellings_)
    std::ranges::stable_sort(same_start, std::ranges::greater(), &std::string::size);
}

std::string control_text::escape(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view spelling = spelled_at_start_of(text);
    if (spelling.empty())
      out += text.front();
    else
      out.append(1, opening).append(spelling).append(1, closing);
    text.remove_prefix(std::max<std::size_t>(spelling.size(), 1));
  }
  return out;
}

bool control_text::is_clean(std::string_view text) {
  return text.find(opening) == std::string_view::npos && text.find(closing) == std::string_view::npos;
}

std::size_t control_text::first_part(std::string_view text) const {
  for (std::size_t at = part_bytes_; at < text.size(); ++at)
    if (!spelled_at_start_of(text.substr(at)).empty()) return at;
  return text.size();
}

std::string_view control_text::spelled_at_start_of(std::string_view text) const {
  for (const std::string& spelling : spellings_[static_cast<unsigned char>(text.front())])
    if (text.starts_with(spelling)) return spelling;
  return {};
}

}  // namespace baton::actors::engines
