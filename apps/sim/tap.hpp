#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "schemas/codec.hpp"

namespace baton::apps::sim {

/// Every kind of message between processes: of the control plane, of links, and the descriptor before rows.
using any_message =
    std::variant<node_registration, gateway_registration, heartbeat, heartbeat_ack, cluster_view,
                 in_sync_change, hand_over, in_sync_reply, gateway_hello, open_turn, open_turn_reply,
                 turn_tokens, turn_failure, end_turn, seal, seal_reply, link_hello, link_welcome,
                 link_refusal, records_frame, resync_frame, acks_frame, appointment_frame, delta_descriptor>;

/// What a frame carries, for whoever watches: its bytes, and how they are read. Empty if there is nothing to
/// see, as with the end of a stream.
struct contents {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::optional<any_message> (*read)(const std::vector<std::byte>& bytes) = nullptr;
};

/// Bytes that are a `Message`.
template <class Message>
contents contents_of(std::shared_ptr<const std::vector<std::byte>> bytes) {
  return {std::move(bytes), [](const std::vector<std::byte>& from) -> std::optional<any_message> {
            auto read = decode<Message>(from);
            if (!read) return std::nullopt;
            if constexpr (std::is_same_v<Message, link_frame>)
              return std::visit([](auto& frame) { return any_message{std::move(frame)}; }, *read);
            else
              return any_message{std::move(*read)};
          }};
}

/// Stands between the network and those who receive, and decides what becomes of each message.
class tap {
 public:
  virtual ~tap() = default;
  /// The message is about to be received by the process `to`. Returns how many times it is handed over now;
  /// 0: it is lost, or comes when `later` is called, if the connection still stands then.
  virtual int on_arrival(const std::string& from, const std::string& to, const any_message& what,
                         const std::function<void()>& later) = 0;
};

}  // namespace baton::apps::sim
