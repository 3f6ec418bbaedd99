#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/engines/toy_engine.hpp"
#include "actors/engines/toy_tokenizer.hpp"
#include "actors/protocol/commit_rule.hpp"
#include "apps/sim/fabric.hpp"
#include "apps/sim/store.hpp"

namespace baton::apps::sim {

/// What a seed decides once: the shape of the cluster and of its work.
struct settings {
  std::size_t nodes = 3;
  std::size_t gateways = 1;
  actors::protocol::commit_rule commit;
  std::size_t replicas = 0;  ///< standbys of each group; 0: all nodes
  std::uint32_t every_tokens = 1;
  std::uint32_t prefill_chunk = 16;
  std::uint32_t context_tokens = 600;
  std::size_t sessions = 12;  ///< places in each engine
  std::size_t staging_slots = 16;
  bool rows = true;                     ///< false: a model that can only be replayed
  nanoseconds step{1ms};                ///< what a decode step takes
  std::set<std::string> other_weights;  ///< nodes whose model is another one
  bool late_writes = false;             ///< the fabric writes to memory of failed landings
  std::chrono::milliseconds heartbeat{20};
  std::chrono::milliseconds suspect_after{100};
  std::chrono::milliseconds lease{1000};
};

/// Rules that can be left out, one at a time, to show that the checkers notice.
enum class left_out : std::uint8_t {
  nothing,
  gateway_epochs,  ///< a gateway takes tokens of any epoch
  commit_wait,     ///< tokens are released before they are replicated
  checksums,       ///< landed rows are not verified
  generations,     ///< rows exported before a cut are sent after it
  shapes,          ///< rows are made anew in batches of other shapes
  fingerprint,     ///< nodes of other models pass for nodes of the same
  quarantine,      ///< memory that a fabric may still write to is lent again
};

/// In the order of `left_out`.
inline constexpr std::array<std::string_view, 8> left_out_names{
    "nothing",     "gateway_epochs", "commit_wait", "checksums",
    "generations", "shapes",         "fingerprint", "quarantine"};

std::optional<left_out> left_out_named(std::string_view name) noexcept;

/// Everything that the simulated processes share.
struct world {
  explicit world(std::uint64_t seed, luck how_lucky = luck::drawn)
      : random(seed, how_lucky), paths(time, random), data{.paths = paths, .listening = {}}, store(random) {}

  dice random;
  scheduler time;
  network paths;
  fabric data;
  shared_store store;
  settings how;
  left_out without = left_out::nothing;
  /// The fabric as `how` and `without` say.
  void equip() {
    data.late_writes = how.late_writes;
    data.admits_late_writes = how.late_writes && without != left_out::quarantine;
  }

  double doubled = 0;  ///< chance that a one-way message of the control plane comes twice
  std::uint64_t doubles = 0;
  std::shared_ptr<const actors::engines::toy_tokenizer> text =
      std::make_shared<actors::engines::toy_tokenizer>();
  std::map<std::string, std::shared_ptr<void>> processes;  ///< by control address

  /// Sessions that their owner has given up for want of places, until one has them again: what a client has
  /// of those is in its gateway alone.
  std::set<session_id> let_go;

  bool traced = false;
  /// For people who look into one run: what happened, and when.
  void note(const std::string& what) const {
    if (traced) std::printf("%10.3f ms  %s\n", static_cast<double>(time.now().count()) / 1e6, what.c_str());
  }

  /// The first thing that went wrong; empty if nothing has.
  std::string fault;
  void blame(std::string what) {
    if (fault.empty()) fault = std::move(what);
  }

  template <class Process>
  std::shared_ptr<Process> process_at(const std::string& address) const {
    const auto found = processes.find(address);
    return found == processes.end() ? nullptr : std::static_pointer_cast<Process>(found->second);
  }
};

using wire_ptr = std::shared_ptr<connection>;

/// A process as another one reaches it over a control connection.
template <class Process>
struct remote {
  std::weak_ptr<Process> process;
  wire_ptr wire;
  int side = 0;  ///< ours
  std::shared_ptr<std::vector<std::function<void()>>> open_requests =
      std::make_shared<std::vector<std::function<void()>>>();

  explicit operator bool() const noexcept { return wire != nullptr; }
  /// The connection is gone: what waits for an answer gets none.
  void lost() {
    wire = nullptr;
    for (const auto& fail : std::exchange(*open_requests, {}))
      fail();
  }
};

/// Sends a message, by its bytes.
template <class Process, class Message>
void tell(world& in, const remote<Process>& to, const Message& message,
          void (Process::*handle)(const Message&, const wire_ptr&)) {
  if (!to) return;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode(message));
  const auto arrives = [process = to.process, wire = to.wire, bytes, handle] {
    const auto at = process.lock();
    const auto read = decode<Message>(*bytes);
    if (at && read) ((*at).*handle)(*read, wire);
  };
  to.wire->send(to.side, bytes->size(), arrives, contents_of<Message>(bytes));
  if (!in.random.chance(in.doubled)) return;
  ++in.doubles;
  to.wire->send(to.side, bytes->size(), arrives, contents_of<Message>(bytes));
}

/// Sends a request. `done` runs once: with the answer, or with an error when the connection goes or time runs
/// out.
template <class Reply, class Process, class Request>
void ask(host& self, remote<Process>& to, const Request& request,
         void (Process::*serve)(const Request&, const wire_ptr&, const std::function<void(const Reply&)>&),
         std::function<void(const result<Reply>&)> done) {
  const auto once = std::make_shared<std::function<void(const result<Reply>&)>>(std::move(done));
  const auto answer = [once](const result<Reply>& reply) {
    if (*once) std::exchange(*once, nullptr)(reply);
  };
  if (!to) {
    self.after(0ns, [answer] { answer(error{errc::connection_lost, "no connection"}); });
    return;
  }
  to.open_requests->push_back([answer] { answer(error{errc::connection_lost, "connection lost"}); });
  self.after(limits::request_timeout, [answer] { answer(error{errc::timed_out, "no answer"}); });
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode(request));
  const auto serves = [process = to.process, wire = to.wire, side = to.side, bytes, serve, answer] {
    const auto at = process.lock();
    const auto read = decode<Request>(*bytes);
    if (!at || !read) return;
    ((*at).*serve)(*read, wire, [wire, side, answer](const Reply& reply) {
      const auto back = std::make_shared<const std::vector<std::byte>>(encode(reply));
      wire->send(
          1 - side, back->size(), [back, answer] { answer(decode<Reply>(*back)); }, contents_of<Reply>(back));
    });
  };
  to.wire->send(to.side, bytes->size(), serves, contents_of<Request>(bytes));
}

/// Connects to the process at a control address.
template <class Process>
void dial(world& in, const std::shared_ptr<host>& from, const std::string& address,
          std::function<void(remote<Process>)> found, const std::function<void()>& failed) {
  in.paths.connect(
      from, address,
      [&in, address, found = std::move(found), failed](const wire_ptr& wire) {
        const auto process = in.process_at<Process>(address);
        if (process)
          found({process, wire, 0});
        else
          failed();
      },
      failed);
}

inline std::string control_address(const std::string& name) {
  return "control:" + name;
}
inline std::string data_address(const std::string& name) {
  return "data:" + name;
}

}  // namespace baton::apps::sim
