#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/host/interrupt.hpp"

namespace baton::apps::host {

enum class style : std::uint8_t { plain, bold, faint, good, bad, first_node, second_node };

/// What a person watches. Colours and moving lines only on a terminal, and no colour if NO_COLOR is set.
class terminal {
 public:
  /// `quiet`: nothing is printed but errors, e.g. when the output is for a program.
  explicit terminal(bool quiet);

  [[nodiscard]] bool quiet() const noexcept { return quiet_; }
  /// `text` in that style on standard output.
  [[nodiscard]] std::string paint(style how, std::string_view text) const;

  /// Text on standard output, at once.
  void say(std::string_view text);

  /// What is being waited for: a line that is overwritten on a terminal, a line of its own elsewhere unless
  /// it only counts on (`step` > 0).
  void progress(std::string_view what, unsigned step = 0);
  /// Removes the moving line.
  void progress_done();

 private:
  bool quiet_;
  bool colour_;
  bool moving_;
  bool shown_ = false;
  unsigned turns_ = 0;
};

}  // namespace baton::apps::host
