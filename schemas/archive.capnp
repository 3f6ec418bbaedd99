@0xc3b86f1d52e97a04;
# What an object store keeps of conversations, so that they outlive every node and gateway.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("baton::wire");
using Session = import "session.capnp";

struct Rows {
  object @0 :Text;
  first @1 :UInt32;
  count @2 :UInt32;
  stored @3 :UInt32;
  checksum @4 :UInt64;
}

struct Manifest {
  epoch @0 :UInt64;
  fingerprint @1 :UInt64;
  bytesPerToken @2 :UInt64;
  log @3 :Session.Piece;
  rows @4 :List(Rows);
}

struct ConversationEnd {
  messagesKey @0 :UInt64;
  messages @1 :UInt32;
  length @2 :UInt32;
}

struct Conversation {
  name @0 :Text;
  fingerprint @1 :UInt64;
  log @2 :Session.Piece;
  ends @3 :List(ConversationEnd);
}
