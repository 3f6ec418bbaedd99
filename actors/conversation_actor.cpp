#include "actors/conversation_actor.hpp"

#include <string>

#include "actors/archive/objects.hpp"
#include "schemas/codec.hpp"
#include "schemas/log.hpp"

namespace baton::actors {

namespace {

using transports::stores::object_store;

spdlog::logger& log() {
  static const auto logger = log_of("conversation");
  return *logger;
}

struct conversation_state {
  std::unique_ptr<object_store> store;
  bool failing = false;  // and the log says so

  recalled_conversation recall(const recall_conversation& order) {
    for (const std::string& key : order.keys) {
      auto found = archive::read_message<archived_conversation>(*store, key);
      if (found) return {std::move(*found)};
      if (found.code() == errc::io_failed)
        note_failure(found.failure());
      else if (found.code() != errc::not_found)
        log().warn("conversation not read object={} reason=\"{}\"", key, found.failure().what);
    }
    return {};
  }

  bool keep(const keep_conversation& order) {
    const auto written = write(order);
    if (!written)
      note_failure(written.failure());
    else if (std::exchange(failing, false))
      log().info("object store works again store={}", store->where());
    return written.ok();
  }

  void note_failure(const error& why) {
    if (std::exchange(failing, true)) return;
    log().error("object store failed store={} reason=\"{}\"", store->where(), why.what);
  }

  result<void> write(const keep_conversation& order) {
    const auto message = encode(order.what);
    if (message.size() > most_bytes<archived_conversation>)
      return {errc::no_room, "a conversation of " + std::to_string(message.size()) + " bytes"};
    const auto object = archive::sealed(message);
    for (const std::string& key : order.keys)
      if (auto put = store->put(key, object); !put) return put;
    for (const std::string& key : order.obsolete)
      if (auto removed = store->remove(key); !removed) return removed;
    return {};
  }
};

conversation_actor::behavior_type conversation_behavior(
    conversation_actor::stateful_pointer<conversation_state> self,
    const std::shared_ptr<std::unique_ptr<object_store>>& store) {
  self->state.store = std::move(*store);
  return {[self](const recall_conversation& order) { return self->state.recall(order); },
          [self](const keep_conversation& order) { return self->state.keep(order); }};
}

}  // namespace

conversation_actor spawn_conversation_actor(caf::actor_system& system, std::unique_ptr<object_store> store) {
  return system.spawn<caf::detached>(conversation_behavior,
                                     std::make_shared<std::unique_ptr<object_store>>(std::move(store)));
}

}  // namespace baton::actors
