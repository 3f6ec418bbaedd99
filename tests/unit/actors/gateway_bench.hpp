#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/engines/toy_tokenizer.hpp"
#include "actors/gateway_core.hpp"

namespace baton::test {

using namespace std::chrono_literals;

inline constexpr group_id group{3};
inline const process_id node_a{"a", incarnation{1}};
inline const process_id node_b{"b", incarnation{2}};
inline const process_id node_c{"c", incarnation{3}};
inline const process_id node_d{"d", incarnation{4}};

inline std::string text(const actors::gateway_effects& effects) {
  std::string out;
  for (const actors::gateway_effect& effect : effects) {
    if (!out.empty()) out += "; ";
    if (const auto* asked = std::get_if<actors::ask_owner>(&effect))
      out += "ask " + asked->owner.name + " " + std::to_string(asked->request.history.first) + "+" +
             std::to_string(asked->request.history.tokens.size());
    else if (const auto* told = std::get_if<actors::tell_owner>(&effect))
      out += "tell " + told->owner.name + " keep " + std::to_string(told->what.keep);
    else if (const auto* failed = std::get_if<actors::note_failed>(&effect))
      out += "failed " + std::string{name_of(failed->code)};
    else if (std::holds_alternative<actors::report_unreachable>(effect))
      out += "report";
    else if (const auto* recalled = std::get_if<actors::recall_conversation>(&effect))
      out += "recall " + std::to_string(recalled->keys.size());
    else if (const auto* kept = std::get_if<actors::keep_conversation>(&effect))
      out += "keep " + std::to_string(kept->what.log.end());
    else
      out += "diverged";
  }
  return out;
}

/// A gateway, four nodes of which `a` owns the group under epoch 5, and an owner's log. Client texts are
/// tokens of one byte each.
struct gateway_bench {
  explicit gateway_bench(bool with_archive = false, std::uint64_t of = 42)
      : archive(with_archive), seed(of) {}

  bool archive;
  std::uint64_t seed;
  actors::gateway_core core{how(), std::make_shared<actors::engines::toy_tokenizer>()};
  actors::gateway_core::time_point now = actors::gateway_core::time_point{} + 1h;
  cluster_view view = first_view();
  std::uint64_t ticket = 0;                              ///< of the last question
  actors::protocol::session_log owner{session_id{}, 0};  ///< as the owner of the turn has it
  std::string shown;                                     ///< to the client
  actors::turn_finished finished;
  open_turn asked;                        ///< the last question
  actors::recall_conversation recalling;  ///< the last one
  actors::keep_conversation kept;         ///< the last one

  [[nodiscard]] actors::gateway_core::options how() const {
    actors::gateway_core::options out;
    out.self = {"edge", incarnation{9}};
    out.lease = 1000ms;
    out.seed = seed;
    out.archive = archive;
    return out;
  }

  static cluster_view first_view() {
    cluster_view out;
    out.term = 1;
    out.version = 1;
    for (const process_id& it : {node_a, node_b, node_c, node_d}) {
      node_view node;
      node.node = it;
      node.alive = true;
      node.context_tokens = 100;
      node.fingerprint_hash = 77;
      out.nodes.push_back(node);
    }
    group_record record;
    record.group = group;
    record.epoch = epoch{5};
    record.owner = node_a;
    out.groups.push_back(record);
    return out;
  }

  /// All nodes are known.
  void join() {
    core.on_view(view, now);
    for (const process_id& it : {node_a, node_b, node_c, node_d})
      core.on_node_known(it);
  }

  void move_to(const process_id& node, epoch under) {
    ++view.version;
    view.groups[0].owner = node;
    view.groups[0].epoch = under;
    core.on_view(view, now);
  }

  /// `node` dies, and `heir` takes the group.
  void lose(const process_id& node, const process_id& heir, epoch under) {
    core.on_node_lost(node, now);
    suspect(node, heir, under);
  }

  /// `node` is called dead, and `heir` takes the group.
  void suspect(const process_id& node, const process_id& heir, epoch under) {
    for (node_view& it : view.nodes)
      if (it.node == node) it.alive = false;
    move_to(heir, under);
  }

  /// All nodes are back, and `owner_now` has the group.
  void revive(const process_id& owner_now, epoch under) {
    for (node_view& it : view.nodes)
      it.alive = true;
    move_to(owner_now, under);
  }

  std::string note(const actors::gateway_effects& effects) {
    for (const actors::gateway_effect& effect : effects) {
      if (const auto* question = std::get_if<actors::ask_owner>(&effect)) {
        ticket = question->ticket;
        asked = question->request;
        const session_piece& history = asked.history;
        const bool is_new = owner.session() != history.session;
        if (is_new) owner = actors::protocol::session_log{history.session, 77};
        REQUIRE(owner.adopt(history).ok() != (is_new && history.first > 0));
      } else if (const auto* recall = std::get_if<actors::recall_conversation>(&effect)) {
        recalling = *recall;
      } else if (const auto* keep = std::get_if<actors::keep_conversation>(&effect)) {
        kept = *keep;
      }
    }
    return text(effects);
  }

  std::string submit(std::string_view prompt, actors::turn_handle handle = actors::turn_handle{1},
                     const char* session = "s") {
    actors::completion_request request;
    request.session = session;
    request.prompt_text = prompt;
    return note(core.on_submit(
        handle, request, [this](const actors::turn_event& event) { see(event); }, now));
  }

  void see(const actors::turn_event& event) {
    if (std::holds_alternative<actors::turn_started>(event)) {
      shown += "[started]";
    } else if (const auto* piece = std::get_if<actors::turn_text>(&event)) {
      shown += piece->text;
    } else if (const auto* end = std::get_if<actors::turn_finished>(&event)) {
      finished = *end;
      shown += end->reason == actors::finish_reason::stop ? "[stop]" : "[length]";
    } else {
      shown += "[" + std::string{name_of(std::get<actors::turn_failed>(event).reason.code)} + "]";
    }
  }

  std::string accept() {
    open_turn_reply reply;
    reply.accepted = true;
    return note(core.on_open_reply(ticket, reply, now));
  }

  /// A turn of "hi" that the owner has taken.
  void begin() {
    join();
    REQUIRE(submit("hi") == "ask a 0+2");
    REQUIRE(accept().empty());
  }

  /// The owner generates `more`.
  void generate(std::string_view more) {
    for (const char it : more)
      REQUIRE(owner.append(std::vector<token_id>{static_cast<unsigned char>(it)}).ok());
  }

  /// What the owner says of its log from `first` on.
  [[nodiscard]] turn_tokens from_owner(position first, epoch under = epoch{5}) const {
    turn_tokens out;
    out.group = group;
    out.epoch = under;
    out.session = owner.session();
    out.turn = owner.last_turn()->number;
    out.first = first;
    out.chain_before = owner.chain_at(first);
    const auto part = owner.tokens().subspan(first);
    out.tokens.assign(part.begin(), part.end());
    return out;
  }

  /// The owner says that it has evaluated so many rows, and has no token yet.
  [[nodiscard]] turn_tokens sign(position rows, epoch under) const {
    turn_tokens out = from_owner(owner.length(), under);
    out.rows = rows;
    return out;
  }

  /// The owner is the one that a seal has given this turn.
  void adopt(const open_turn& given) {
    owner = actors::protocol::session_log{given.history.session, 77};
    REQUIRE(owner.adopt(given.history).ok());
  }

  std::string hear(const turn_tokens& tokens) { return note(core.on_tokens(tokens, now)); }
  std::string tick(std::chrono::milliseconds after) {
    now += after;
    return note(core.on_tick(now));
  }
  [[nodiscard]] position released() const { return core.find_session("s")->stream.log().length(); }
};

}  // namespace baton::test
