#include "actors/runtime.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "actors/dialer.hpp"
#include "actors/gateway_actor.hpp"
#include "actors/node.hpp"
#include "actors/orchestrator_actor.hpp"
#include "actors/stores/record_store.hpp"
#include "actors/system.hpp"
#include "schemas/log.hpp"
#include "transports/inproc_transport.hpp"

namespace baton::actors {

class runtime::local_network {
 public:
  directory_ptr directory = std::make_shared<local_directory>();
  std::shared_ptr<transports::inproc_network> wire = std::make_shared<transports::inproc_network>();
};

std::shared_ptr<runtime::local_network> runtime::make_local_network() {
  return std::make_shared<local_network>();
}

std::unique_ptr<transports::transport> runtime::make_inproc_transport(
    const std::shared_ptr<local_network>& network, transports::frame_sink& sink) {
  return std::make_unique<transports::inproc_transport>(network->wire, sink);
}

namespace {

constexpr std::chrono::milliseconds drain_poll{10};

/// Lets time pass in a thread that is no actor.
void pass(caf::actor_system& system, std::chrono::milliseconds time) {
  caf::scoped_actor self{system};
  self->receive(caf::after(time) >> [] {});
}

incarnation fresh_incarnation() {
  std::random_device random;
  return incarnation{random() | (std::uint64_t{random()} << 32)};
}

class runtime_body final : public runtime {
 public:
  runtime_body(std::size_t threads, std::shared_ptr<local_network> local)
      : held_(threads), system_(held_.get()), local_(std::move(local)) {}
  ~runtime_body() override { stop(); }

  result<std::string> add_orchestrator(const orchestrator_options& how) override {
    auto store = stores::open_store(how.store, how.cluster);
    if (!store) return store.failure();
    const auto replaced = [this, name = how.name, tell = how.on_breakdown](const error& why) {
      log_of("orchestrator")->critical("replaced, the orchestrator ends reason=\"{}\"", why.what);
      bury([this, name, tell, why] {
        kill(name);
        if (tell) tell(why);
      });
    };
    auto made = spawn_orchestrator_actor(system_, how, std::move(*store), replaced);
    if (!made) return made.failure();
    keep(how.name, {{caf::actor_cast<caf::actor>(made->actor), made->store}, {}});
    auto address = publish(system_, directory(), made->actor, how.listen);
    if (!address) {
      kill(how.name);
      return address;
    }
    const std::lock_guard lock{guard_};
    if (const auto kept = parts_.find(how.name); kept != parts_.end()) kept->second.address = *address;
    return address;
  }

  result<std::string> add_node(const node_options& how, const engine_factory& engine) override {
    std::promise<void> kept;
    const auto broken = [this, tell = how.on_breakdown, kept = kept.get_future().share()](
                            const process_id& self, const error& why) {
      log_of("node")->critical("engine failed, the node ends node={} reason=\"{}\"", self.name, why.what);
      bury([this, tell, kept, self, why] {
        kept.wait();
        const auto dead = take(self);
        if (dead == nullptr) return;  // it is being stopped already
        dead->stop();
        if (tell) tell(why);
      });
    };
    auto made =
        node::start(system_, how, engine, directory(), local_ == nullptr ? nullptr : local_->wire, broken);
    if (!made) return made.failure();
    const std::string address = (*made)->control_address();
    {
      const std::lock_guard lock{guard_};
      (*made).swap(nodes_[how.name]);
    }
    kept.set_value();
    return address;  // one of that name before it ends here
  }

  result<std::shared_ptr<completion_service>> add_gateway(
      const gateway_options& how, std::shared_ptr<const engines::tokenizer> text) override {
    auto made =
        spawn_gateway_actor(system_, how, {how.name, fresh_incarnation()}, std::move(text), directory());
    if (!made) return made.failure();
    part whole{{caf::actor_cast<caf::actor>(made->actor)}, {}};
    if (made->conversations) whole.actors.push_back(caf::actor_cast<caf::actor>(made->conversations));
    keep(how.name, std::move(whole));
    return made->service;
  }

  bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const auto done = [this] {
      const std::lock_guard lock{guard_};
      return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& it) { return it.second->drained(); });
    };
    {
      const std::lock_guard lock{guard_};
      for (auto& [name, it] : nodes_)
        it->begin_draining();
    }
    while (!done()) {
      if (hurry() || std::chrono::steady_clock::now() > deadline) return false;
      pass(system_, drain_poll);
    }
    return true;
  }

  void kill(const std::string& name) override {
    std::unique_ptr<node> dead;
    part single;
    {
      const std::lock_guard lock{guard_};
      if (auto found = nodes_.extract(name); !found.empty()) dead = std::move(found.mapped());
      if (auto found = parts_.extract(name); !found.empty()) single = std::move(found.mapped());
    }
    if (dead != nullptr) dead->stop();
    end(single);
  }

  void stop() override {
    std::map<std::string, std::unique_ptr<node>> nodes;
    std::map<std::string, part> parts;
    {
      const std::lock_guard lock{guard_};
      nodes.swap(nodes_);
      parts.swap(parts_);
    }
    for (auto& [name, it] : parts)
      end(it);
    for (auto& [name, it] : nodes)
      it->stop();
    std::vector<caf::actor> undertakers;  // now that no engine is left to fail, there will be no more
    {
      const std::lock_guard lock{guard_};
      undertakers.swap(undertakers_);
    }
    caf::scoped_actor waiter{system_};
    for (const caf::actor& it : undertakers)
      waiter->wait_for(it);
  }

 private:
  struct part {
    std::vector<caf::actor> actors;  // end in this order
    std::string address;             // where the first is published; empty: nowhere
  };

  directory_ptr directory() const { return local_ == nullptr ? nullptr : local_->directory; }

  /// For what cannot wait for its own end: `work` on a thread of its own.
  void bury(std::function<void()> work) {
    const std::lock_guard lock{guard_};  // it takes nothing out of here before it is known itself
    undertakers_.push_back(
        system_.spawn<caf::detached>([work = std::move(work)](caf::blocking_actor*) { work(); }));
  }

  /// The node of this run, out of the runtime's hands; nothing if it is gone already.
  std::unique_ptr<node> take(const process_id& which) {
    const std::lock_guard lock{guard_};
    const auto found = nodes_.find(which.name);
    if (found == nodes_.end() || found->second->self() != which) return nullptr;
    auto taken = std::move(found->second);
    nodes_.erase(found);
    return taken;
  }

  void keep(const std::string& name, part whole) {
    const std::lock_guard lock{guard_};
    parts_.insert_or_assign(name, std::move(whole));
  }

  void end(const part& whole) {
    if (local_ != nullptr && whole.address.starts_with(local_prefix))
      local_->directory->retract(whole.address);
    caf::scoped_actor waiter{system_};
    for (const caf::actor& it : whole.actors) {
      caf::anon_send_exit(it, caf::exit_reason::kill);
      waiter->wait_for(it);
    }
  }

  held_system held_;
  caf::actor_system& system_;
  std::shared_ptr<local_network> local_;
  std::mutex guard_;
  std::map<std::string, std::unique_ptr<node>> nodes_;
  std::map<std::string, part> parts_;
  std::vector<caf::actor> undertakers_;
};

}  // namespace

result<std::unique_ptr<runtime>> runtime::start(std::size_t threads, std::shared_ptr<local_network> local) {
  try {
    return std::unique_ptr<runtime>{std::make_unique<runtime_body>(threads, std::move(local))};
  } catch (const std::exception& problem) {
    return {errc::io_failed, std::string{"actor system: "} + problem.what()};
  }
}

namespace {

/// A process outside of the cluster that asks its orchestrator.
class visitor {
 public:
  explicit visitor(std::string address) : address_(std::move(address)) {}

  /// One that listens and says nothing may be frozen for a moment, and is tried again.
  result<void> connect(std::chrono::milliseconds timeout) {
    const auto where = parse_endpoint(address_);
    if (!where) return where.failure();
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      auto found = system_.middleman().remote_actor<orchestrator_actor>(where->host, where->port);
      if (found) {
        orchestrator_ = *found;
        return {};
      }
      if (found.error() == caf::sec::cannot_connect_to_node)
        return {errc::connection_lost, "orchestrator " + address_ + ": nobody answers there"};
      if (std::chrono::steady_clock::now() > deadline)
        return {errc::connection_lost, "orchestrator " + address_ + ": no answer"};
      pass(drain_poll);
    }
  }

  void pass(std::chrono::milliseconds time) { actors::pass(system_, time); }

  template <class Answer, class... Question>
  result<Answer> ask(std::chrono::milliseconds timeout, const Question&... question) {
    caf::scoped_actor self{system_};
    result<Answer> out{errc::timed_out, "orchestrator " + address_ + ": no answer"};
    self->request(orchestrator_, timeout, question...)
        .receive([&](Answer& answer) { out = std::move(answer); }, [](const caf::error&) {});
    return out;
  }

 private:
  std::string address_;
  held_system held_{1};
  caf::actor_system& system_ = held_.get();
  orchestrator_actor orchestrator_;
};

using nlohmann::json;

/// What the orchestrator says of the cluster; an empty object if that is no status.
result<json> ask_status(visitor& asks, std::chrono::milliseconds timeout) {
  const auto text = asks.ask<std::string>(timeout, status_atom::value);
  if (!text) return text.failure();
  json status = json::parse(*text, nullptr, false);
  return status.is_object() ? std::move(status) : json(json::object());
}

/// Who owns the group; empty if nobody does.
std::string owner_of(const json& status, std::uint64_t group) {
  for (const auto& it : status.value("groups", json::array()))
    if (it.value("group", std::uint64_t{0}) == group) return it.value("owner", "");
  return {};
}

/// Whether the group is to move to the node.
bool is_moving(const json& status, std::uint64_t group, const std::string& node) {
  const auto moves = status.value("moves", json::array());
  return std::any_of(moves.begin(), moves.end(), [&](const auto& it) {
    return it.value("group", std::uint64_t{0}) == group && it.value("to", "") == node;
  });
}

/// The groups of a node, as "1, 2".
std::string groups_of(const json& status, const std::string& node) {
  std::string out;
  for (const auto& group : status.value("groups", json::array()))
    if (group.value("owner", "") == node) out += (out.empty() ? "" : ", ") + group["group"].dump();
  return out;
}

}  // namespace

result<std::string> fetch_status(const std::string& orchestrator, std::chrono::milliseconds timeout) {
  visitor asks{orchestrator};
  if (auto connected = asks.connect(timeout); !connected) return connected.failure();
  return asks.ask<std::string>(timeout, status_atom::value);
}

result<std::uint64_t> move_session(const std::string& orchestrator, const std::string& session,
                                   const std::string& node, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  visitor asks{orchestrator};
  if (auto connected = asks.connect(timeout); !connected) return connected.failure();
  const auto group = asks.ask<std::uint64_t>(timeout, locate_atom::value, session);
  if (!group) return group.failure();
  if (*group == 0) return {errc::unknown_session, "no gateway knows a session \"" + session + "\""};
  const auto ordered = asks.ask<bool>(timeout, move_atom::value, *group, node);
  if (!ordered) return ordered.failure();
  if (!*ordered) return {errc::unavailable, "no node \"" + node + "\" is alive, or it drains"};
  for (;;) {
    const auto status = ask_status(asks, timeout);
    if (!status) return status.failure();
    const std::string owner = owner_of(*status, *group);
    if (owner == node) return *group;
    if (!owner.empty() && !is_moving(*status, *group, node))
      return {errc::conflict, "group " + std::to_string(*group) + " stays with node " + owner +
                                  ": another order took the place of this one, or " + node +
                                  " is lost or drains"};
    if (std::chrono::steady_clock::now() > deadline)
      return {errc::timed_out, "group " + std::to_string(*group) + " is still " +
                                   (owner.empty() ? "nobody's" : "node " + owner + "'s") + ": " + node +
                                   " does not hold all of it yet, or no link leads there"};
    asks.pass(drain_poll);
  }
}

result<void> drain_node(const std::string& orchestrator, const std::string& node, bool on,
                        std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  visitor asks{orchestrator};
  if (auto connected = asks.connect(timeout); !connected) return connected;
  const auto known = asks.ask<bool>(timeout, drain_atom::value, node, on);
  if (!known) return known.failure();
  if (!*known) return {errc::unavailable, "no node \"" + node + "\" is alive"};
  while (on) {
    const auto status = ask_status(asks, timeout);
    if (!status) return status.failure();
    const std::string left = groups_of(*status, node);
    if (left.empty()) break;
    if (std::chrono::steady_clock::now() > deadline)
      return {errc::timed_out, "node " + node + " still owns group " + left +
                                   ": no other node holds all of it, or none is to stay"};
    asks.pass(drain_poll);
  }
  return {};
}

}  // namespace baton::actors
