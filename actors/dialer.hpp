#pragma once

#include <utility>

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "schemas/errors.hpp"
#include "schemas/limits.hpp"

namespace baton::actors {

/// A host and a port, as written "127.0.0.1:8080".
struct endpoint {
  std::string host;
  std::uint16_t port = 0;
};

inline result<endpoint> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  if (colon != std::string_view::npos && colon > 0) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (code == std::errc{} && end == digits.data() + digits.size() && !digits.empty())
      return endpoint{std::string{text.substr(0, colon)}, port};
  }
  return {errc::invalid_argument, "address \"" + std::string{text} + "\": expected HOST:PORT"};
}

/// The control network between actor systems. Production: CAF's middleman over TCP. A test that runs many
/// nodes in one actor system gives all of them one `local_directory`, and names are looked up there instead
/// ("local:NAME").
class local_directory {
 public:
  void publish(const std::string& name, caf::strong_actor_ptr who) {
    const std::lock_guard lock{guard_};
    known_[name] = std::move(who);
  }
  void retract(const std::string& name) {
    const std::lock_guard lock{guard_};
    known_.erase(name);
  }
  [[nodiscard]] caf::strong_actor_ptr find(const std::string& name) const {
    const std::lock_guard lock{guard_};
    const auto found = known_.find(name);
    return found == known_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex guard_;
  std::map<std::string, caf::strong_actor_ptr> known_;
};

using directory_ptr = std::shared_ptr<local_directory>;
inline constexpr std::string_view local_prefix = "local:";

/// Makes `actor` reachable; returns the address that others dial.
template <class Handle>
result<std::string> publish(caf::actor_system& system, const directory_ptr& local, const Handle& actor,
                            const std::string& address) {
  if (address.starts_with(local_prefix)) {
    local->publish(address, caf::actor_cast<caf::strong_actor_ptr>(actor));
    return address;
  }
  auto where = parse_endpoint(address);
  if (!where) return where.failure();
  auto port = system.middleman().publish(actor, where->port, where->host.c_str(), true);
  if (!port)
    return {errc::io_failed, "cannot listen on " + address + ": the port is taken, or not ours to take"};
  return where->host + ":" + std::to_string(*port);
}

/// An actor that makes one connection, in a thread of its own, and is to be killed afterwards. CAF's own
/// middleman connects to one address at a time and waits for as long as the kernel tries: two minutes for a
/// machine that has vanished, in which no other connection of the process would come about.
caf::io::middleman_actor begin_dial(caf::actor_system& system);

/// Connects without blocking: exactly one of the two callbacks runs, in the actor's own context, within
/// `limits::connect_deadline` and `limits::request_timeout` together.
template <class Handle, class Self>
void dial(Self* self, const directory_ptr& local, const std::string& address,
          const std::function<void(Handle)>& found, const std::function<void(error)>& failed) {
  if (address.starts_with(local_prefix)) {
    auto known = local == nullptr ? nullptr : local->find(address);
    if (known != nullptr)
      found(caf::actor_cast<Handle>(known));
    else
      failed({errc::connection_lost, "nobody at " + address});
    return;
  }
  const auto where = parse_endpoint(address);
  if (!where) {
    failed(where.failure());
    return;
  }
  const auto dialing = begin_dial(self->system());
  const auto done = [dialing] { caf::anon_send_exit(dialing, caf::exit_reason::kill); };
  self->request(dialing, limits::connect_deadline + limits::request_timeout, caf::connect_atom::value,
                where->host, where->port)
      .then(
          [self, address, found, failed, done](const caf::node_id&, caf::strong_actor_ptr& who,
                                               const std::set<std::string>& offered) {
            done();
            if (who == nullptr ||
                !self->system().assignable(offered, self->system().template message_types<Handle>()))
              failed({errc::invalid_argument, "another kind of process listens at " + address});
            else
              found(caf::actor_cast<Handle>(std::move(who)));
          },
          [self, address, failed, done](const caf::error& why) {
            done();
            failed({errc::connection_lost, address + ": " + self->system().render(why)});
          });
}

}  // namespace baton::actors
