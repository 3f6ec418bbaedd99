#pragma once

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/errors.hpp"

/// Reading TOML tables so that everything that is wrong is reported with its line and key. Only for
/// graph.cpp.
namespace baton::actors::graph_text {

// --- what is wrong -------------------------------------------------------------------------------------

/// Text from a file as part of a line of ours: control characters become what TOML writes for them.
inline std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      line += c;
      continue;
    }
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\u%04X", static_cast<unsigned>(byte));
    line += escaped.data();
  }
  return line;
}

/// Collects everything that is wrong, so that one run shows it all.
class problems {
 public:
  explicit problems(std::string file) : file_(std::move(file)) {}

  void add(std::size_t line, const std::string& key, const std::string& what) {
    found_.emplace_back(line, on_one_line(key + ": " + what));
  }

  [[nodiscard]] bool any() const { return !found_.empty(); }

  [[nodiscard]] error take() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (const auto& [line, what] : found_)
      text += (text.empty() ? "" : "\n") + file_ + ":" + std::to_string(line) + ": " + what;
    return {errc::invalid_argument, text};
  }

 private:
  std::string file_;
  std::vector<std::pair<std::size_t, std::string>> found_;
};

inline std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

inline std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

inline std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return "the text " + in_quotes(text->get());
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  if (node.is_floating_point()) return "a fraction";
  return "a date or time";
}

// --- reading one table ---------------------------------------------------------------------------------

/// Typed access to the keys of one table. What is missing gives the fallback, what is wrong is reported under
/// its full key, and what nobody asked for is reported at the end.
class table_reader {
 public:
  table_reader(const toml::table& table, std::string path, problems& out)
      : table_(table), path_(std::move(path)), out_(out) {}

  [[nodiscard]] std::size_t line() const { return table_.source().begin.line; }
  [[nodiscard]] std::size_t line_of(std::string_view key) const {
    const auto* node = table_.get(key);
    return node == nullptr ? line() : node->source().begin.line;
  }
  [[nodiscard]] std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }

  const toml::node* find(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  void refuse(std::string_view key, const std::string& what) { out_.add(line_of(key), path_of(key), what); }

  /// Calls `take` with the text, which answers what it had expected instead, or "".
  template <class Take>
  void text(std::string_view key, const std::string& if_missing, const std::string& expected, Take take) {
    const auto* node = find(key);
    if (node == nullptr) {
      if (!if_missing.empty()) refuse(key, "missing; expected " + if_missing);
      return;
    }
    const auto* value = node->as_string();
    if (value == nullptr || value->get().empty())
      return refuse(key, "expected " + expected + ", found " + describe(*node));
    const std::string wanted = take(value->get());
    if (!wanted.empty()) refuse(key, "expected " + wanted + ", found " + in_quotes(value->get()));
  }

  template <std::integral Integer>
  void integer(std::string_view key, std::int64_t low, std::int64_t high, Integer& into) {
    const auto* node = find(key);
    if (node == nullptr) return;
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < low || value->get() > high)
      return refuse(key, "expected a whole number from " + std::to_string(low) + " to " +
                             std::to_string(high) + ", found " + describe(*node));
    into = static_cast<Integer>(value->get());
  }

  void one_of(std::string_view key, std::initializer_list<const char*> words, std::string& into) {
    std::vector<std::string> names;
    for (const char* word : words)
      names.push_back(in_quotes(word));
    text(key, "", listed(names), [&](const std::string& value) {
      if (std::find(words.begin(), words.end(), value) == words.end()) return listed(names);
      into = value;
      return std::string{};
    });
  }

  /// Every key that `find` has not been asked for is a mistake.
  void refuse_others() {
    std::sort(known_.begin(), known_.end());
    std::string names;
    for (const auto& name : known_)
      names += (names.empty() ? "" : ", ") + name;
    for (const auto& [key, node] : table_)
      if (!std::binary_search(known_.begin(), known_.end(), std::string(key.str())))
        out_.add(key.source().begin.line, path_of(key.str()), "unknown key; known here are " + names);
  }

  problems& out() { return out_; }

 private:
  const toml::table& table_;
  std::string path_;
  problems& out_;
  std::vector<std::string> known_;
};

/// The tables of an array of tables; reports what is not.
template <class Each>
void for_each_table(table_reader& top, std::string_view key, Each each) {
  const auto* node = top.find(key);
  if (node == nullptr) return;
  const auto* list = node->as_array();
  if (list == nullptr)
    return top.refuse(key, "expected [[" + std::string(key) + "]] tables, found " + describe(*node));
  std::size_t number = 0;
  for (const auto& entry : *list) {
    ++number;
    if (const auto* table = entry.as_table())
      each(*table, number);
    else
      top.out().add(entry.source().begin.line, std::string(key) + "[" + std::to_string(number) + "]",
                    "expected a table, found " + describe(entry));
  }
}

}  // namespace baton::actors::graph_text
