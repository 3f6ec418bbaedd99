#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sim/scripts/command_line.hpp"
#include "apps/sim/scripts/stage.hpp"
#include "schemas/errors.hpp"

namespace baton::apps::sim::scripts {

/// Carries out the commands of one script, in order (apps/sim/scripts/README.md lists them).
class interpreter {
 public:
  /// `print` takes each line of output, that of the trace among them.
  explicit interpreter(std::function<void(const std::string&)> print) : print_(std::move(print)) {}

  /// `invalid_argument` for a command that cannot be; `timed_out` if what it waits for does not come;
  /// `conflict` if it expects what is not so.
  result<void> run(std::string_view line);
  /// The invariant that the script is to violate, since a rule is left out; empty: none.
  [[nodiscard]] const std::string& to_violate() const noexcept { return to_violate_; }
  /// What a checker has found; empty if nothing.
  [[nodiscard]] std::string fault() const { return stage_ ? stage_->fault() : std::string{}; }

 private:
  using handler = result<void> (interpreter::*)(const command_line&);
  static const std::map<std::string, handler, std::less<>>& handlers();

  result<void> cluster_of(const command_line& line);
  result<void> trace(const command_line& line);
  result<void> turn(const command_line& line);
  result<void> cancel(const command_line& line);
  result<void> run_on(const command_line& line);
  result<void> run_until(const command_line& line);
  result<void> kill(const command_line& line);
  result<void> start(const command_line& line);
  result<void> stop(const command_line& line);
  result<void> go_on(const command_line& line);
  result<void> cut(const command_line& line);
  result<void> isolate(const command_line& line);
  result<void> reset(const command_line& line);
  result<void> slow(const command_line& line);
  result<void> heal(const command_line& line);
  result<void> treat(const command_line& line);
  result<void> let_go(const command_line& line);
  result<void> store(const command_line& line);
  result<void> clock(const command_line& line);
  result<void> drain(const command_line& line);
  result<void> state(const command_line& line);
  result<void> counters(const command_line& line);
  result<void> expect(const command_line& line);

  result<cluster::member*> process(const command_line& line, std::size_t at);
  result<void> paths(const command_line& line,
                     const std::function<void(const std::string&, const std::string&)>& on);

  std::function<void(const std::string&)> print_;
  std::unique_ptr<stage> stage_;
  std::string to_violate_;
};

}  // namespace baton::apps::sim::scripts
