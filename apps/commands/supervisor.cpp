#include "apps/commands/supervisor.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/exit_codes.hpp"
#include "apps/host/child_process.hpp"
#include "apps/host/interrupt.hpp"

namespace baton::apps {
namespace {

using nlohmann::ordered_json;

/// A little more than a child takes that must leave without a frozen part of its own.
constexpr std::chrono::milliseconds grace{4400};

class supervisor {
 public:
  supervisor(const actors::deployment& graph, const supervisor_options& how) : graph_(graph), how_(how) {}

  int run();

 private:
  struct running {
    std::string process;
    host::child_process child;
    std::size_t parts = 0;  // of the deployment that live in it
    std::size_t ready = 0;
    bool gone = false;
  };

  result<void> start();
  /// Until a signal or the end of all; the exit code.
  int watch();
  void wait_for_news();
  void read(running& of);
  /// The exit code if the deployment must end with it.
  std::optional<int> note_end(running& of, int status);
  void end_all();
  void say(const ordered_json& event, const std::string& words) const;

  const actors::deployment& graph_;
  const supervisor_options& how_;
  host::interrupt signals_;
  std::vector<running> children_;
  bool all_ready_ = false;
};

void supervisor::say(const ordered_json& event, const std::string& words) const {
  std::printf("%s\n", (how_.json ? event.dump() : words).c_str());
  std::fflush(stdout);
}

result<void> supervisor::start() {
  for (const auto& name : actors::processes_of(graph_)) {
    host::child_options how;
    how.command = {host::own_path(), "run",         how_.file_name, "--process", name,
                   "--json",         "--log-level", how_.log_level};
    auto child = host::child_process::start(how);
    if (!child) return {child.code(), "process " + name + ": " + child.failure().what};
    const auto in = [&name](const auto& part) { return part.process == name; };
    const auto parts = (in(graph_.orchestrator) ? 1 : 0) +
                       std::count_if(graph_.nodes.begin(), graph_.nodes.end(), in) +
                       std::count_if(graph_.gateways.begin(), graph_.gateways.end(), in);
    children_.push_back({name, std::move(*child), static_cast<std::size_t>(parts)});
  }
  return {};
}

void supervisor::read(running& of) {
  for (const auto& line : of.child.read_lines()) {
    const auto event = ordered_json::parse(line, nullptr, false);
    if (!event.is_object() || event.value("event", "") != "ready") continue;
    ++of.ready;
    const std::string where =
        event.contains("http") ? "http://" + event.value("http", "") : event.value("address", "");
    say(event, "ready " + event.value("type", "") + " " + event.value("actor", "") + " " + where +
                   " (process " + of.process + ", pid " + std::to_string(of.child.pid()) + ")");
  }
}

std::optional<int> supervisor::note_end(running& of, int status) {
  of.gone = true;
  if (of.ready < of.parts) {
    if (WIFEXITED(status)) return WEXITSTATUS(status);  // and it has said why
    std::fprintf(stderr, "baton: %s: process %s ended before it was ready: %s\n", how_.file_name.c_str(),
                 of.process.c_str(), host::describe_ending(status).c_str());
    return exit_code::cannot_start;
  }
  ordered_json event{{"event", "ended"}, {"process", of.process}, {"pid", of.child.pid()}};
  event[WIFSIGNALED(status) ? "signal" : "exit_code"] =
      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  say(event, "ended process " + of.process + ": " + host::describe_ending(status));
  return std::nullopt;
}

void supervisor::wait_for_news() {
  std::vector<pollfd> wanted;
  for (const auto& running : children_) {
    if (running.gone) continue;
    wanted.push_back({running.child.ending(), POLLIN, 0});
    if (running.child.output() >= 0) wanted.push_back({running.child.output(), POLLIN, 0});
  }
  (void)signals_.wait(wanted, host::clock::now() + std::chrono::hours(1));
}

int supervisor::watch() {
  while (!signals_.raised()) {
    wait_for_news();
    bool all_gone = true;
    bool all_ready = true;
    for (auto& running : children_) {
      const auto status = running.gone ? std::nullopt : running.child.ended();
      read(running);
      if (status)
        if (const auto code = note_end(running, *status)) return *code;
      all_gone = all_gone && running.gone;
      all_ready = all_ready && running.ready >= running.parts;
    }
    if (all_ready && !all_ready_) say({{"event", "up"}, {"deployment", graph_.name}}, "up " + graph_.name);
    all_ready_ = all_ready_ || all_ready;
    if (all_gone) {
      std::fprintf(stderr, "baton: %s: all processes have ended\n", how_.file_name.c_str());
      return exit_code::failed;
    }
  }
  return exit_code::success;
}

void supervisor::end_all() {
  std::vector<host::child_process*> all;
  for (auto& running : children_)
    all.push_back(&running.child);
  host::child_process::end_all(all, grace);
}

int supervisor::run() {
  int code = exit_code::cannot_start;
  if (const auto started = start(); started)
    code = watch();
  else
    std::fprintf(stderr, "baton: %s: %s\n", how_.file_name.c_str(), started.failure().what.c_str());
  end_all();
  return code;
}

}  // namespace

int supervise(const actors::deployment& graph, const supervisor_options& how) {
  return supervisor(graph, how).run();
}

}  // namespace baton::apps
