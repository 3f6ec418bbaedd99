#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/engines/toy_engine.hpp"
#include "actors/engines/toy_tokenizer.hpp"
#include "actors/runtime.hpp"
#include "transports/faulty_transport.hpp"

/// A whole cluster in one process, with the toy engine: a single wrong row changes the text. Each node has a
/// runtime of its own, so that it can be ended like a process.
namespace baton::tests {

using namespace std::chrono_literals;

/// What a client has received so far, and a way to wait for more of it.
class transcript {
 public:
  struct state {
    std::string text;
    std::vector<actors::turn_text> pieces;
    actors::turn_started started;
    std::optional<actors::turn_finished> finished;
    std::optional<actors::turn_failed> failed;
    int starts = 0, ends = 0;
  };

  void take(const actors::turn_event& event) {
    const std::lock_guard lock{guard_};
    if (const auto* started = std::get_if<actors::turn_started>(&event)) {
      heard_.started = *started;
      ++heard_.starts;
    } else if (const auto* text = std::get_if<actors::turn_text>(&event)) {
      heard_.text += text->text;
      heard_.pieces.push_back(*text);
    } else if (const auto* finished = std::get_if<actors::turn_finished>(&event)) {
      heard_.finished = *finished;
      ++heard_.ends;
    } else {
      heard_.failed = std::get<actors::turn_failed>(event);
      ++heard_.ends;
    }
    changed_.notify_all();
  }

  /// Waits until `condition` holds or the deadline has passed; says which.
  template <class Condition>
  bool wait(Condition condition, std::chrono::milliseconds deadline = 20s) {
    std::unique_lock lock{guard_};
    return changed_.wait_for(lock, deadline, [&] { return condition(std::as_const(heard_)); });
  }
  bool wait_tokens(std::size_t n) {
    return wait([n](const state& it) { return it.pieces.size() >= n || it.ends > 0; });
  }
  bool wait_end() {
    return wait([](const state& it) { return it.ends > 0; });
  }

  // As heard so far: it may be more by now.
  [[nodiscard]] state now() const {
    const std::lock_guard lock{guard_};
    return heard_;
  }
  [[nodiscard]] std::string text() const { return now().text; }
  [[nodiscard]] std::vector<actors::turn_text> pieces() const { return now().pieces; }
  [[nodiscard]] actors::turn_started started() const { return now().started; }
  [[nodiscard]] std::optional<actors::turn_finished> finished() const { return now().finished; }
  [[nodiscard]] std::optional<actors::turn_failed> failed() const { return now().failed; }
  [[nodiscard]] int starts() const { return now().starts; }
  [[nodiscard]] int ends() const { return now().ends; }

 private:
  mutable std::mutex guard_;
  std::condition_variable changed_;
  state heard_;
};

struct cluster_options {
  std::vector<std::string> nodes{"a", "b", "c"};
  bool links = true;  ///< each node replicates to all others
  std::string commit = "semi-sync";
  std::uint32_t every_tokens = 1;
  actors::engines::toy_engine::options engine{};
  std::chrono::microseconds step{500};  ///< what a decode step takes
  actors::liveness_options liveness{20ms, 400ms, 1000ms};
  std::string store = ":memory:";
  std::uint32_t poison_after = 2;
  std::string archive;  ///< of the gateway
  /// Goes around the engine of each node, if set.
  std::function<std::unique_ptr<actors::engines::engine>(std::unique_ptr<actors::engines::engine>)> wrap;
  /// Faults of each node's data plane, by name.
  std::map<std::string, transports::faults> faults;
};

class cluster {
 public:
  explicit cluster(cluster_options how = {})
      : how_(std::move(how)), text_(std::make_shared<actors::engines::toy_tokenizer>()) {
    control_ = must(actors::runtime::start(2, network_));
    actors::orchestrator_options orchestrator;
    orchestrator.listen = "local:control";
    orchestrator.store = "sqlite:" + how_.store;
    orchestrator.liveness = how_.liveness;
    must(control_->add_orchestrator(orchestrator));
    edge_ = must(actors::runtime::start(2, network_));
    start_gateway();
    for (const std::string& name : how_.nodes)
      start_node(name);
    await([&](const std::string& status) { return ready(status); });
  }

  ~cluster() {
    edge_->stop();
    for (auto& [name, it] : nodes_)
      it->stop();
    control_->stop();
  }

  void start_gateway() {
    actors::gateway_options gateway;
    gateway.orchestrator = "local:control";
    gateway.liveness = how_.liveness;
    gateway.poison_after = how_.poison_after;
    gateway.archive = how_.archive;
    service_ = must(edge_->add_gateway(gateway, text_));
  }

  /// The gateway ends as a killed process ends, and another one begins under its name.
  void restart_gateway() {
    edge_->kill("edge");
    start_gateway();
    await([&](const std::string& status) { return ready(status); });
  }

  void start_node(const std::string& name) {
    auto host = must(actors::runtime::start(2, network_));
    actors::node_options node;
    node.name = name;
    node.orchestrator = "local:control";
    node.control_listen = "local:" + name;
    node.data_listen = "inproc:" + name;
    node.transport = "inproc";
    node.commit = how_.commit;
    node.every_tokens = how_.every_tokens;
    node.replica_memory_bytes = 1U << 20;
    node.liveness = how_.liveness;
    if (const auto faults = how_.faults.find(name); faults != how_.faults.end())
      node.make_transport =
          [this, name, how = faults->second](
              transports::frame_sink& sink) -> result<std::unique_ptr<transports::transport>> {
        auto made =
            std::make_unique<transports::faulty_transport>(sink, how, [this](transports::frame_sink& inner) {
              return actors::runtime::make_inproc_transport(network_, inner);
            });
        faulty_[name] = made.get();
        return std::unique_ptr<transports::transport>{std::move(made)};
      };
    if (how_.links)
      for (const std::string& other : how_.nodes)
        if (other != name) node.replicate_to.push_back(other);
    auto options = how_.engine;
    options.delay_per_evaluation = how_.step;
    options.wait = [](std::chrono::microseconds time) { std::this_thread::sleep_for(time); };
    node.on_breakdown = [this](const error&) { ++breakdowns_; };
    must(host->add_node(node, [options, this]() -> result<std::unique_ptr<actors::engines::engine>> {
      std::unique_ptr<actors::engines::engine> made = std::make_unique<actors::engines::toy_engine>(options);
      return how_.wrap ? how_.wrap(std::move(made)) : std::move(made);
    }));
    nodes_[name] = std::move(host);
  }

  /// Ends a node as a killed process ends: without a word.
  void kill(const std::string& name) {
    nodes_.at(name)->kill(name);
    nodes_.erase(name);
  }

  std::shared_ptr<transcript> submit(actors::completion_request request) {
    auto heard = std::make_shared<transcript>();
    last_ = service().submit(std::move(request),
                             [heard](const actors::turn_event& event) { heard->take(event); });
    return heard;
  }

  /// The faulty transport of a node that was given faults.
  transports::faulty_transport& faulty(const std::string& name) { return *faulty_.at(name); }

  /// Waits until every group has an owner, all standbys that are alive in its in-sync set, and no lag behind
  /// the `rows` or more that the owners' engines hold. (The status is a snapshot: without `rows` it may be of
  /// before the last turn.)
  void await_in_sync(std::uint64_t rows);
  /// The same without regard to lag.
  void await_in_sync_members();
  /// Sums a figure of all nodes, e.g. {"replica", "corrupt"}.
  std::uint64_t figure(const std::string& section, const std::string& name);
  /// The lag that the status shows, of the group that has most of it.
  std::uint64_t lag_tokens();

  actors::completion_service& service() { return *service_; }
  actors::turn_handle last() const { return last_; }
  /// Nodes that have ended because their engine failed.
  int breakdowns() const { return breakdowns_; }
  std::string status() { return service().status_json(); }

  /// Waits until the gateway's status satisfies `condition`.
  void await(const std::function<bool(const std::string&)>& condition,
             std::chrono::milliseconds deadline = 20s);
  [[nodiscard]] bool ready(const std::string& status) const;
  [[nodiscard]] bool service_ready() const;

  template <class T>
  static T must(result<T> value) {
    if (!value) throw std::runtime_error("cluster: " + value.failure().what);
    return std::move(*value);
  }

 private:
  void await_sets(std::optional<std::uint64_t> rows);

  cluster_options how_;
  std::shared_ptr<actors::runtime::local_network> network_ = actors::runtime::make_local_network();
  std::shared_ptr<actors::engines::toy_tokenizer> text_;
  std::unique_ptr<actors::runtime> control_, edge_;
  std::shared_ptr<actors::completion_service> service_;
  std::map<std::string, std::unique_ptr<actors::runtime>> nodes_;
  std::map<std::string, transports::faulty_transport*> faulty_;
  actors::turn_handle last_{};
  std::atomic<int> breakdowns_{0};
};

inline actors::completion_request ask(const std::string& text, std::uint32_t max_tokens,
                                      const std::string& session = {}) {
  actors::completion_request request;
  request.session = session;
  request.messages = {{"user", text}};
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

}  // namespace baton::tests
