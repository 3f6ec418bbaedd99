#pragma once

#include "actors/protocol/primary_table.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "tests/unit/protocol/support.hpp"

/// A primary table on a bench: steps in, effects out as text.
namespace baton::test {

using namespace actors::protocol;
using std::chrono::milliseconds;

constexpr group_id group{1};
constexpr session_id session{7};
const process_id self{"a", incarnation{1}};
const process_id standby_b{"b", incarnation{1}};
const process_id standby_c{"c", incarnation{1}};
const process_id edge{"edge", incarnation{1}};

inline std::string number(std::uint64_t value) {
  return std::to_string(value);
}

inline std::string describe(const session_record& record) {
  if (const auto* open = std::get_if<open_record>(&record))
    return "turn" + number(open->turn.number) + "@" + number(open->turn.base);
  if (const auto* added = std::get_if<tokens_record>(&record))
    return number(added->first) + "+" + number(added->tokens.size());
  if (const auto* cut = std::get_if<truncate_record>(&record)) return "cut" + number(cut->length);
  return std::holds_alternative<close_record>(record) ? "close" : "drop";
}

/// One effect in a word or two, so that a whole answer is one line to compare.
struct describer {
  std::string operator()(const take_replicas& it) const { return "take e" + number(raw(it.epoch)); }
  std::string operator()(const return_replicas& it) const { return "return " + number(it.sessions.size()); }
  std::string operator()(const seal_gateway& it) const {
    return "seal " + it.gateway.name + " held " + number(it.order.held.size());
  }
  std::string operator()(const reply_open& it) const {
    return it.reply.accepted ? "accept cached " + number(it.reply.cached_tokens)
                             : "refuse " + std::string{name_of(it.reply.refusal)};
  }
  std::string operator()(const emit_tokens& it) const {
    if (it.tokens.tokens.empty() && !it.tokens.last) return "sign " + number(it.tokens.rows);
    return "emit " + number(it.tokens.first) + "+" + number(it.tokens.tokens.size()) +
           (it.tokens.last ? " last" : "");
  }
  std::string operator()(const emit_failure& it) const {
    return "fail " + std::string{name_of(it.failure.code)};
  }
  std::string operator()(const ask_in_sync& it) const {
    return std::string{it.change.add ? "add " : "remove "} + it.change.standby.name + " r" +
           number(it.change.revision);
  }
  std::string operator()(const ask_hand_over& it) const { return "hand over to " + it.change.to.name; }
  std::string operator()(const appoint& it) const {
    return "appoint " + it.standby + " e" + number(raw(it.what.epoch));
  }
  std::string operator()(const begin_replication& it) const {
    return "begin " + number(it.log.length()) + " rows " + number(it.rows) + to(it.standbys);
  }
  std::string operator()(const begin_archiving& it) const { return "archive: " + (*this)(it.what); }
  std::string operator()(const replicate_records& it) const {
    std::string out = "say";
    for (const session_records& one : it.step)
      for (const session_record& record : one.records)
        out += " " + describe(record);
    return out;
  }
  std::string operator()(const end_replication& it) const {
    return (it.drop ? "end drop" : "end") + to(it.standbys);
  }
  static std::string to(const std::vector<std::string>& standbys) {
    std::string out;
    for (const std::string& name : standbys)
      out += (out.empty() ? " to " : " ") + name;
    return out;
  }
  std::string operator()(const cut_engine& it) const { return "cut " + number(it.rows); }
  std::string operator()(const restore_rows& it) const { return "restore from " + number(raw(it.from)); }
  std::string operator()(const run_engine& it) const {
    return "run " + number(it.tokens.size()) + " from " + number(it.rows);
  }
  std::string operator()(const allow_engine&) const { return "allow"; }
  std::string operator()(const stop_engine&) const { return "stop"; }
  std::string operator()(const pause_engine&) const { return "pause"; }
  std::string operator()(const drop_engine&) const { return "drop engine"; }
};

inline std::string text(const primary_effects& effects) {
  std::string out;
  for (const primary_effect& effect : effects)
    out += (out.empty() ? "" : "; ") + std::visit(describer{}, effect);
  return out;
}

inline primary_table::options usual(commit_rule::mode mode = commit_rule::mode::semi_sync) {
  primary_table::options how;
  how.self = self;
  how.fingerprint = fingerprint;
  how.prefill_chunk = 4;
  how.context_tokens = 100;
  how.sessions = 2;
  how.places = std::make_shared<engine_places>(6, 2);
  how.commit = {mode, 1};
  return how;
}

/// A node that owns the group, with one turn of 10 prompt tokens; drives the table as the actors do.
struct bench {
  primary_table::options how;
  primary_table table;
  group_record record{group, baton::epoch{5}, 5, self, {}};
  std::uint64_t version = 0;
  time_point now{milliseconds{100'000}};
  run_number run = 0;
  session_log log = log_of(10, 0);  // as the gateway has it
  std::map<std::string, std::uint64_t> cuts{};

  explicit bench(commit_rule::mode mode = commit_rule::mode::semi_sync, std::size_t replicas = 0)
      : how(usual(mode)), table((how.replicas = replicas, how)) {}

  cluster_view view() {
    cluster_view out;
    out.term = 1;
    out.version = ++version;
    out.gateways.push_back(edge);
    out.groups.push_back(record);
    return out;
  }
  std::string see() { return text(note(table.on_view(view(), now))); }
  /// Owns the group, with nothing in it.
  void own() {
    REQUIRE(see() == "take e5");
    REQUIRE(text(table.on_replicas(group, record.epoch, std::vector<held_replica>{}, now)) ==
            "seal edge held 0");
    seal_reply sealed;
    sealed.sealed = true;
    REQUIRE(table.on_seal_reply(edge, group, record.epoch, sealed, now).empty());
  }
  primary_effects note(primary_effects effects) {
    for (const primary_effect& effect : effects)
      if (const auto* it = std::get_if<run_engine>(&effect)) run = it->run;
    return effects;
  }
  open_turn opening(const session_piece& piece, turn_number turn) const {
    return {group, record.epoch, piece, turn, edge};
  }
  std::string open(const session_piece& piece, turn_number turn, bool lease = true) {
    return text(note(table.on_open_turn(1, opening(piece, turn), lease, now)));
  }
  std::string open() { return open(log.piece_from(0), log.last_turn()->number); }
  /// The engine has sampled the next token.
  std::string step(bool finished = false, bool lease = true) {
    engine_step it;
    it.session = session;
    it.run = run;
    it.rows = at;
    it.has_token = true;
    it.at = at;
    it.token = static_cast<token_id>(at);
    it.finished = finished;
    ++at;
    return text(table.on_step(it, lease, now));
  }
  /// The engine has ended the run as it was told, with rows for all but the last token.
  std::string paused() {
    engine_step it;
    it.session = session;
    it.run = run;
    it.rows = at - 1;
    it.paused = true;
    return text(table.on_step(it, true, now));
  }
  /// The orchestrator wants the group to move; to nobody if the name is empty.
  std::string want_move(const process_id& to) {
    cluster_view wanted = view();
    if (!to.name.empty()) wanted.moves.push_back({group, record.epoch, to});
    return text(note(table.on_view(wanted, now)));
  }
  position at = 10;
  /// A standby holds this much of the history [0, at) = prompt, then tokens that are their positions.
  std::string progress(const process_id& who, position logged, position synced = 0, bool lease = true,
                       std::uint64_t after_cuts = 0) {
    standby_progress it{session, record.epoch, logged, synced, 0, after_cuts};
    session_log history = log;
    while (history.length() < logged)
      REQUIRE(history.append(std::vector<token_id>{static_cast<token_id>(history.length())}));
    it.chain = history.chain_at(logged);
    return text(table.on_progress(who.name, it, lease, now));
  }
  std::string link_up(const process_id& who) { return text(table.on_link_up(who.name, who, now)); }
  std::string swapped(const std::vector<process_id>& in_sync) {
    record.in_sync = in_sync;
    ++record.revision;
    return text(table.on_in_sync_reply(group, in_sync_reply{true, record}, now));
  }
  /// With b in sync from the begin.
  void own_with_b() {
    own();
    REQUIRE(link_up(standby_b) == "add b r5");
    REQUIRE(swapped({standby_b}).empty());
  }
};

/// A node that has been in the standby role: a prompt of 10 and 5 generated tokens, 12 rows.
struct promotion : bench {
  session_log held = log;
  explicit promotion(commit_rule::mode mode = commit_rule::mode::semi_sync) : bench(mode) {
    for (token_id token = 10; token < 15; ++token)
      REQUIRE(held.append(std::vector<token_id>{token}));
    at = 15;
  }
  std::string promote() {
    const std::string took = see();
    std::vector<held_replica> replicas{{group, held, 12}};
    return took + " | " + text(table.on_replicas(group, record.epoch, std::move(replicas), now));
  }
  std::string sealed(const std::vector<open_turn>& turns) {
    seal_reply reply;
    reply.sealed = true;
    reply.turns = turns;
    return text(note(table.on_seal_reply(edge, group, record.epoch, reply, now)));
  }
  session_log gateway(position released) const {
    session_log out = held;
    out.truncate(released);
    return out;
  }
};

}  // namespace baton::test
