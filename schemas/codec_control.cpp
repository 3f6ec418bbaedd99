#include "schemas/codec_session.hpp"
#include "schemas/control.capnp.h"

namespace baton::wire {

static void put(capnp::List<capnp::Text>::Builder to, const std::vector<std::string>& from) {
  for (unsigned i = 0; i < to.size(); ++i)
    to.set(i, to_wire(from[i]));
}

static void get(capnp::List<capnp::Text>::Reader from, std::vector<std::string>& to) {
  take_memory(from.size(), sizeof(std::string));
  to.clear();
  to.reserve(from.size());
  for (auto text : from)
    to.push_back(text_of(text));
}

static void put(Allegiance::Builder to, const allegiance& from) {
  to.setStore(from.store);
  to.setTerm(from.term);
  to.setEpoch(raw(from.epoch));
}

static void get(Allegiance::Reader from, allegiance& to) {
  to = {from.getStore(), from.getTerm(), epoch{from.getEpoch()}};
}

static void put(NodeRegistration::Builder to, const node_registration& from) {
  put(to.initNode(), from.node);
  to.setControlAddress(to_wire(from.control_address));
  to.setDataAddress(to_wire(from.data_address));
  put(to.initReplicateTo(from.replicate_to.size()), from.replicate_to);
  put(to.initFingerprint(from.fingerprint.size()), from.fingerprint);
  to.setCapacitySessions(from.capacity_sessions);
  to.setContextTokens(from.context_tokens);
  to.setFingerprintHash(from.fingerprint_hash);
  put(to.initObeyed(), from.obeyed);
}

static void get(NodeRegistration::Reader from, node_registration& to) {
  get(from.getNode(), to.node);
  to.control_address = text_of(from.getControlAddress());
  to.data_address = text_of(from.getDataAddress());
  get(from.getReplicateTo(), to.replicate_to);
  get(from.getFingerprint(), to.fingerprint);
  to.capacity_sessions = from.getCapacitySessions();
  to.context_tokens = from.getContextTokens();
  to.fingerprint_hash = from.getFingerprintHash();
  get(from.getObeyed(), to.obeyed);
}

static void put(GatewayRegistration::Builder to, const gateway_registration& from) {
  put(to.initGateway(), from.gateway);
  put_list(to.initUnreachable(from.unreachable.size()), from.unreachable,
           [](auto one, const auto& node) { put(one, node); });
  put(to.initObeyed(), from.obeyed);
}

static void get(GatewayRegistration::Reader from, gateway_registration& to) {
  get(from.getGateway(), to.gateway);
  get_list(from.getUnreachable(), to.unreachable, [](auto one, auto& node) { get(one, node); });
  get(from.getObeyed(), to.obeyed);
}

static void put(GroupStatus::Builder to, const group_status& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setOwner(from.owner);
  to.setSessions(from.sessions);
  to.setSyncedTokens(from.synced_tokens);
  to.setLagTokens(from.lag_tokens);
}

static void get(GroupStatus::Reader from, group_status& to) {
  to = {group_id{from.getGroup()}, epoch{from.getEpoch()}, from.getOwner(),
        from.getSessions(),        from.getSyncedTokens(), from.getLagTokens()};
}

static void put(Heartbeat::Builder to, const heartbeat& from) {
  put(to.initNode(), from.node);
  to.setSequence(from.sequence);
  to.setProgress(from.progress);
  to.setBusy(from.busy);
  to.setViewVersion(from.view_version);
  put_list(to.initGroups(from.groups.size()), from.groups,
           [](auto one, const auto& group) { put(one, group); });
  to.setFigures(to_wire(from.figures));
  to.setDraining(from.draining);
}

static void get(Heartbeat::Reader from, heartbeat& to) {
  get(from.getNode(), to.node);
  to.sequence = from.getSequence();
  to.progress = from.getProgress();
  to.busy = from.getBusy();
  to.view_version = from.getViewVersion();
  get_list(from.getGroups(), to.groups, [](auto one, auto& group) { get(one, group); });
  to.figures = text_of(from.getFigures());
  to.draining = from.getDraining();
}

static void put(HeartbeatAck::Builder to, const heartbeat_ack& from) {
  to.setSequence(from.sequence);
  to.setTerm(from.term);
  to.setKnown(from.known);
  to.setForeign(from.foreign);
}

static void get(HeartbeatAck::Reader from, heartbeat_ack& to) {
  to = {from.getSequence(), from.getTerm(), from.getKnown(), from.getForeign()};
}

static void put(GroupRecord::Builder to, const group_record& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setRevision(from.revision);
  put(to.initOwner(), from.owner);
  put_list(to.initInSync(from.in_sync.size()), from.in_sync,
           [](auto one, const auto& node) { put(one, node); });
}

static void get(GroupRecord::Reader from, group_record& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.revision = from.getRevision();
  get(from.getOwner(), to.owner);
  get_list(from.getInSync(), to.in_sync, [](auto one, auto& node) { get(one, node); });
}

static void put(NodeView::Builder to, const node_view& from) {
  put(to.initNode(), from.node);
  to.setControlAddress(to_wire(from.control_address));
  to.setDataAddress(to_wire(from.data_address));
  put(to.initReplicateTo(from.replicate_to.size()), from.replicate_to);
  to.setAlive(from.alive);
  to.setSessions(from.sessions);
  to.setCapacitySessions(from.capacity_sessions);
  to.setContextTokens(from.context_tokens);
  to.setFingerprintHash(from.fingerprint_hash);
  to.setDraining(from.draining);
}

static void get(NodeView::Reader from, node_view& to) {
  get(from.getNode(), to.node);
  to.control_address = text_of(from.getControlAddress());
  to.data_address = text_of(from.getDataAddress());
  get(from.getReplicateTo(), to.replicate_to);
  to.alive = from.getAlive();
  to.sessions = from.getSessions();
  to.capacity_sessions = from.getCapacitySessions();
  to.context_tokens = from.getContextTokens();
  to.fingerprint_hash = from.getFingerprintHash();
  to.draining = from.getDraining();
}

static void put(GroupMove::Builder to, const group_move& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  put(to.initTo(), from.to);
}

static void get(GroupMove::Reader from, group_move& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  get(from.getTo(), to.to);
}

static void put(ClusterView::Builder to, const cluster_view& from) {
  to.setTerm(from.term);
  to.setVersion(from.version);
  put_list(to.initNodes(from.nodes.size()), from.nodes, [](auto one, const auto& node) { put(one, node); });
  put_list(to.initGateways(from.gateways.size()), from.gateways,
           [](auto one, const auto& it) { put(one, it); });
  put_list(to.initGroups(from.groups.size()), from.groups,
           [](auto one, const auto& group) { put(one, group); });
  put_list(to.initMoves(from.moves.size()), from.moves, [](auto one, const auto& move) { put(one, move); });
  to.setStore(from.store);
}

static void get(ClusterView::Reader from, cluster_view& to) {
  to.term = from.getTerm();
  to.version = from.getVersion();
  get_list(from.getNodes(), to.nodes, [](auto one, auto& node) { get(one, node); });
  get_list(from.getGateways(), to.gateways, [](auto one, auto& it) { get(one, it); });
  get_list(from.getGroups(), to.groups, [](auto one, auto& group) { get(one, group); });
  get_list(from.getMoves(), to.moves, [](auto one, auto& move) { get(one, move); });
  to.store = from.getStore();
}

static void put(InSyncChange::Builder to, const in_sync_change& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setRevision(from.revision);
  put(to.initOwner(), from.owner);
  put(to.initStandby(), from.standby);
  to.setAdd(from.add);
}

static void get(InSyncChange::Reader from, in_sync_change& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.revision = from.getRevision();
  get(from.getOwner(), to.owner);
  get(from.getStandby(), to.standby);
  to.add = from.getAdd();
}

static void put(HandOver::Builder to, const hand_over& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  put(to.initOwner(), from.owner);
  put(to.initTo(), from.to);
}

static void get(HandOver::Reader from, hand_over& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  get(from.getOwner(), to.owner);
  get(from.getTo(), to.to);
}

static void put(InSyncReply::Builder to, const in_sync_reply& from) {
  to.setChanged(from.changed);
  put(to.initRecord(), from.record);
}

static void get(InSyncReply::Reader from, in_sync_reply& to) {
  to.changed = from.getChanged();
  get(from.getRecord(), to.record);
}

static void put(GatewayHello::Builder to, const gateway_hello& from) {
  put(to.initGateway(), from.gateway);
}
static void get(GatewayHello::Reader from, gateway_hello& to) {
  get(from.getGateway(), to.gateway);
}

static void put(OpenTurn::Builder to, const open_turn& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  put(to.initHistory(), from.history);
  to.setTurn(from.turn);
  put(to.initGateway(), from.gateway);
  to.setRestoreFrom(raw(from.restore_from));
}

static void get(OpenTurn::Reader from, open_turn& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  get(from.getHistory(), to.history);
  to.turn = from.getTurn();
  get(from.getGateway(), to.gateway);
  to.restore_from = session_id{from.getRestoreFrom()};
}

static void put(OpenTurnReply::Builder to, const open_turn_reply& from) {
  to.setAccepted(from.accepted);
  to.setRefusal(static_cast<std::uint16_t>(from.refusal));
  to.setReason(to_wire(from.reason));
  put(to.initHave(), from.have);
  to.setCachedTokens(from.cached_tokens);
}

static void get(OpenTurnReply::Reader from, open_turn_reply& to) {
  to.accepted = from.getAccepted();
  to.refusal = code_from_wire(from.getRefusal());
  to.reason = text_of(from.getReason());
  get(from.getHave(), to.have);
  to.cached_tokens = from.getCachedTokens();
}

static void put(TurnTokens::Builder to, const turn_tokens& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  to.setTurn(from.turn);
  to.setFirst(from.first);
  to.setChainBefore(from.chain_before);
  put_plain(to.initTokens(from.tokens.size()), from.tokens);
  put_list(to.initReports(from.reports.size()), from.reports, [](auto one, const auto& report) {
    one.setLogprob(report.logprob);
    put_list(one.initAlternatives(report.alternatives.size()), report.alternatives,
             [](auto inner, const auto& alternative) { put(inner, alternative); });
  });
  to.setLagTokens(from.lag_tokens);
  to.setLast(from.last);
  to.setEvaluatedTokens(from.evaluated_tokens);
  to.setRecomputedTokens(from.recomputed_tokens);
  to.setCachedTokens(from.cached_tokens);
  to.setRows(from.rows);
}

static void get(TurnTokens::Reader from, turn_tokens& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.session = session_id{from.getSession()};
  to.turn = from.getTurn();
  to.first = from.getFirst();
  to.chain_before = from.getChainBefore();
  get_plain(from.getTokens(), to.tokens);
  get_list(from.getReports(), to.reports, [](auto one, auto& report) {
    report.logprob = one.getLogprob();
    get_list(one.getAlternatives(), report.alternatives,
             [](auto inner, auto& alternative) { get(inner, alternative); });
  });
  to.lag_tokens = from.getLagTokens();
  to.last = from.getLast();
  to.evaluated_tokens = from.getEvaluatedTokens();
  to.recomputed_tokens = from.getRecomputedTokens();
  to.cached_tokens = from.getCachedTokens();
  to.rows = from.getRows();
  if (!to.reports.empty() && to.reports.size() != to.tokens.size())
    throw bad_value{"reports do not match tokens"};
}

static void put(TurnFailure::Builder to, const turn_failure& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  to.setTurn(from.turn);
  to.setCode(static_cast<std::uint16_t>(from.code));
  to.setReason(to_wire(from.reason));
}

static void get(TurnFailure::Reader from, turn_failure& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.session = session_id{from.getSession()};
  to.turn = from.getTurn();
  to.code = code_from_wire(from.getCode());
  to.reason = text_of(from.getReason());
}

static void put(EndTurn::Builder to, const end_turn& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  to.setTurn(from.turn);
  to.setKeep(from.keep);
}

static void get(EndTurn::Reader from, end_turn& to) {
  to = {group_id{from.getGroup()}, epoch{from.getEpoch()}, session_id{from.getSession()}, from.getTurn(),
        from.getKeep()};
}

static void put(Seal::Builder to, const seal& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  put(to.initOwner(), from.owner);
  put_list(to.initHeld(from.held.size()), from.held, [](auto one, const auto& held) {
    one.setSession(raw(held.session));
    put(one.initLogged(), held.logged);
  });
}

static void get(Seal::Reader from, seal& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  get(from.getOwner(), to.owner);
  get_list(from.getHeld(), to.held, [](auto one, auto& held) {
    held.session = session_id{one.getSession()};
    get(one.getLogged(), held.logged);
  });
}

static void put(SealReply::Builder to, const seal_reply& from) {
  to.setSealed(from.sealed);
  to.setHighest(raw(from.highest));
  put_list(to.initTurns(from.turns.size()), from.turns, [](auto one, const auto& turn) { put(one, turn); });
}

static void get(SealReply::Reader from, seal_reply& to) {
  to.sealed = from.getSealed();
  to.highest = epoch{from.getHighest()};
  get_list(from.getTurns(), to.turns, [](auto one, auto& turn) { get(one, turn); });
}

}  // namespace baton::wire

namespace baton {
BATON_MESSAGE(node_registration, NodeRegistration)
BATON_MESSAGE(gateway_registration, GatewayRegistration)
BATON_MESSAGE(heartbeat, Heartbeat)
BATON_MESSAGE(heartbeat_ack, HeartbeatAck)
BATON_MESSAGE(group_record, GroupRecord)
BATON_MESSAGE(cluster_view, ClusterView)
BATON_MESSAGE(in_sync_change, InSyncChange)
BATON_MESSAGE(hand_over, HandOver)
BATON_MESSAGE(in_sync_reply, InSyncReply)
BATON_MESSAGE(gateway_hello, GatewayHello)
BATON_MESSAGE(open_turn, OpenTurn)
BATON_MESSAGE(open_turn_reply, OpenTurnReply)
BATON_MESSAGE(turn_tokens, TurnTokens)
BATON_MESSAGE(turn_failure, TurnFailure)
BATON_MESSAGE(end_turn, EndTurn)
BATON_MESSAGE(seal, Seal)
BATON_MESSAGE(seal_reply, SealReply)
}  // namespace baton
