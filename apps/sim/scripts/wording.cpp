#include "apps/sim/scripts/wording.hpp"

#include <algorithm>

namespace baton::apps::sim::scripts {

namespace {

std::string text(std::uint64_t number) {
  return std::to_string(number);
}
std::string under(epoch it) {
  return "e" + text(raw(it));
}
std::string group(group_id it) {
  return "group " + text(raw(it));
}
std::string range(position first, position end) {
  return text(first) + ".." + text(end);
}
std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string all;
  for (const std::string& it : parts)
    all.append(all.empty() ? "" : between).append(it);
  return all;
}

std::string say(const open_record& it) {
  return "open turn " + text(it.turn.number) + " prompt " + range(it.turn.base, it.turn.prompt_end);
}
std::string say(const tokens_record& it) {
  return "tokens " + range(it.first, it.first + static_cast<position>(it.tokens.size()));
}
std::string say(const truncate_record& it) {
  return "truncate to " + text(it.length);
}
std::string say(const close_record& it) {
  return "close turn " + text(it.turn);
}
std::string say(const drop_record&) {
  return "drop";
}

}  // namespace

const std::vector<std::string_view>& message_kinds() {
  static const std::vector<std::string_view> names{"node_registration",
                                                   "gateway_registration",
                                                   "heartbeat",
                                                   "heartbeat_ack",
                                                   "cluster_view",
                                                   "in_sync_change",
                                                   "hand_over",
                                                   "in_sync_reply",
                                                   "gateway_hello",
                                                   "open_turn",
                                                   "open_turn_reply",
                                                   "turn_tokens",
                                                   "turn_failure",
                                                   "end_turn",
                                                   "seal",
                                                   "seal_reply",
                                                   "link_hello",
                                                   "link_welcome",
                                                   "link_refusal",
                                                   "records_frame",
                                                   "resync_frame",
                                                   "acks_frame",
                                                   "appointment_frame",
                                                   "delta_descriptor"};
  BATON_ASSERT(names.size() == std::variant_size_v<any_message>);
  return names;
}

std::string_view kind_of(const any_message& message) noexcept {
  return message_kinds()[message.index()];
}

void wording::on_start(const process_id& who) {
  runs_[who.name].push_back(who.incarnation);
}

std::string wording::fields(const any_message& message) const {
  return std::visit([this](const auto& it) { return say(it); }, message);
}

std::string wording::name(const process_id& who) const {
  if (who.name.empty()) return "nobody";
  const auto known = runs_.find(who.name);
  if (known == runs_.end()) return who.name;
  const auto run = std::find(known->second.begin(), known->second.end(), who.incarnation);
  if (run == known->second.begin()) return who.name;
  return who.name + "#" + text(static_cast<std::uint64_t>(run - known->second.begin()) + 1);
}

std::string wording::name(session_id which) const {
  return session_name_(which).value_or("?");
}

std::string wording::list(const std::vector<process_id>& all) const {
  std::vector<std::string> names;
  for (const process_id& it : all)
    names.push_back(name(it));
  return names.empty() ? "nobody" : joined(names, " ");
}

std::string wording::record(const group_record& it) const {
  return group(it.group) + " " + under(it.epoch) + " owner " + name(it.owner) + ", in sync " +
         list(it.in_sync);
}

std::string wording::piece(const session_piece& it) const {
  return name(it.session) + " " + range(it.first, it.end());
}

// --- membership and ownership ------------------------------------------------------------------------------

std::string wording::say(const node_registration& it) const {
  return name(it.node) + ", links to " + joined(it.replicate_to, " ");
}
std::string wording::say(const gateway_registration& it) const {
  std::string out = name(it.gateway);
  for (const process_id& node : it.unreachable)
    out += ", cannot reach " + name(node);
  return out;
}
std::string wording::say(const heartbeat& it) const {
  std::vector<std::string> groups;
  for (const group_status& one : it.groups)
    groups.push_back(group(one.group) + " " + under(one.epoch) + (one.owner ? " owner" : " standby") +
                     " lag " + text(one.lag_tokens));
  return std::string{it.draining ? "draining, " : ""} + joined(groups, ", ");
}
std::string wording::say(const heartbeat_ack& it) const {
  return it.known ? "known" : "unknown";
}
std::string wording::say(const cluster_view& it) const {
  std::vector<std::string> parts{"term " + text(it.term)};
  std::string nodes = "nodes";
  for (const node_view& one : it.nodes)
    nodes += " " + name(one.node) + (one.alive ? "" : "(dead)") + (one.draining ? "(draining)" : "");
  parts.push_back(nodes);
  std::string gateways = "gateways";
  for (const process_id& one : it.gateways)
    gateways += " " + name(one);
  parts.push_back(gateways);
  for (const group_record& one : it.groups)
    parts.push_back(record(one));
  for (const group_move& one : it.moves)
    parts.push_back("move " + group(one.group) + " " + under(one.epoch) + " to " + name(one.to));
  return joined(parts, "; ");
}
std::string wording::say(const in_sync_change& it) const {
  return group(it.group) + " " + under(it.epoch) + " " + name(it.owner) + (it.add ? " adds " : " removes ") +
         name(it.standby);
}
std::string wording::say(const hand_over& it) const {
  return group(it.group) + " " + under(it.epoch) + " from " + name(it.owner) + " to " + name(it.to);
}
std::string wording::say(const in_sync_reply& it) const {
  return std::string{it.changed ? "changed" : "unchanged"} + ", " + record(it.record);
}

// --- turns -------------------------------------------------------------------------------------------------

std::string wording::say(const gateway_hello& it) const {
  return name(it.gateway);
}
std::string wording::say(const open_turn& it) const {
  std::string all = under(it.epoch) + " " + piece(it.history) + " turn " + text(it.turn);
  if (!it.history.turns.empty()) all += " prompt to " + text(it.history.turns.back().prompt_end);
  return all;
}
std::string wording::say(const open_turn_reply& it) const {
  if (it.accepted) return "accepted";
  return "refused: " + std::string{name_of(it.refusal)} + ", has " + text(it.have.length);
}
std::string wording::say(const turn_tokens& it) const {
  if (it.tokens.empty() && !it.last)
    return under(it.epoch) + " " + name(it.session) + " turn " + text(it.turn) + " rows " + text(it.rows);
  return under(it.epoch) + " " + name(it.session) + " turn " + text(it.turn) + " tokens " +
         range(it.first, it.first + static_cast<position>(it.tokens.size())) + (it.last ? " last" : "");
}
std::string wording::say(const turn_failure& it) const {
  return under(it.epoch) + " " + name(it.session) + " turn " + text(it.turn) + ": " +
         std::string{name_of(it.code)};
}
std::string wording::say(const end_turn& it) const {
  return under(it.epoch) + " " + name(it.session) + " turn " + text(it.turn) + " keep " + text(it.keep);
}
std::string wording::say(const seal& it) const {
  std::string all = group(it.group) + " " + under(it.epoch) + " owner " + name(it.owner);
  for (const held_session& one : it.held)
    all += ", holds " + name(one.session) + " to " + text(one.logged.length);
  return all;
}
std::string wording::say(const seal_reply& it) const {
  std::string all = std::string{it.sealed ? "sealed" : "refused"} + ", highest " + under(it.highest);
  for (const open_turn& one : it.turns)
    all += ", open: " + piece(one.history) + " turn " + text(one.turn);
  return all;
}

// --- links -------------------------------------------------------------------------------------------------

std::string wording::say(const link_hello& it) const {
  return name(it.from) + " to " + name(it.to);
}
std::string wording::say(const link_welcome& it) const {
  return name(it.from) + (it.rows ? "" : ", tokens only");
}
std::string wording::say(const link_refusal& it) const {
  return std::string{name_of(it.code)} + ": " + it.reason;
}
std::string wording::say(const records_frame& it) const {
  std::vector<std::string> sessions;
  for (const session_records& one : it.sessions) {
    std::vector<std::string> records;
    for (const session_record& record : one.records)
      records.push_back(std::visit([](const auto& what) { return scripts::say(what); }, record));
    sessions.push_back(under(one.epoch) + " " + name(one.session) + " " + joined(records, ", "));
  }
  return joined(sessions, "; ");
}
std::string wording::say(const resync_frame& it) const {
  std::string all = under(it.epoch) + " " + name(it.session) + " probes";
  for (const history_point& one : it.probes)
    all += " " + text(one.length);
  return all;
}
std::string wording::say(const appointment_frame& it) const {
  return "group " + text(raw(it.group)) + " " + under(it.epoch);
}
std::string wording::say(const acks_frame& it) const {
  std::vector<std::string> all;
  for (const replica_ack& one : it.acks) {
    std::string ack = under(one.epoch) + " " + name(one.session) + " logged " + text(one.logged) +
                      " synced " + text(one.synced);
    if (one.has_problem)
      ack += ", " + std::string{name_of(one.problem)} +
             (one.about_rows ? ", wants rows from " + text(one.expected) : " in records");
    all.push_back(ack);
  }
  return joined(all, "; ");
}
std::string wording::say(const delta_descriptor& it) const {
  return under(it.epoch) + " " + name(it.session) + " rows " + range(it.first, it.first + it.count);
}

}  // namespace baton::apps::sim::scripts
