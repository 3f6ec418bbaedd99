#include "apps/host/terminal.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace baton::apps::host {
namespace {

bool wants_colour() {
  const char* none = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  return (none == nullptr || *none == '\0') && (kind == nullptr || std::string_view(kind) != "dumb");
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(descriptor, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

terminal::terminal(bool quiet)
    : quiet_(quiet),
      colour_(::isatty(STDOUT_FILENO) == 1 && wants_colour()),
      moving_(::isatty(STDERR_FILENO) == 1) {}

std::string terminal::paint(style how, std::string_view text) const {
  constexpr std::array codes{"", "1", "2", "32", "31", "36", "33"};
  if (!colour_ || how == style::plain) return std::string(text);
  return std::string("\033[") + codes.at(static_cast<std::size_t>(how)) + "m" + std::string(text) + "\033[0m";
}

void terminal::say(std::string_view text) {
  if (quiet_) return;
  progress_done();
  write_all(STDOUT_FILENO, text);
}

void terminal::progress(std::string_view what, unsigned step) {
  constexpr std::array wheel{"|", "/", "-", "\\"};
  if (moving_) {
    write_all(STDERR_FILENO,
              std::string("\r\033[K  ") + wheel.at(turns_++ % wheel.size()) + " " + std::string(what));
    shown_ = true;
  } else if (!quiet_ && step == 0) {
    write_all(STDERR_FILENO, "  " + std::string(what) + "\n");
  }
}

void terminal::progress_done() {
  if (shown_) write_all(STDERR_FILENO, "\r\033[K");
  shown_ = false;
}

}  // namespace baton::apps::host
