#include "schemas/archive.capnp.h"
#include "schemas/codec_session.hpp"

namespace baton::wire {

static void put(Rows::Builder to, const archived_rows& from) {
  to.setObject(to_wire(from.object));
  to.setFirst(from.first);
  to.setCount(from.count);
  to.setStored(from.stored);
  to.setChecksum(from.checksum);
}

static void get(Rows::Reader from, archived_rows& to) {
  to.object = text_of(from.getObject());
  to.first = from.getFirst();
  to.count = from.getCount();
  to.stored = from.getStored();
  to.checksum = from.getChecksum();
  if (to.count == 0 || to.count > to.stored || to.stored > limits::session_tokens)
    throw bad_value{"a count of archived rows out of range"};
}

static void put(Manifest::Builder to, const archive_manifest& from) {
  to.setEpoch(raw(from.epoch));
  to.setFingerprint(from.fingerprint);
  to.setBytesPerToken(from.bytes_per_token);
  put(to.initLog(), from.log);
  put_list(to.initRows(from.rows.size()), from.rows, [](auto one, const auto& rows) { put(one, rows); });
}

static void get(Manifest::Reader from, archive_manifest& to) {
  to.epoch = epoch{from.getEpoch()};
  to.fingerprint = from.getFingerprint();
  to.bytes_per_token = from.getBytesPerToken();
  get(from.getLog(), to.log);
  get_list(from.getRows(), to.rows, [](auto one, auto& rows) { get(one, rows); });
  position next = 0;
  for (const archived_rows& rows : to.rows) {
    if (rows.first != next || rows.count > to.log.end() - next)
      throw bad_value{"archived rows that are not the next ones of their log"};
    next += rows.count;
  }
  if (to.log.first != 0) throw bad_value{"a manifest whose log does not begin at 0"};
}

static void put(ConversationEnd::Builder to, const conversation_end& from) {
  to.setMessagesKey(from.messages_key);
  to.setMessages(from.messages);
  to.setLength(from.length);
}

static void get(ConversationEnd::Reader from, conversation_end& to) {
  to = {from.getMessagesKey(), from.getMessages(), from.getLength()};
}

static void put(Conversation::Builder to, const archived_conversation& from) {
  to.setName(to_wire(from.name));
  to.setFingerprint(from.fingerprint);
  put(to.initLog(), from.log);
  put_list(to.initEnds(from.ends.size()), from.ends, [](auto one, const auto& end) { put(one, end); });
}

static void get(Conversation::Reader from, archived_conversation& to) {
  to.name = text_of(from.getName());
  to.fingerprint = from.getFingerprint();
  get(from.getLog(), to.log);
  get_list(from.getEnds(), to.ends, [](auto one, auto& end) { get(one, end); });
  if (to.log.first != 0) throw bad_value{"a conversation whose log does not begin at 0"};
  for (const conversation_end& end : to.ends)
    if (end.length == 0 || end.length > to.log.end()) throw bad_value{"an end that is not in the log"};
}

}  // namespace baton::wire

namespace baton {
BATON_MESSAGE(archive_manifest, Manifest)
BATON_MESSAGE(archived_conversation, Conversation)
}  // namespace baton
