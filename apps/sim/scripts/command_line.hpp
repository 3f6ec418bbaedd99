#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/sim/scheduler.hpp"
#include "schemas/errors.hpp"

namespace baton::apps::sim::scripts {

/// A line of a script: its words, and `key=value` among them apart. A value may be quoted, with \" \\ \n.
struct command_line {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
};

/// `invalid_argument` for a quote that does not end.
result<command_line> parse_command(std::string_view line);

/// The error of a command that cannot be.
error cannot(std::string what);
/// `invalid_argument` unless all of it is one number.
result<std::uint64_t> number(std::string_view text);
/// "200ms", "5s", "30us"; else `invalid_argument`.
result<nanoseconds> duration(std::string_view text);

/// Takes the options of a command by name, and complains about what is left.
class options {
 public:
  explicit options(const command_line& line) : left_(line.options) {}

  /// Leaves `into` as it is if there is no such option.
  template <class Number>
  void take(const std::string& name, Number& into) {
    const auto found = left_.extract(name);
    if (found.empty()) return;
    if constexpr (std::is_floating_point_v<Number>)
      into = static_cast<Number>(std::strtod(found.mapped().c_str(), nullptr));
    else if (const auto value = number(found.mapped()))
      into = static_cast<Number>(*value);
    else
      wrong_ = value.failure().what;
  }
  void take(const std::string& name, std::string& into) {
    if (const auto found = left_.extract(name); !found.empty()) into = found.mapped();
  }
  void take(const std::string& name, nanoseconds& into) {
    const auto found = left_.extract(name);
    if (found.empty()) return;
    if (const auto value = duration(found.mapped()))
      into = *value;
    else
      wrong_ = value.failure().what;
  }
  /// `invalid_argument` for a value that cannot be, and for an option that nobody has taken.
  [[nodiscard]] result<void> rest() const {
    if (!wrong_.empty()) return cannot(wrong_);
    if (!left_.empty()) return cannot("no option is called " + left_.begin()->first);
    return {};
  }

 private:
  std::map<std::string, std::string> left_;
  std::string wrong_;
};

}  // namespace baton::apps::sim::scripts
