#include "actors/graph_values.hpp"

#include <algorithm>
#include <charconv>

#include "actors/graph.hpp"

namespace baton::actors {
namespace graph_text {

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::optional<std::uint32_t> port_of(std::string_view address) {
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto digits = address.substr(colon + 1);
  std::uint32_t port = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failed != std::errc{} || end != digits.data() + digits.size() || port > 65535) return std::nullopt;
  return port;
}

bool is_memory_address(std::string_view text) {
  constexpr std::string_view scheme = "shm:";
  return text.substr(0, scheme.size()) == scheme && is_name(text.substr(scheme.size()));
}

std::optional<std::size_t> bytes_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || number == 0 || number > 1024) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit == "MiB") return number << 20;
  if (unit == "GiB") return number << 30;
  return std::nullopt;
}

std::optional<std::ptrdiff_t> quorum_of(std::string_view commit) {
  constexpr std::string_view prefix = "quorum:";
  const char last = commit.size() == prefix.size() + 1 ? commit.back() : '0';
  if (!commit.starts_with(prefix) || last < '1' || last > '9') return std::nullopt;
  return last - '0';
}

}  // namespace graph_text

bool is_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !graph_text::port_of(text)) return false;
  auto host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.size() < 4 || host.back() != ']') return false;
    host = host.substr(1, host.size() - 2);
    const auto zone = host.find('%');
    return host.substr(0, zone).find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
           (zone == std::string_view::npos || graph_text::is_name(host.substr(zone + 1)));
  }
  return graph_text::is_name(host);
}

bool is_object_store(std::string_view text) {
  constexpr std::string_view file = "file:";
  return text.starts_with(file) && text.size() > file.size();
}

bool is_etcd_store(std::string_view text) {
  constexpr std::string_view prefix = "etcd:";
  constexpr std::string_view scheme = "http://";
  if (!text.starts_with(prefix)) return false;
  for (text.remove_prefix(prefix.size());;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view member = text.substr(0, comma);
    if (!member.starts_with(scheme) || !is_address(member.substr(scheme.size()))) return false;
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

bool is_commit_rule(std::string_view text) {
  return text == "async" || text == "semi-sync" || text == "strict" ||
         graph_text::quorum_of(text).has_value();
}

}  // namespace baton::actors
