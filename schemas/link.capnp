@0xd7a0e6b25f184c93;
# What travels on a link between a node and its standby.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("baton::wire");
using Session = import "session.capnp";

struct Process {
  name @0 :Text;
  incarnation @1 :UInt64;
}

struct Field {
  name @0 :Text;
  value @1 :Text;
}

struct Hello {
  from @0 :Process;
  to @1 :Process;
  software @2 :Text;
  fingerprint @3 :List(Field);
}

struct Welcome {
  from @0 :Process;
  rows @1 :Bool;
}

struct Refusal {
  code @0 :UInt16;
  reason @1 :Text;
}

struct SessionRecords {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  records @3 :List(Session.Record);
  sequence @4 :UInt64;
}

struct Resync {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  probes @3 :List(Session.Point);
  sequence @4 :UInt64;
}

struct Ack {
  session @0 :UInt64;
  epoch @1 :UInt64;
  logged @2 :UInt32;
  chain @3 :UInt64;
  synced @4 :UInt32;
  expected @5 :UInt32;
  problem @6 :UInt16;  # 0: none, else an error code
  aboutRows @7 :Bool;
  sequence @8 :UInt64;
}

struct Appointment {
  group @0 :UInt64;
  epoch @1 :UInt64;
}

struct LinkFrame {
  union {
    hello @0 :Hello;
    welcome @1 :Welcome;
    refusal @2 :Refusal;
    records @3 :List(SessionRecords);
    resync @4 :Resync;
    acks @5 :List(Ack);
    appointment @6 :Appointment;
  }
}

struct Delta {
  group @0 :UInt64;
  epoch @1 :UInt64;
  session @2 :UInt64;
  first @3 :UInt32;
  count @4 :UInt32;
  chainBefore @5 :UInt64;
  chainAfter @6 :UInt64;
  fingerprint @7 :UInt64;
  firstRegion @8 :UInt32;
  regions @9 :UInt32;
  codec @10 :UInt8;
  bytes @11 :UInt64;
  checksum @12 :UInt64;
}
