#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/completion_service.hpp"
#include "actors/engines/engine.hpp"
#include "actors/engines/tokenizer.hpp"
#include "schemas/errors.hpp"
#include "schemas/limits.hpp"
#include "transports/transport.hpp"

/// The parts of a deployment, to run in any process that links `baton::runtime`. No CAF in here.
namespace baton::actors {

/// Timing of failure detection; the same in all processes of a deployment.
struct liveness_options {
  std::chrono::milliseconds heartbeat = limits::heartbeat;
  std::chrono::milliseconds suspect_after = limits::suspect_after;
  std::chrono::milliseconds lease = limits::lease;

  /// How long the answer to a greeting is waited for before the connection is made anew: well within a lease.
  /// CAF 0.17 forgets the way back over a connection that was made while an older one of the same process
  /// still stood, as soon as that one ends: after a freeze, typically.
  [[nodiscard]] std::chrono::milliseconds greeted_within() const {
    return std::min(limits::request_timeout, lease / 2);
  }
};

struct orchestrator_options {
  std::string name = "control";
  std::string listen = "127.0.0.1:0";  ///< control plane
  /// "sqlite:PATH" (":memory:": nothing is kept over a restart), or "etcd:URL,URL" with all its members.
  std::string store;
  std::string cluster = "baton";  ///< its name in a store that others use as well
  /// Called once another orchestrator has begun a term in the store, and this one has been ended. On a thread
  /// of the runtime, which may end the process there but not the runtime.
  std::function<void(const error& why)> on_breakdown;
  liveness_options liveness;
};

/// Makes a transport that reports to `sink`, which outlives it: an embedder's own, or one with faults for
/// tests.
using transport_factory =
    std::function<result<std::unique_ptr<transports::transport>>(transports::frame_sink& sink)>;

struct node_options {
  std::string name;
  std::string orchestrator;  ///< "host:port"; tried again until it answers
  std::string control_listen = "127.0.0.1:0";
  std::string data_listen = "127.0.0.1:0";
  std::vector<std::string> replicate_to;  ///< names of the nodes that links lead to
  std::string transport = "ucx";  ///< "ucx" (over TCP), "ucx-shm", "tcp", or "inproc" (nodes of one process)
  transport_factory make_transport;  ///< used instead of `transport` if set
  std::string network_devices;  ///< "ucx": interfaces to use, e.g. "lo"; empty: chosen by the listen address
  std::string commit = "semi-sync";  ///< async | semi-sync | quorum:K | strict
  std::size_t replicas = 0;          ///< standbys of each group, of `replicate_to`; 0: all of them
  std::uint32_t every_tokens = 1;    ///< rows are shipped after this many tokens at the latest
  std::size_t replica_memory_bytes = 64U << 20;  ///< staging memory for rows on the way
  /// An object store that it sends all its sessions to, "file:PATH", and restores them from; empty: none.
  std::string archive;
  std::uint32_t archive_every_tokens = 64;  ///< rows of one object
  std::size_t sessions = 16;  ///< places in the engine: a third for own sessions, the rest for replicas
  liveness_options liveness;
  /// Called once its engine has failed by itself (`engine_failed` of an evaluation) and the node has been
  /// ended, as if its process had been killed: others take over, and a new start is the way back. On a thread
  /// of the runtime, which may end the process there but not the runtime.
  std::function<void(const error& why)> on_breakdown;
};

struct gateway_options {
  std::string name = "edge";
  std::string orchestrator;
  std::uint32_t poison_after =
      2;  ///< nodes that die of a request one after the other; 0: it is always run again
  /// The object store where conversations are kept, "file:PATH", and recalled from; empty: nowhere.
  std::string archive;
  liveness_options liveness;
};

/// Makes an engine. Slow (it loads a model); called once per node, on the thread that adds it.
using engine_factory = std::function<result<std::unique_ptr<engines::engine>>()>;

/// One process's share of a deployment: an actor system and the parts started in it. Thread-safe.
class runtime {
 public:
  /// What in-process deployments share: parts whose addresses begin with "local:" and nodes with transport
  /// "inproc" find each other here. Pass the same one to each runtime of a test.
  class local_network;

  /// Starts the actor system. `threads`: for actors; engines and transports have their own.
  static result<std::unique_ptr<runtime>> start(std::size_t threads = 2,
                                                std::shared_ptr<local_network> local = nullptr);
  static std::shared_ptr<local_network> make_local_network();
  /// A plain "inproc" transport on that network, e.g. to put faults over.
  static std::unique_ptr<transports::transport> make_inproc_transport(
      const std::shared_ptr<local_network>& network, transports::frame_sink& sink);

  virtual ~runtime() = default;

  /// Each starts a part and returns the address where its control actor listens. An error names what is wrong
  /// (port in use, unreadable store, model that does not load) and leaves nothing running of the part.
  virtual result<std::string> add_orchestrator(const orchestrator_options& how) = 0;
  virtual result<std::string> add_node(const node_options& how, const engine_factory& engine) = 0;

  /// Starts a gateway: it listens nowhere, others know it by the connections that it makes. Returns what
  /// clients are served by, which must not be used after `stop`.
  virtual result<std::shared_ptr<completion_service>> add_gateway(
      const gateway_options& how, std::shared_ptr<const engines::tokenizer> text) = 0;

  /// Moves all that the nodes started here own to standbys that hold it, so that no stream notices when they
  /// stop. Blocks until that is done, nobody is left to take it, `timeout` has passed, or `hurry` says so;
  /// true if it is done.
  virtual bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry) = 0;

  /// Ends one part as if its process were killed: no farewell, its connections just close. For tests.
  virtual void kill(const std::string& name) = 0;

  /// Stops all parts in order, within about a second, whether or not peers answer.
  virtual void stop() = 0;
};

/// The status of a cluster, asked of its orchestrator from outside, as JSON text.
result<std::string> fetch_status(const std::string& orchestrator, std::chrono::milliseconds timeout);

/// Tells the orchestrator that a node shall own the group that a session is in, and waits until it does: that
/// node is brought all of the group first, while decoding goes on. A group moves as a whole; its number is
/// returned. `unknown_session` if no gateway knows one of that name, `unavailable` if no such node is alive,
/// `conflict` if the order is not in force any more, `timed_out` with what is known then.
result<std::uint64_t> move_session(const std::string& orchestrator, const std::string& session,
                                   const std::string& node, std::chrono::milliseconds timeout);

/// Tells the orchestrator that a node shall own nothing until it restarts, and waits until that is so: what
/// it owns moves to standbys that hold all of it, while decoding goes on. With `on` false it may own again,
/// and nothing is waited for. `unavailable` if no such node is alive; `timed_out` with the groups that are
/// left.
result<void> drain_node(const std::string& orchestrator, const std::string& node, bool on,
                        std::chrono::milliseconds timeout);

}  // namespace baton::actors
