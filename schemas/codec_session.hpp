#pragma once

#include "schemas/codec_detail.hpp"
#include "schemas/link.capnp.h"
#include "schemas/session.capnp.h"

/// Parts that several messages share. In the namespace of the generated code, so that argument-dependent
/// lookup finds them.
namespace baton::wire {

using namespace codec_detail;

void put(Turn::Builder to, const turn_header& from);
void get(Turn::Reader from, turn_header& to);
void put(Piece::Builder to, const session_piece& from);
void get(Piece::Reader from, session_piece& to);
void put(Point::Builder to, const history_point& from);
void get(Point::Reader from, history_point& to);
void put(TokenLogprob::Builder to, const token_logprob& from);
void get(TokenLogprob::Reader from, token_logprob& to);
void put(Record::Builder to, const session_record& from);
void get(Record::Reader from, session_record& to);
void put(Process::Builder to, const process_id& from);
void get(Process::Reader from, process_id& to);

using fingerprint_fields = std::vector<std::pair<std::string, std::string>>;
void put(capnp::List<Field>::Builder to, const fingerprint_fields& from);
void get(capnp::List<Field>::Reader from, fingerprint_fields& to);

}  // namespace baton::wire
