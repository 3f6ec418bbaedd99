#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "apps/host/child_process.hpp"
#include "apps/host/interrupt.hpp"
#include "apps/host/memory_keeper.hpp"
#include "apps/host/network.hpp"
#include "apps/host/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace baton;
using namespace baton::apps::host;

child_process shell(const std::string& script) {
  auto child = child_process::start({.command = {"/bin/sh", "-c", script}});
  REQUIRE(child.ok());
  return std::move(*child);
}

void await_end(const child_process& child) {
  pollfd gone{child.ending(), POLLIN, 0};
  REQUIRE(::poll(&gone, 1, 10'000) == 1);
}

/// Runs `body` in a process of its own that is killed once it has said a line; returns that line.
template <class Body>
std::string line_of_killed(Body body) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(pipe[0]);
    body(pipe[1]);
    ::pause();
    ::_exit(1);
  }
  ::close(pipe[1]);
  std::array<char, 512> line{};
  const auto count = ::read(pipe[0], line.data(), line.size());
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(pipe[0]);
  REQUIRE(count > 0);
  return {line.data(), static_cast<std::size_t>(count)};
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

}  // namespace

TEST_CASE("lines and the end of a child") {
  auto child = shell("echo one; printf 'tw'; printf 'o\\nrest'; exit 7");
  await_end(child);
  CHECK(child.read_lines() == std::vector<std::string>{"one", "two"});
  REQUIRE(child.ended().has_value());
  CHECK(describe_ending(*child.ended()) == "exit code 7");
  child.signal(SIGTERM);  // nobody else has its pid by now, but nobody must be asked
}

TEST_CASE("children end when told to, and are killed when they do not") {
  auto polite = shell("exec sleep 100");
  auto deaf = shell("trap '' INT TERM; echo deaf; exec sleep 100");
  auto frozen = shell("echo frozen; kill -STOP $$; exec sleep 100");
  REQUIRE(comes_true([&] { return !deaf.read_lines().empty(); }));
  REQUIRE(comes_true([&] { return !frozen.read_lines().empty(); }));
  child_process::end_all({&polite, &deaf, &frozen}, 300ms);
  CHECK(describe_ending(*polite.ended()).find("signal 2") != std::string::npos);
  CHECK(describe_ending(*deaf.ended()).find("signal 9") != std::string::npos);
  CHECK(frozen.ended().has_value());
}

TEST_CASE("what a child leaves behind goes with it") {
  pid_t left = -1;
  {
    auto child = shell("sleep 100 & echo $!; exit 3");
    std::vector<std::string> lines;
    REQUIRE(comes_true([&] { return !(lines = child.read_lines()).empty(); }));
    left = std::stoi(lines.front());
    await_end(child);
    CHECK(describe_ending(*child.ended()) == "exit code 3");
  }
  CHECK(::kill(left, 0) != 0);  // not even as a zombie
}

TEST_CASE("a child dies with its parent, whatever kills that") {
  const auto pid = std::stoi(line_of_killed([](int out) {
    auto child = child_process::start({.command = {"/bin/sleep", "100"}});
    ::dprintf(out, "%d\n", child->pid());
    ::pause();
  }));
  // It is ours to reap if we have started children before.
  CHECK(comes_true([pid] { return ::waitpid(pid, nullptr, WNOHANG) == pid || ::kill(pid, 0) != 0; }));
}

TEST_CASE("a temporary folder goes with its owner, whatever kills that") {
  std::string path;
  {
    const auto folder = temporary_folder::make("baton-host-test");
    REQUIRE(folder.ok());
    path = folder->path();
    std::ofstream(path + "/file") << "x";
    CHECK(std::filesystem::exists(path + "/file"));
  }
  CHECK_FALSE(std::filesystem::exists(path));

  path = line_of_killed([](int out) {
    const auto folder = temporary_folder::make("baton-host-test");
    std::ofstream(folder->path() + "/file") << "x";
    ::dprintf(out, "%s", folder->path().c_str());
    ::pause();
  });
  CHECK(comes_true([&] { return !std::filesystem::exists(path); }));
}

/// From the kill of a process with much memory to the closing of its descriptors.
std::chrono::nanoseconds time_to_close(bool keep) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(pipe[0]);
    if (keep && !keep_memory_past_our_end()) ::_exit(1);
    const std::vector<char> memory(std::size_t{256} << 20, 'x');
    ::dprintf(pipe[1], "%c", memory.back());
    ::pause();
    ::_exit(1);
  }
  ::close(pipe[1]);
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);
  const auto start = apps::host::clock::now();
  ::kill(pid, SIGKILL);
  const auto end = ::read(pipe[0], &byte, 1);
  const auto closed = apps::host::clock::now() - start;
  ::close(pipe[0]);
  ::waitpid(pid, nullptr, 0);
  REQUIRE(end == 0);
  return closed;
}

TEST_CASE("a killed process closes its connections before it gives its memory back") {
  std::vector<std::chrono::nanoseconds> with;
  std::vector<std::chrono::nanoseconds> without;
  for (int i = 0; i < 5; ++i) {
    without.push_back(time_to_close(false));
    with.push_back(time_to_close(true));
  }
  std::sort(with.begin(), with.end());
  std::sort(without.begin(), without.end());
  INFO(with[2].count() << " ns with a keeper, " << without[2].count() << " ns without");
  CHECK(with[2] < without[2] / 4);
}

TEST_CASE("a program's last words are in the error") {
  CHECK(*run_program({"/bin/echo", "hello"}, 5s) == "hello\n");
  CHECK(run_program({"/bin/sh", "-c", "echo no luck >&2; exit 3"}, 5s).failure().what == "sh: no luck");
  CHECK(run_program({"/bin/sleep", "100"}, 100ms).code() == errc::timed_out);
  CHECK(run_program({"/no/such/program"}, 5s).failure().what.find("No such file") != std::string::npos);
}

TEST_CASE("a free port is not given while it is in use, and is in range") {
  for (int i = 0; i < 20; ++i) {
    const auto port = free_port();
    REQUIRE(port.ok());
    CHECK(*port >= 20000);
    CHECK(*port < 32000);
  }
}

TEST_CASE("a cut link is down for its member only, and namespaces leave with their owner") {
  if (::geteuid() != 0) return;  // needs root
  auto net = virtual_network::make({"a", "b"});
  if (!net && net.code() == errc::unsupported) return;  // or iproute2
  INFO((net.ok() ? std::string{} : net.failure().what));
  REQUIRE(net.ok());
  const auto state_of = [&](const std::string& name) {
    const auto shown =
        run_program({"/usr/sbin/ip", "-brief", "link", "show", virtual_network::device()}, 5s, net->of(name));
    REQUIRE(shown.ok());
    return shown->find("LOWER_UP") != std::string::npos;
  };
  CHECK(comes_true([&] { return state_of("a") && state_of("b"); }));
  REQUIRE(net->set_link("a", false).ok());
  CHECK(comes_true([&] { return !state_of("a"); }));
  CHECK(state_of("b"));
  REQUIRE(net->set_link("a", true).ok());
  CHECK(comes_true([&] { return state_of("a"); }));
  CHECK(run_program({"/usr/sbin/ip", "-brief", "link"}, 5s)->find("hub0") == std::string::npos);
}
