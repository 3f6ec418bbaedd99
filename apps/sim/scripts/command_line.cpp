#include "apps/sim/scripts/command_line.hpp"

#include <charconv>
#include <utility>

namespace baton::apps::sim::scripts {

error cannot(std::string what) {
  return {errc::invalid_argument, std::move(what)};
}

result<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    return cannot("a number is expected, not \"" + std::string{text} + "\"");
  return value;
}

result<nanoseconds> duration(std::string_view text) {
  for (const auto& [unit, of] :
       {std::pair{"ms", nanoseconds{1ms}}, {"us", nanoseconds{1us}}, {"s", nanoseconds{1s}}}) {
    if (!text.ends_with(unit)) continue;
    const auto count = number(text.substr(0, text.size() - std::string_view{unit}.size()));
    if (!count) return count.failure();
    return of * static_cast<std::int64_t>(*count);
  }
  return cannot("a time is expected, like 200ms, not \"" + std::string{text} + "\"");
}

result<command_line> parse_command(std::string_view line) {
  command_line out;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ') {
      ++at;
      continue;
    }
    std::string word;
    std::string key;
    bool has_key = false;
    for (; at < line.size() && line[at] != ' '; ++at) {
      if (line[at] == '=' && !has_key) {
        key = std::exchange(word, {});
        has_key = true;
      } else if (line[at] == '"') {
        for (++at; at < line.size() && line[at] != '"'; ++at) {
          const bool escaped = line[at] == '\\' && at + 1 < line.size();
          if (escaped) ++at;
          word += escaped && line[at] == 'n' ? '\n' : line[at];
        }
        if (at == line.size()) return cannot("a quote does not end");
      } else {
        word += line[at];
      }
    }
    if (has_key)
      out.options[key] = word;
    else
      out.words.push_back(word);
  }
  return out;
}

}  // namespace baton::apps::sim::scripts
