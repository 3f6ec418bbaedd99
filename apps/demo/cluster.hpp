#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/demo/sse_client.hpp"
#include "apps/host/child_process.hpp"
#include "apps/host/interrupt.hpp"
#include "apps/host/network.hpp"
#include "apps/host/temporary_folder.hpp"
#include "apps/host/terminal.hpp"
#include "schemas/errors.hpp"

namespace baton::apps::demo {

struct cluster_options {
  std::string engine = "llama";  ///< llama | toy
  std::string model;             ///< of llama
  std::uint32_t context_tokens = 1024;
  std::uint32_t sessions = 12;     ///< places per node
  std::uint32_t decode_us = 5000;  ///< of toy
  std::uint32_t every_tokens = 1;
  std::string commit = "semi-sync";
  std::string transport = "ucx";
  bool linked = true;    ///< false: nothing is replicated
  bool network = false;  ///< nodes in network namespaces of their own, so that they can be cut off
};

/// An orchestrator "control", a gateway "edge" and nodes "a", "b" and "c" with links between all of them,
/// each a process of its own that runs this very program. All of it, and every trace of it, is gone with this
/// object, and with this process, however it ends.
class cluster {
 public:
  /// Returns once the gateway can take turns and sees all nodes. An error names the process that failed and
  /// has the end of its log.
  static result<std::unique_ptr<cluster>> start(const cluster_options& how, host::interrupt& signals,
                                                host::terminal& screen);
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  [[nodiscard]] static std::vector<std::string> nodes() { return {"a", "b", "c"}; }
  [[nodiscard]] const http_client& gateway() const { return *gateway_; }
  [[nodiscard]] const cluster_options& how() const noexcept { return how_; }

  /// Ways to lose a node. `invalid_argument` for an unknown one.
  result<void> signal(const std::string& node, int number);
  result<void> set_link(const std::string& node, bool up);

  /// Lets time pass. `cancelled` by a signal.
  result<void> pause(std::chrono::milliseconds time) { return signals_.pause(time); }

  /// Starts a node again that was killed. Returns once it is ready.
  result<void> restart(const std::string& node);
  /// Waits until all nodes and links are up and each standby holds all of the KV that it is to hold.
  result<void> await_in_step();

  /// What the gateway knows of the cluster, as JSON text; see docs/operating.md.
  [[nodiscard]] result<std::string> status() const;

  /// The error with the end of the log of each process that has ended, and of the one that is most likely to
  /// know.
  [[nodiscard]] error explain(const error& why);

 private:
  cluster(cluster_options how, host::interrupt& signals, host::terminal& screen)
      : how_(std::move(how)), signals_(signals), screen_(screen) {}

  [[nodiscard]] static std::vector<std::string> processes() { return {"control", "a", "b", "c", "edge"}; }
  result<void> write_deployment();
  [[nodiscard]] std::string node_text(const std::string& name) const;
  result<void> start_processes();
  result<void> start_process(const std::string& name);
  result<void> await_all_ready();
  /// Waits for the parts of `wanted` processes.
  result<void> await_ready(std::size_t wanted, const std::string& what);
  /// Takes what the processes say; an error if one of them has ended.
  result<void> read_ready(std::map<std::string, bool>& ready);
  result<void> await_health();
  /// The numbers of nodes, links and groups that are as they should be, in words; "" if all are.
  [[nodiscard]] std::string what_is_missing(bool in_step) const;
  /// Waits until nothing is missing.
  result<void> await_nothing_missing(bool in_step, std::chrono::seconds timeout, const std::string& what);
  [[nodiscard]] std::string log_path(const std::string& process) const {
    return folder_->path() + "/" + process + ".log";
  }
  [[nodiscard]] std::string log_tail(const std::string& process) const;

  cluster_options how_;
  host::interrupt& signals_;
  host::terminal& screen_;
  std::optional<host::temporary_folder> folder_;
  std::optional<host::virtual_network> network_;
  std::map<std::string, host::child_process> children_;
  std::string suspect_ = "edge";  ///< whose log is shown if nothing has ended
  std::string gateway_address_;
  std::optional<http_client> gateway_;
};

}  // namespace baton::apps::demo
