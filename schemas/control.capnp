@0xe94b7c10d2568fa7;
# The control plane: membership, ownership, turns.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("baton::wire");
using Session = import "session.capnp";
using Link = import "link.capnp";

struct Allegiance {
  store @0 :UInt64;
  term @1 :UInt64;
  epoch @2 :UInt64;
}

struct NodeRegistration {
  node @0 :Link.Process;
  controlAddress @1 :Text;
  dataAddress @2 :Text;
  replicateTo @3 :List(Text);
  fingerprint @4 :List(Link.Field);
  capacitySessions @5 :UInt32;
  contextTokens @6 :UInt32;
  fingerprintHash @7 :UInt64;
  obeyed @8 :Allegiance;
}

struct GatewayRegistration {
  gateway @0 :Link.Process;
  unreachable @1 :List(Link.Process);
  obeyed @2 :Allegiance;
}

struct GroupStatus {
  group @0 :UInt64;
  epoch @1 :UInt64;
  owner @2 :Bool;
  sessions @3 :UInt32;
  syncedTokens @4 :UInt64;
  lagTokens @5 :UInt32;
}

struct Heartbeat {
  node @0 :Link.Process;
  sequence @1 :UInt64;
  progress @2 :UInt64;
  busy @3 :Bool;
  viewVersion @4 :UInt64;
  groups @5 :List(GroupStatus);
  figures @6 :Text;
  draining @7 :Bool;
}

struct HeartbeatAck {
  sequence @0 :UInt64;
  term @1 :UInt64;
  known @2 :Bool;
  foreign @3 :Bool;
}

struct GroupRecord {
  group @0 :UInt64;
  epoch @1 :UInt64;
  revision @2 :UInt64;
  owner @3 :Link.Process;
  inSync @4 :List(Link.Process);
}

struct NodeView {
  node @0 :Link.Process;
  controlAddress @1 :Text;
  dataAddress @2 :Text;
  replicateTo @3 :List(Text);
  alive @4 :Bool;
  sessions @5 :UInt32;
  capacitySessions @6 :UInt32;
  contextTokens @7 :UInt32;
  fingerprintHash @8 :UInt64;
  draining @9 :Bool;
}

struct GroupMove {
  group @0 :UInt64;
  epoch @1 :UInt64;
  to @2 :Link.Process;
}

struct ClusterView {
  term @0 :UInt64;
  version @1 :UInt64;
  nodes @2 :List(NodeView);
  gateways @3 :List(Link.Process);
  groups @4 :List(GroupRecord);
  moves @5 :List(GroupMove);
  store @6 :UInt64;
}

struct InSyncChange {
  group @0 :UInt64;
  epoch @1 :UInt64;
  revision @2 :UInt64;
  owner @3 :Link.Process;
  standby @4 :Link.Process;
  add @5 :Bool;
}

struct HandOver {
  group @0 :UInt64;
  epoch @1 :UInt64;
  owner @2 :Link.Process;
  to @3 :Link.Process;
}

struct InSyncReply {
  changed @0 :Bool;
  record @1 :GroupRecord;
}

struct GatewayHello {
  gateway @0 :Link.Process;
}

struct OpenTurn {
  group @0 :UInt64;
  epoch @1 :UInt64;
  history @2 :Session.Piece;
  turn @3 :UInt32;
  gateway @4 :Link.Process;
  restoreFrom @5 :UInt64;  # 0: nowhere
}

struct OpenTurnReply {
  accepted @0 :Bool;
  refusal @1 :UInt16;
  reason @2 :Text;
  have @3 :Session.Point;
  cachedTokens @4 :UInt32;
}

struct TokenReport {
  logprob @0 :Float32;
  alternatives @1 :List(Session.TokenLogprob);
}

struct TurnTokens {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  turn @3 :UInt32;
  first @4 :UInt32;
  chainBefore @5 :UInt64;
  tokens @6 :List(Int32);
  reports @7 :List(TokenReport);
  lagTokens @8 :UInt32;
  last @9 :Bool;
  evaluatedTokens @10 :UInt64;
  recomputedTokens @11 :UInt64;
  cachedTokens @12 :UInt32;
  rows @13 :UInt32;
}

struct TurnFailure {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  turn @3 :UInt32;
  code @4 :UInt16;
  reason @5 :Text;
}

struct EndTurn {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  turn @3 :UInt32;
  keep @4 :UInt32;
}

struct HeldSession {
  session @0 :UInt64;
  logged @1 :Session.Point;
}

struct Seal {
  group @0 :UInt64;
  epoch @1 :UInt64;
  owner @2 :Link.Process;
  held @3 :List(HeldSession);
}

struct SealReply {
  sealed @0 :Bool;
  highest @1 :UInt64;
  turns @2 :List(OpenTurn);
}
