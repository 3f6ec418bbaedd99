@0xb1f5c27a9d3e4801;
# What a session is made of. Append ordinals only; see schemas/README.md for the rules of evolution.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("baton::wire");

struct LogitBias {
  token @0 :Int32;
  bias @1 :Float32;
}

struct TokenLogprob {
  token @0 :Int32;
  logprob @1 :Float32;
}

struct Sampling {
  temperature @0 :Float32;
  topK @1 :UInt32;
  topP @2 :Float32;
  minP @3 :Float32;
  repetitionPenalty @4 :Float32;
  frequencyPenalty @5 :Float32;
  presencePenalty @6 :Float32;
  penaltyWindow @7 :UInt32;
  logitBias @8 :List(LogitBias);
  seed @9 :UInt64;
  topLogprobs @10 :UInt32;
  logprobs @11 :Bool;
}

struct Turn {
  number @0 :UInt32;
  base @1 :UInt32;
  promptEnd @2 :UInt32;
  sampling @3 :Sampling;
  maxTokens @4 :UInt32;
  endTokens @5 :List(Int32);
}

struct Piece {
  session @0 :UInt64;
  first @1 :UInt32;
  chainBefore @2 :UInt64;
  turns @3 :List(Turn);
  tokens @4 :List(Int32);
}

struct Point {
  length @0 :UInt32;
  chain @1 :UInt64;
}

struct Tokens {
  first @0 :UInt32;
  chainBefore @1 :UInt64;
  tokens @2 :List(Int32);
}

struct Record {
  union {
    open @0 :Turn;
    tokens @1 :Tokens;
    truncate @2 :Point;
    close @3 :UInt32;  # number of the turn
    drop @4 :Void;
  }
}
