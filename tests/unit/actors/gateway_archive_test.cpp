#include "actors/gateway_archive.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/archive/objects.hpp"
#include "tests/unit/actors/gateway_bench.hpp"

namespace baton::test {

namespace {

using actors::archive::conversation_key;
using messages = std::vector<actors::engines::chat_message>;

constexpr std::string_view anew = "ask a 0+";
const messages first_turn{{"user", "hi"}};
const messages second_turn{{"user", "hi"}, {"assistant", "yo"}, {"user", "so?"}};

/// A gateway with an archive, all nodes known.
struct archive_bench : gateway_bench {
  explicit archive_bench(std::uint64_t of = 42) : gateway_bench(true, of) { join(); }

  std::string send(const actors::completion_request& request, actors::turn_handle handle) {
    return note(core.on_submit(
        handle, request, [this](const actors::turn_event& event) { see(event); }, now));
  }

  std::string chat(const messages& said, actors::turn_handle handle = actors::turn_handle{1}) {
    actors::completion_request request;
    request.messages = said;
    return send(request, handle);
  }

  std::string recalled(const std::optional<archived_conversation>& found) {
    return note(core.on_recalled(recalling.ticket, found, now));
  }

  /// The owner has nothing of the session.
  std::string lack() {
    open_turn_reply reply;
    reply.refusal = errc::gap;
    reply.have = actors::protocol::session_log{asked.history.session, 77}.point();
    return note(core.on_open_reply(ticket, reply, now));
  }

  /// The owner has taken the turn, and answers it.
  std::string answer(std::string_view text) {
    REQUIRE(accept().empty());
    return end(text);
  }

  std::string end(std::string_view text, epoch under = epoch{5}, std::uint32_t cached = 0) {
    const position from = owner.length();
    generate(text);
    REQUIRE(owner.append(std::vector<token_id>{actors::engines::toy::turn_end}).ok());
    turn_tokens last = from_owner(from, under);
    last.last = true;
    last.cached_tokens = cached;
    return hear(last);
  }

  /// The first turn of the session "s", as it is kept.
  archived_conversation named() {
    REQUIRE(submit("hi") == "recall 1");
    REQUIRE(recalled({}) == "ask a 0+2");
    REQUIRE(answer("yo") == "keep 5");
    return kept.what;
  }

  /// The first turn of a chat, as it is kept.
  archived_conversation unnamed() {
    REQUIRE(chat(first_turn) == "ask a 0+21");
    REQUIRE(answer("yo") == "keep 24");
    return kept.what;
  }
};

archived_conversation named_before() {
  return archive_bench{}.named();
}

archived_conversation unnamed_before() {
  return archive_bench{}.unnamed();
}

}  // namespace

TEST_CASE("gateway_archive: a named session is kept after each turn that finishes") {
  archive_bench it;
  const archived_conversation what = it.named();
  CHECK(it.kept.keys == std::vector{conversation_key("s")});
  CHECK(it.kept.obsolete.empty());
  CHECK(what.name == "s");
  CHECK(what.fingerprint == 77);
  CHECK(what.log == it.owner.piece_from(0));
  CHECK(what.ends.empty());
  CHECK(it.submit("hiyo, and") == "ask a 4+5");  // known here
  SECTION("again") {
    CHECK(it.answer("!") == "keep 11");
    CHECK(it.kept.keys == std::vector{conversation_key("s")});
    CHECK(it.kept.obsolete.empty());
    CHECK(it.core.counted().kept == 2);
    return;
  }
  SECTION("not after one that its client leaves") {
    CHECK(text(it.core.on_cancel(actors::turn_handle{1}, it.now)) == "tell a keep 9");
  }
  SECTION("nor one that fails") {
    CHECK(text(it.core.on_failure({group, epoch{5}, it.owner.session(), 2, errc::engine_failed, "no"},
                                  it.now)) == "failed engine_failed; tell a keep 9");
  }
  CHECK(it.core.counted().kept == 1);
}

TEST_CASE("gateway_archive: a chat without a name is kept under the messages that it ends with") {
  archive_bench it;
  const archived_conversation what = it.unnamed();
  REQUIRE(what.ends.size() == 1);
  CHECK(what.name.empty());
  CHECK(what.ends[0].messages == 2);
  CHECK(what.ends[0].length == 24);
  CHECK(it.kept.keys == std::vector{conversation_key(what.ends[0].messages_key)});
  CHECK(it.kept.obsolete.empty());
  const auto first_keys = it.kept.keys;
  REQUIRE(it.chat(second_turn) == "ask a 24+23");  // known here
  SECTION("and no longer under the earlier ones") {
    CHECK(it.answer("no") == "keep 50");
    const auto second_keys = it.kept.keys;
    CHECK(second_keys != first_keys);
    CHECK(it.kept.obsolete == first_keys);
    // The same answer once more is the same conversation.
    CHECK(it.chat(second_turn) == "ask a 24+23");
    CHECK(it.answer("no") == "keep 50");
    CHECK(it.kept.keys == second_keys);
    CHECK(it.kept.obsolete.empty());
  }
  SECTION("what another conversation is kept under meanwhile stays") {
    const auto owner = it.owner;
    CHECK(it.chat(first_turn, actors::turn_handle{2}) == "ask a 0+21");
    CHECK(it.answer("yo") == "keep 24");
    CHECK(it.kept.keys == first_keys);
    it.owner = owner;
    CHECK(it.end("no") == "keep 50");
    CHECK(it.kept.obsolete.empty());
  }
}

TEST_CASE("gateway_archive: what nobody can come back to is not kept") {
  archive_bench it;
  CHECK(it.submit("hi", actors::turn_handle{1}, "") == "ask a 0+2");
  CHECK(it.answer("yo").empty());
  CHECK(it.core.counted().finished == 1);
  CHECK(it.core.counted().kept == 0);
}

TEST_CASE("gateway_archive: a session goes on by its name, under an id of its own") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  CHECK(it.submit("hiyo, and") == "recall 1");
  CHECK(it.recalling.keys == std::vector{conversation_key("s")});
  CHECK(it.core.sessions() == 0);
  CHECK(it.core.recalling() == 1);
  CHECK(it.recalled(before) == "ask a 4+5");
  CHECK(it.core.recalling() == 0);
  CHECK(it.core.counted().recalled == 1);
  const session_id session = it.asked.history.session;
  CHECK(session != before.log.session);
  CHECK(it.asked.restore_from == before.log.session);
  CHECK(it.asked.turn == 2);
  // The owner is given all of it, in the turns that it was made in.
  CHECK(it.lack() == "ask a 0+9");
  CHECK(it.asked.restore_from == before.log.session);
  REQUIRE(it.owner.turns().size() == 2);
  CHECK(it.owner.turns()[0] == before.log.turns[0]);
  REQUIRE(it.accept().empty());
  SECTION("a new owner is told as well") {
    const seal_reply reply = it.core.on_seal({group, epoch{6}, node_b, {}}, it.now);
    REQUIRE(reply.turns.size() == 1);
    CHECK(reply.turns[0].restore_from == before.log.session);
  }
  SECTION("it is kept as what it is now") {
    CHECK(it.end("!") == "keep 11");
    CHECK(it.kept.what.log.session == session);
    CHECK(it.kept.keys == std::vector{conversation_key("s")});
  }
}

TEST_CASE("gateway_archive: a chat goes on by its messages") {
  const archived_conversation before = unnamed_before();
  archive_bench it{43};
  CHECK(it.chat(second_turn) == "recall 1");
  const std::vector keys{conversation_key(before.ends[0].messages_key)};
  CHECK(it.recalling.keys == keys);
  CHECK(it.recalled(before) == "ask a 24+23");
  CHECK(it.asked.restore_from == before.log.session);
  CHECK(it.lack() == "ask a 0+47");
  CHECK(it.answer("no") == "keep 50");
  CHECK(it.kept.what.ends.size() == 2);
  CHECK(it.kept.obsolete == keys);
}

TEST_CASE("gateway_archive: a few ends of the messages are looked for, the longest first") {
  const archived_conversation before = unnamed_before();
  archive_bench it{43};
  messages said = second_turn;
  for (int i = 0; i < 3; ++i) {
    said.push_back({"assistant", "no"});
    said.push_back({"user", "why?"});
  }
  CHECK(it.chat(said) == "recall 4");
  const std::string shortest = conversation_key(before.ends[0].messages_key);
  CHECK(it.recalling.keys.back() == shortest);
  said.insert(said.end(), {{"assistant", "well"}, {"user", "yes?"}});
  CHECK(it.chat(said, actors::turn_handle{2}) == "recall 4");
  CHECK(std::count(it.recalling.keys.begin(), it.recalling.keys.end(), shortest) == 0);
}

TEST_CASE("gateway_archive: a conversation that is not the request's, or no use, begins anew") {
  archive_bench it{43};
  SECTION("of another engine") {
    archived_conversation found = named_before();
    found.fingerprint = 78;
    REQUIRE(it.submit("hiyo, and") == "recall 1");
    CHECK(it.recalled(found).starts_with(anew));
  }
  SECTION("of another name with the same hash") {
    archived_conversation found = named_before();
    found.name = "t";
    REQUIRE(it.submit("hiyo, and") == "recall 1");
    CHECK(it.recalled(found).starts_with(anew));
    CHECK(it.core.find_session("t") == nullptr);
  }
  SECTION("with other messages") {
    archived_conversation found = unnamed_before();
    ++found.ends[0].messages_key;
    REQUIRE(it.chat(second_turn) == "recall 1");
    CHECK(it.recalled(found).starts_with(anew));
  }
  SECTION("with an end that it does not have") {
    archived_conversation found = unnamed_before();
    ++found.ends[0].length;
    REQUIRE(it.chat(second_turn) == "recall 1");
    CHECK(it.recalled(found).starts_with(anew));
  }
  SECTION("without its turns") {
    archived_conversation found = named_before();
    found.log.turns.clear();
    REQUIRE(it.submit("hiyo, and") == "recall 1");
    CHECK(it.recalled(found).starts_with(anew));
  }
  SECTION("not there") {
    REQUIRE(it.submit("hiyo, and") == "recall 1");
    CHECK(it.recalled({}).starts_with(anew));
  }
  CHECK(it.asked.restore_from == session_id{});
  CHECK(it.core.sessions() == 1);
  CHECK(it.core.counted().recalled == 0);
}

TEST_CASE("gateway_archive: no node can take what was recalled") {
  const archived_conversation before = named_before();
  gateway_bench it(true, 43);
  REQUIRE(it.submit("hiyo, and") == "recall 1");
  CHECK(it.core.on_recalled(it.recalling.ticket, before, it.now).empty());
  CHECK(it.shown == "[unavailable]");
  CHECK(it.core.sessions() == 0);
}

TEST_CASE("gateway_archive: a client leaves while its conversation is looked for") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  REQUIRE(it.submit("hiyo, and") == "recall 1");
  CHECK(it.core.on_cancel(actors::turn_handle{1}, it.now).empty());
  CHECK(it.core.recalling() == 0);
  CHECK(it.recalled(before).empty());
  CHECK(it.tick(6s).empty());
  CHECK(it.shown.empty());
  CHECK(it.core.sessions() == 0);
}

TEST_CASE("gateway_archive: a request with an idempotency key is recalled for, once") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  actors::completion_request request;
  request.session = "s";
  request.prompt_text = "hiyo, and";
  request.idempotency_key = "key";
  REQUIRE(it.send(request, actors::turn_handle{1}) == "recall 1");
  CHECK(it.send(request, actors::turn_handle{2}).empty());
  SECTION("the one that stays gets the answer") {
    CHECK(it.core.on_cancel(actors::turn_handle{1}, it.now).empty());
    CHECK(it.recalled(before) == "ask a 4+5");
    CHECK(it.lack() == "ask a 0+9");
    CHECK(it.answer("!") == "keep 11");
    CHECK(it.shown == "[started]![stop]");
  }
  SECTION("it goes on for a while without any") {
    CHECK(it.core.on_cancel(actors::turn_handle{1}, it.now).empty());
    CHECK(it.core.on_cancel(actors::turn_handle{2}, it.now).empty());
    CHECK(it.core.recalling() == 1);
    CHECK(it.recalled(before) == "ask a 4+5");
  }
}

TEST_CASE("gateway_archive: two requests of one name at once are one session") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  REQUIRE(it.submit("hiyo, and", actors::turn_handle{1}) == "recall 1");
  const std::uint64_t first = it.recalling.ticket;
  REQUIRE(it.submit("hiyo, or", actors::turn_handle{2}) == "recall 1");
  CHECK(it.note(it.core.on_recalled(first, before, it.now)) == "ask a 4+5");
  const session_id session = it.asked.history.session;
  SECTION("the second one finds it busy") {
    CHECK(it.recalled(before).empty());
    CHECK(it.shown == "[conflict]");
  }
  SECTION("the second one goes on where the first one has ended") {
    REQUIRE(it.lack() == "ask a 0+9");
    REQUIRE(it.answer("!") == "keep 11");
    CHECK(it.recalled(before) == "ask a 6+2");
    CHECK(it.asked.history.session == session);
  }
  CHECK(it.core.sessions() == 1);
  CHECK(it.core.counted().recalled == 1);
}

TEST_CASE("gateway_archive: who gets no answer in time begins anew") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  REQUIRE(it.submit("hiyo, and") == "recall 1");
  CHECK(it.tick(4999ms).empty());
  CHECK(it.tick(1ms) == "ask a 0+9");
  CHECK(it.recalled(before).empty());
  CHECK(it.core.sessions() == 1);
  CHECK(it.core.counted().recalled == 0);
}

TEST_CASE("gateway_archive: so many wait, and no more") {
  archive_bench it;
  std::uint64_t handle = 0;
  for (std::size_t i = 0; i < limits::recalls_waiting; ++i) {
    ++handle;
    REQUIRE(it.submit("hi", actors::turn_handle{handle}, std::to_string(handle).c_str()) == "recall 1");
  }
  CHECK(it.submit("hi", actors::turn_handle{handle + 1}, "one more") == "ask a 0+2");
  CHECK(it.recalled({}) == "ask a 0+2");
  CHECK(it.submit("hi", actors::turn_handle{handle + 2}, "and one more") == "recall 1");
}

TEST_CASE("gateway_archive: without one nothing is kept or looked for") {
  gateway_bench it;
  it.begin();
  it.generate("yo");
  turn_tokens last = it.from_owner(2);
  last.last = true;
  CHECK(it.hear(last).empty());
  CHECK(it.shown == "[started]yo[length]");
  CHECK(it.submit("hi", actors::turn_handle{2}, "t") == "ask a 0+2");
  CHECK(it.asked.restore_from == session_id{});
}

TEST_CASE("gateway_archive: rows that the owner has restored count as cached") {
  const archived_conversation before = named_before();
  archive_bench it{43};
  REQUIRE(it.submit("hiyo, and") == "recall 1");
  REQUIRE(it.recalled(before) == "ask a 4+5");
  REQUIRE(it.lack() == "ask a 0+9");
  REQUIRE(it.accept().empty());
  SECTION("if it says so with the first tokens") {
    it.generate("!");
    turn_tokens first = it.from_owner(9);
    first.cached_tokens = 4;
    REQUIRE(it.hear(first).empty());
    REQUIRE(it.end("!", epoch{5}, 7) == "keep 12");
    CHECK(it.finished.cached_tokens == 4);
  }
  SECTION("but not what a later owner says") {
    REQUIRE(it.core.on_seal({group, epoch{6}, node_b, {}}, it.now).turns.size() == 1);
    REQUIRE(it.end("!", epoch{6}, 4) == "keep 11");
    CHECK(it.finished.cached_tokens == 0);
    CHECK(it.finished.failovers == 1);
  }
}

TEST_CASE("gateway_archive: what nobody restores is cached as the owner said at the start") {
  archive_bench it;
  REQUIRE(it.submit("hi") == "recall 1");
  REQUIRE(it.recalled({}) == "ask a 0+2");
  REQUIRE(it.accept().empty());
  REQUIRE(it.end("yo", epoch{5}, 1) == "keep 5");
  CHECK(it.finished.cached_tokens == 0);
}

}  // namespace baton::test
