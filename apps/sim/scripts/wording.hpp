#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sim/tap.hpp"

namespace baton::apps::sim::scripts {

/// The name of a kind of message, as in schemas/*.hpp.
std::string_view kind_of(const any_message& message) noexcept;
/// All such names.
const std::vector<std::string_view>& message_kinds();

/// Messages and records as one line for people: what decides something, and nothing that a change of timing
/// or of a hash would change. Processes and sessions go by their names; a restarted process is `b#2`.
class wording {
 public:
  /// `session_name`: what the client calls a session; nothing if nobody knows it.
  explicit wording(std::function<std::optional<std::string>(session_id)> session_name)
      : session_name_(std::move(session_name)) {}

  /// A process begins. Later ones of that name are numbered.
  void on_start(const process_id& who);

  /// What the message says, without its kind.
  [[nodiscard]] std::string fields(const any_message& message) const;
  [[nodiscard]] std::string name(const process_id& who) const;
  [[nodiscard]] std::string record(const group_record& it) const;

 private:
  [[nodiscard]] std::string name(session_id which) const;
  [[nodiscard]] std::string list(const std::vector<process_id>& all) const;
  [[nodiscard]] std::string piece(const session_piece& it) const;

  [[nodiscard]] std::string say(const node_registration& it) const;
  [[nodiscard]] std::string say(const gateway_registration& it) const;
  [[nodiscard]] std::string say(const heartbeat& it) const;
  [[nodiscard]] std::string say(const heartbeat_ack& it) const;
  [[nodiscard]] std::string say(const cluster_view& it) const;
  [[nodiscard]] std::string say(const in_sync_change& it) const;
  [[nodiscard]] std::string say(const hand_over& it) const;
  [[nodiscard]] std::string say(const in_sync_reply& it) const;
  [[nodiscard]] std::string say(const gateway_hello& it) const;
  [[nodiscard]] std::string say(const open_turn& it) const;
  [[nodiscard]] std::string say(const open_turn_reply& it) const;
  [[nodiscard]] std::string say(const turn_tokens& it) const;
  [[nodiscard]] std::string say(const turn_failure& it) const;
  [[nodiscard]] std::string say(const end_turn& it) const;
  [[nodiscard]] std::string say(const seal& it) const;
  [[nodiscard]] std::string say(const seal_reply& it) const;
  [[nodiscard]] std::string say(const link_hello& it) const;
  [[nodiscard]] std::string say(const link_welcome& it) const;
  [[nodiscard]] std::string say(const link_refusal& it) const;
  [[nodiscard]] std::string say(const records_frame& it) const;
  [[nodiscard]] std::string say(const resync_frame& it) const;
  [[nodiscard]] std::string say(const acks_frame& it) const;
  [[nodiscard]] std::string say(const appointment_frame& it) const;
  [[nodiscard]] std::string say(const delta_descriptor& it) const;

  std::function<std::optional<std::string>(session_id)> session_name_;
  std::map<std::string, std::vector<incarnation>> runs_;  // of each process, in order
};

}  // namespace baton::apps::sim::scripts
