#include "actors/gateway_core.hpp"

#include <algorithm>
#include <utility>

#include "schemas/hash.hpp"

namespace baton::actors {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t sessions_remembered = limits::node_sessions;
/// An owner that has not taken a turn is asked again after this.
constexpr auto retry_after = 50ms;
/// A new owner has this long to seal us before it is asked.
constexpr auto seal_expected_within = 200ms;
constexpr int leases_until_unavailable = 3;
/// A turn that the last owner may have died of comes back so long after the others of its group: they get on
/// before it can do more harm.
constexpr auto suspect_held_for = 200ms;

/// Of the tokens alone: each turn has a seed of its own.
std::uint64_t hash_of_prompt(const gateway_session& session) {
  const auto& log = session.stream.log();
  return hash_bytes(std::as_bytes(log.tokens().first(log.last_turn()->prompt_end)));
}

}  // namespace

gateway_core::gateway_core(options how, std::shared_ptr<const engines::tokenizer> text)
    : how_(std::move(how)),
      text_(std::move(text)),
      answers_(how_.answers),
      sessions_(*text_, how_.seed),
      poison_(how_.poison_remembered) {
  for (token_id token = 0; token < static_cast<token_id>(text_->vocabulary_size()); ++token)
    if (text_->ends_generation(token)) end_tokens_.push_back(token);
}

// --- the cluster -------------------------------------------------------------------------------------------

epoch gateway_core::sealed(group_id group) const {
  const auto found = sealed_.find(group);
  return found == sealed_.end() ? epoch{} : found->second;
}

bool gateway_core::ready() const {
  const group_record* record = routes_.choose_group(sessions_);
  return record != nullptr && routes_.known(record->owner);
}

void gateway_core::on_view(cluster_view view, time_point now) {
  if (!routes_.on_view(std::move(view))) return;
  note_deaths(now);
  for (const group_record& record : routes_.view().groups) {
    epoch& highest = sealed_[record.group];
    if (record.epoch <= highest) continue;
    // The old owner is mute from here on; the new one seals us, or is asked on a tick.
    highest = record.epoch;
    for (auto& [id, turn] : turns_) {
      if (turn->session().group != record.group || turn->served >= record.epoch) continue;
      turn->unserve(now);
      turn->retry_at = now + seal_expected_within;
    }
  }
}

void gateway_core::note_deaths(time_point now) {
  for (auto& [id, turn] : turns_)
    turn->watch.on_view(
        routes_.view(), [this](const process_id& node) { return routes_.known(node); }, now);
}

void gateway_core::on_node_lost(const process_id& node, time_point now) {
  routes_.on_node_lost(node);
  note_deaths(now);
  for (auto& [id, turn] : turns_)
    if (const process_id* owner = routes_.owner_of(turn->session().group); owner != nullptr && *owner == node)
      turn->unserve(now);
}

seal_reply gateway_core::on_seal(const seal& order, time_point now) {
  seal_reply reply;
  epoch& highest = sealed_[order.group];
  if (order.epoch < highest) {
    reply.highest = highest;
    return reply;
  }
  highest = order.epoch;
  ++counters_.seals;
  reply.sealed = true;
  reply.highest = highest;
  routes_.on_sealed(order);
  std::map<session_id, history_point> held;
  for (const held_session& it : order.held)
    held[it.session] = it.logged;
  // What finds no room is opened on a tick.
  constexpr std::size_t most_tokens = limits::control_bytes / (2 * sizeof(token_id));
  std::size_t tokens = 0;
  for (const auto& [id, turn] : turns_) {
    if (turn->session().group != order.group) continue;
    turn->unserve(now);
    if (is_held_back(*turn, order.owner)) {
      turn->retry_at = now + suspect_held_for;
      continue;
    }
    const auto& stream = turn->session().stream;
    const auto have = held.find(id);
    session_piece piece = have == held.end() ? stream.log().piece_from(0) : stream.piece_for(have->second);
    if (tokens += piece.tokens.size(); tokens > most_tokens) continue;
    // Served once tokens come: until then this answer may be lost, or too late for who asked. But somebody is
    // about to serve it, so the wait begins anew.
    turn->waiting_since = now;
    turn->retry_at = now + std::min<std::chrono::milliseconds>(limits::request_timeout, 2 * how_.lease);
    turn->watch.on_taken(order.owner, now);
    reply.turns.push_back({order.group, order.epoch, std::move(piece), turn->number(), how_.self,
                           turn->session().restore_from});
  }
  return reply;
}

// --- turns, from clients -----------------------------------------------------------------------------------

void gateway_core::refuse(const completion_service::receiver& events, const error& why) {
  ++counters_.refused;
  events(turn_failed{why});
}

gateway_effects gateway_core::on_submit(turn_handle handle, const completion_request& request,
                                        completion_service::receiver events, time_point now) {
  const std::string& key = request.idempotency_key;
  if (key.empty()) return run(handle, request, std::move(events), now);
  switch (answers_.ask(key, request.request_hash, handle, events, now)) {
    case kept_answers::verdict::fresh:
      return run(handle, request, answers_.recorder(key), now);
    case kept_answers::verdict::attached:
      ++counters_.attached;
      return {};
    case kept_answers::verdict::conflict:
      refuse(events, {errc::conflict, "another request was sent under this idempotency key"});
      return {};
  }
  return {};
}

gateway_effects gateway_core::run(turn_handle handle, const completion_request& request,
                                  completion_service::receiver events, time_point now) {
  gateway_effects effects;
  // A message is a token at least: what cannot fit is not even tokenised.
  if (const std::size_t least = request.messages.size(); least >= routes_.longest_context()) {
    refuse(events,
           {errc::context_full, "the prompt has " + std::to_string(least) + " messages, the context holds " +
                                    std::to_string(routes_.longest_context()) + " tokens"});
    return effects;
  }
  if (how_.archive)
    if (auto recall = archive_.recall(handle, request, events, sessions_, now)) {
      effects.emplace_back(std::move(*recall));
      return effects;
    }
  place(handle, request, std::move(events), now, effects);
  return effects;
}

gateway_effects gateway_core::on_recalled(std::uint64_t ticket,
                                          const std::optional<archived_conversation>& found, time_point now) {
  gateway_effects effects;
  auto waited = archive_.take(ticket);
  if (!waited) return effects;
  if (found) revive(*found, waited->request, now);
  place(waited->handle, waited->request, std::move(waited->events), now, effects);
  sessions_.trim(sessions_remembered);
  return effects;
}

void gateway_core::revive(const archived_conversation& found, const completion_request& request,
                          time_point now) {
  const group_record* record = routes_.choose_group(sessions_);
  if (record != nullptr && routes_.view_of(record->owner)->fingerprint_hash == found.fingerprint &&
      gateway_archive::continues(found, request, sessions_) && sessions_.revive(found, record->group, now))
    ++counters_.recalled;
}

void gateway_core::place(turn_handle handle, const completion_request& request,
                         completion_service::receiver events, time_point now, gateway_effects& effects) {
  auto placed = sessions_.place(request);
  if (!placed) {
    refuse(events, placed.failure());
    return;
  }
  gateway_session* session = placed->session;
  if (session == nullptr) {
    const group_record* record = routes_.choose_group(sessions_);
    if (record == nullptr) {
      refuse(events, {errc::unavailable, "no node can take a session now"});
      return;
    }
    session = &sessions_.create(request.session, record->group,
                                routes_.view_of(record->owner)->fingerprint_hash, now);
  }
  if (const auto header = open(request, *session, *placed))
    begin(std::make_unique<gateway_turn>(handle, request, std::move(events), *session, *header), *header, now,
          effects);
  else
    refuse(events, header.failure());
  sessions_.trim(sessions_remembered);
}

result<turn_header> gateway_core::open(const completion_request& request, gateway_session& session,
                                       const placed_prompt& placed) const {
  turn_header header;
  const turn_header* last = session.stream.log().last_turn();
  header.number = last == nullptr ? 1 : last->number + 1;
  header.base = placed.base;
  header.prompt_end = placed.base + static_cast<position>(placed.tokens.size());
  const std::uint32_t context = routes_.context_of(session.group);
  if (header.prompt_end >= context)
    return {errc::context_full, "the prompt has " + std::to_string(header.prompt_end) +
                                    " tokens, the context holds " + std::to_string(context)};
  const std::uint32_t room = context - header.prompt_end;
  header.parameters.sampling = request.sampling;
  header.parameters.max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  if (!request.ignore_end) header.parameters.end_tokens = end_tokens_;
  for (const token_id token : placed.tokens)
    if (token < 0 || token >= static_cast<token_id>(text_->vocabulary_size()))
      return {errc::invalid_argument, "token " + std::to_string(token) + " is not in the vocabulary"};
  if (const auto opened = session.stream.open(header, placed.tokens); !opened) return opened.failure();
  return header;
}

void gateway_core::begin(std::unique_ptr<gateway_turn> turn, const turn_header& header, time_point now,
                         gateway_effects& effects) {
  gateway_session& session = turn->session();
  std::erase_if(session.ends, [&](const auto& it) { return it.length > header.base; });
  session.busy = true;
  session.used_at = now;
  ++counters_.turns;
  turn->waiting_since = now;
  handles_[turn->handle()] = session.id;
  gateway_turn& placed = *(turns_[session.id] = std::move(turn));
  if (is_refused_as_poison(placed, now)) {
    fail_poisoned(placed, now, effects);
    return;
  }
  if (waits_for_a_suspect(placed, now)) return;  // asked on a tick
  ask(placed, session.stream.piece_for({header.base, session.stream.log().chain_at(header.base)}), now,
      effects);
}

gateway_effects gateway_core::on_cancel(turn_handle handle, time_point now) {
  gateway_effects effects;
  if (!answers_.leave(handle, now)) cancel(handle, now, effects);
  return effects;
}

void gateway_core::cancel(turn_handle handle, time_point now, gateway_effects& effects) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return archive_.forget(handle);
  gateway_turn& turn = *turns_.at(found->second);
  ++counters_.cancelled;
  const position keep = turn.session().stream.log().length();
  tell_of_end(turn, keep, effects);
  end(turn, keep, now);
}

gateway_effects gateway_core::on_tick(time_point now) {
  gateway_effects effects;
  for (const turn_handle left : answers_.on_tick(now))
    cancel(left, now, effects);
  for (auto& waited : archive_.overdue(now))
    place(waited.handle, waited.request, std::move(waited.events), now, effects);
  auto missed = routes_.unreachable(now, how_.lease);
  if (std::exchange(unreachable_, missed) != missed) effects.emplace_back(report_unreachable{});
  std::vector<session_id> waiting;
  for (const auto& [id, turn] : turns_)
    if (turn->served == epoch{}) waiting.push_back(id);
  for (const session_id id : waiting) {
    gateway_turn& turn = *turns_.at(id);
    if (is_poisoned(turn)) {
      poison_.add(hash_of_prompt(turn.session()), now);
      fail_poisoned(turn, now, effects);
    } else if (now - turn.waiting_since > leases_until_unavailable * how_.lease) {
      fail(turn, error{turn.refusal}, now, effects);
    } else if (now >= turn.retry_at && !turn.asking) {
      if (waits_for_a_suspect(turn, now)) continue;
      ++counters_.reopened;
      const auto& log = turn.session().stream.log();
      ask(turn, log.piece_from(log.last_turn()->base), now, effects);
    }
  }
  return effects;
}

void gateway_core::end(gateway_turn& turn, position keep, time_point now) {
  gateway_session& session = turn.session();
  session.stream.close(keep);
  session.busy = false;
  session.used_at = now;
  handles_.erase(turn.handle());
  turns_.erase(session.id);  // ends `turn`
}

void gateway_core::fail(gateway_turn& turn, const error& why, time_point now, gateway_effects& effects) {
  ++counters_.failed;
  effects.emplace_back(note_failed{turn.session().id, why.code});
  turn.failed(why);
  tell_of_end(turn, turn.keep(), effects);
  end(turn, turn.keep(), now);
}

void gateway_core::finish(gateway_turn& turn, const turn_tokens& tokens, time_point now,
                          gateway_effects& effects) {
  ++counters_.finished;
  gateway_session& session = turn.session();
  const position keep = turn.keep();
  if (!tokens.last || keep < session.stream.log().length()) tell_of_end(turn, keep, effects);
  const completion_request request = turn.request();
  const std::string answer = turn.answer();
  end(turn, keep, now);
  sessions_.remember(session, request, answer);
  if (!how_.archive) return;
  auto kept = gateway_archive::keep(session, sessions_);
  if (!kept) return;
  ++counters_.kept;
  effects.emplace_back(std::move(*kept));
}

// --- poison ------------------------------------------------------------------------------------------------

bool gateway_core::is_poisoned(const gateway_turn& turn) const {
  return how_.poison_after > 0 && turn.watch.deaths() >= how_.poison_after;
}

/// The suspect other than `turn` that a node has had, and that has not got on since; nothing if there is
/// none.
const gateway_turn* gateway_core::suspect_at(const process_id& node, const gateway_turn& turn) const {
  if (how_.poison_after == 0 || turn.watch.possible_deaths(node) == 0) return nullptr;
  for (const auto& [id, other] : turns_)
    if (other.get() != &turn && other->watch.silent_at(node) && other->watch.possible_deaths(node) > 0)
      return other.get();
  return nullptr;
}

/// Suspects go to a node one at a time: if it dies, it is known of which, and the others have done nothing.
/// Whether it is not to be given to its owner yet; it has all the time then that a node takes for the other.
bool gateway_core::waits_for_a_suspect(gateway_turn& turn, time_point now) const {
  const process_id* owner = routes_.owner_of(turn.session().group);
  if (owner == nullptr || turn.watch.silent_at(*owner)) return false;
  const gateway_turn* other = suspect_at(*owner, turn);
  if (other == nullptr) return false;
  if (other->asking || other->served != epoch{} || now < other->retry_at) turn.waiting_since = now;
  return true;
}

/// Whether a new owner shall not have it at once: it may be poison, which the next view will say, or there
/// are others in its group that can get on before it does more harm, or another that may be poison is there.
bool gateway_core::is_held_back(const gateway_turn& turn, const process_id& owner) const {
  const std::uint32_t deaths = turn.watch.possible_deaths(owner);
  if (deaths == 0 || how_.poison_after == 0) return false;
  return deaths >= how_.poison_after || suspect_at(owner, turn) != nullptr ||
         std::any_of(turns_.begin(), turns_.end(), [&](const auto& it) {
           return it.second->session().group == turn.session().group &&
                  it.second->watch.possible_deaths(owner) == 0;
         });
}

bool gateway_core::is_refused_as_poison(gateway_turn& turn, time_point now) {
  if (poison_.empty()) return false;
  const std::uint64_t prompt = hash_of_prompt(turn.session());
  const auto& nodes = routes_.view().nodes;
  const bool whole = nodes.size() > 1 && std::ranges::all_of(nodes, &node_view::alive);
  using verdict = protocol::poison_list::verdict;
  const verdict judged = poison_.judge(prompt, whole, now);
  if (judged == verdict::suspect) {
    turn.watch.suspect(how_.poison_after - 1);
    turn.known_poison = prompt;
  }
  return judged == verdict::refused;
}

/// Its owner gets on with it: it is not what kills.
void gateway_core::note_progress(gateway_turn& turn) {
  turn.watch.on_progress();
  if (const auto known = std::exchange(turn.known_poison, std::nullopt)) poison_.clear(*known);
}

void gateway_core::fail_poisoned(gateway_turn& turn, time_point now, gateway_effects& effects) {
  ++counters_.poisoned;
  fail(
      turn,
      {errc::poisoned, "the nodes that ran this request died of it one after the other; it is not run again"},
      now, effects);
}

// --- turns, to and from owners -----------------------------------------------------------------------------

void gateway_core::ask(gateway_turn& turn, session_piece piece, time_point now, gateway_effects& effects) {
  turn.retry_at = now + retry_after;
  const group_record* record = routes_.record_of(turn.session().group);
  if (record == nullptr || turn.asking || !routes_.known(record->owner)) return;
  turn.asking = true;
  turn.watch.on_taken(record->owner, now);  // it may die of it before it can say that it has taken it
  const std::uint64_t ticket = next_ticket_++;
  questions_.emplace(ticket, question{turn.session().id, turn.handle(), record->epoch});
  effects.emplace_back(ask_owner{ticket,
                                 record->owner,
                                 {record->group, record->epoch, std::move(piece), turn.number(), how_.self,
                                  turn.session().restore_from}});
}

void gateway_core::tell_of_end(const gateway_turn& turn, position keep, gateway_effects& effects) const {
  const group_record* record = routes_.record_of(turn.session().group);
  if (record == nullptr) return;
  effects.emplace_back(
      tell_owner{record->owner, {record->group, record->epoch, turn.session().id, turn.number(), keep}});
}

gateway_effects gateway_core::on_open_reply(std::uint64_t ticket, const result<open_turn_reply>& reply,
                                            time_point now) {
  gateway_effects effects;
  const auto asked = questions_.extract(ticket);
  if (asked.empty()) return effects;
  const question& it = asked.mapped();
  const auto found = turns_.find(it.session);
  if (found == turns_.end() || found->second->handle() != it.handle) return effects;
  found->second->asking = false;
  if (reply) on_reply(*found->second, *reply, it.asked, now, effects);
  return effects;
}

void gateway_core::on_reply(gateway_turn& turn, const open_turn_reply& reply, epoch asked, time_point now,
                            gateway_effects& effects) {
  if (turn.served >= asked) return;  // a seal was quicker
  if (reply.accepted) {
    if (asked < sealed(turn.session().group)) return;  // by an owner that has been replaced meanwhile
    turn.served = asked;
    turn.taken(asked);
    turn.started(reply.cached_tokens);
    return;
  }
  switch (reply.refusal) {
    case errc::gap:
    case errc::fork: {
      const auto& log = turn.session().stream.log();
      ask(turn, log.piece_from(log.contains(reply.have) ? reply.have.length : 0), now, effects);
      return;
    }
    case errc::no_room:
      turn.refusal = {reply.refusal, reply.reason};
      go_elsewhere(turn);
      return;  // asked again on a tick
    default:
      if (!may_pass({reply.refusal, reply.reason}, turn))
        fail(turn, {reply.refusal, reply.reason}, now, effects);
  }
}

/// Nobody holds anything yet of a conversation whose first turn has been refused for want of room: it may as
/// well begin at another node of the same model.
void gateway_core::go_elsewhere(gateway_turn& turn) const {
  gateway_session& session = turn.session();
  const auto& log = session.stream.log();
  const group_record* other = routes_.choose_group(sessions_);
  const node_view* node = other == nullptr ? nullptr : routes_.view_of(other->owner);
  const bool begins = log.last_turn()->number == 1 && log.length() == log.last_turn()->prompt_end;
  if (!begins || node == nullptr) return;
  const protocol::session_log there{session.id, node->fingerprint_hash};
  if (log.contains(there.point())) session.group = other->group;
}

/// Whether it is worth to ask again on a tick; for want of room until a conversation ends, or a take-over is
/// over.
bool gateway_core::may_pass(const error& refusal, gateway_turn& turn) {
  if (refusal.code == errc::no_room) turn.refusal = refusal;
  return refusal.code == errc::no_room || refusal.code == errc::not_owner ||
         refusal.code == errc::unavailable || refusal.code == errc::stale_epoch;
}

gateway_effects gateway_core::on_tokens(const turn_tokens& tokens, time_point now) {
  gateway_effects effects;
  const auto found = turns_.find(tokens.session);
  if (found == turns_.end()) return effects;
  gateway_turn& turn = *found->second;
  if (tokens.tokens.empty() && !tokens.last) {
    if (tokens.epoch >= sealed(tokens.group) && tokens.turn == turn.number()) turn.watch.on_rows(tokens.rows);
    return effects;
  }
  std::size_t fresh = 0;
  using verdict = protocol::client_stream::verdict;
  switch (turn.session().stream.accept(tokens, sealed(tokens.group), fresh)) {
    case verdict::accepted:
      break;
    case verdict::duplicate:
      if (tokens.turn == turn.number() && tokens.last) break;  // all known, but the end is news
      ++counters_.duplicates;
      return effects;
    case verdict::stale:
      ++counters_.stale;
      return effects;
    case verdict::gap:
      turn.unserve(now);
      return effects;
    case verdict::diverged:
      ++counters_.diverged;
      effects.emplace_back(note_diverged{tokens.session, tokens.epoch});
      fail(turn, {errc::fork, "the owner's history contradicts what was released"}, now, effects);
      return effects;
  }
  turn.served = tokens.epoch;
  counters_.tokens += fresh;
  const process_id* owner = routes_.owner_of(tokens.group);
  if (fresh > 0) note_progress(turn);
  if (turn.released(tokens, fresh, owner == nullptr ? std::string{} : owner->name, *text_))
    finish(turn, tokens, now, effects);
  return effects;
}

gateway_effects gateway_core::on_failure(const turn_failure& failure, time_point now) {
  gateway_effects effects;
  const auto found = turns_.find(failure.session);
  if (found == turns_.end() || found->second->number() != failure.turn ||
      failure.epoch < sealed(failure.group))
    return effects;
  gateway_turn& turn = *found->second;
  turn.unserve(now);
  if (failure.code == errc::gap || failure.code == errc::fork)
    ask(turn, turn.session().stream.log().piece_from(0), now, effects);
  else if (!may_pass({failure.code, failure.reason}, turn))
    fail(turn, {failure.code, failure.reason}, now, effects);
  return effects;
}

}  // namespace baton::actors
