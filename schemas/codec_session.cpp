#include "schemas/codec_session.hpp"

namespace baton::wire {

static void put(Sampling::Builder to, const sampling_parameters& from) {
  to.setTemperature(from.temperature);
  to.setTopK(from.top_k);
  to.setTopP(from.top_p);
  to.setMinP(from.min_p);
  to.setRepetitionPenalty(from.repetition_penalty);
  to.setFrequencyPenalty(from.frequency_penalty);
  to.setPresencePenalty(from.presence_penalty);
  to.setPenaltyWindow(from.penalty_window);
  put_list(to.initLogitBias(from.logit_bias.size()), from.logit_bias, [](auto one, const auto& bias) {
    one.setToken(bias.first);
    one.setBias(bias.second);
  });
  to.setSeed(from.seed);
  to.setTopLogprobs(from.top_logprobs);
  to.setLogprobs(from.logprobs);
}

static void get(Sampling::Reader from, sampling_parameters& to) {
  to.temperature = from.getTemperature();
  to.top_k = from.getTopK();
  to.top_p = from.getTopP();
  to.min_p = from.getMinP();
  to.repetition_penalty = from.getRepetitionPenalty();
  to.frequency_penalty = from.getFrequencyPenalty();
  to.presence_penalty = from.getPresencePenalty();
  to.penalty_window = from.getPenaltyWindow();
  get_list(from.getLogitBias(), to.logit_bias, [](auto one, auto& bias) {
    bias = {one.getToken(), one.getBias()};
  });
  to.seed = from.getSeed();
  to.top_logprobs = from.getTopLogprobs();
  to.logprobs = from.getLogprobs();
}

static void put(Tokens::Builder to, const tokens_record& from) {
  to.setFirst(from.first);
  to.setChainBefore(from.chain_before);
  put_plain(to.initTokens(from.tokens.size()), from.tokens);
}

static void get(Tokens::Reader from, tokens_record& to) {
  to.first = from.getFirst();
  to.chain_before = from.getChainBefore();
  get_plain(from.getTokens(), to.tokens);
}

void put(Turn::Builder to, const turn_header& from) {
  to.setNumber(from.number);
  to.setBase(from.base);
  to.setPromptEnd(from.prompt_end);
  put(to.initSampling(), from.parameters.sampling);
  to.setMaxTokens(from.parameters.max_tokens);
  put_plain(to.initEndTokens(from.parameters.end_tokens.size()), from.parameters.end_tokens);
}

void get(Turn::Reader from, turn_header& to) {
  to.number = from.getNumber();
  to.base = from.getBase();
  to.prompt_end = from.getPromptEnd();
  get(from.getSampling(), to.parameters.sampling);
  to.parameters.max_tokens = from.getMaxTokens();
  get_plain(from.getEndTokens(), to.parameters.end_tokens);
  if (to.prompt_end <= to.base) throw bad_value{"a turn without a prompt"};
}

void put(Piece::Builder to, const session_piece& from) {
  to.setSession(raw(from.session));
  to.setFirst(from.first);
  to.setChainBefore(from.chain_before);
  put_list(to.initTurns(from.turns.size()), from.turns, [](auto one, const auto& turn) { put(one, turn); });
  put_plain(to.initTokens(from.tokens.size()), from.tokens);
}

void get(Piece::Reader from, session_piece& to) {
  to.session = session_id{from.getSession()};
  to.first = from.getFirst();
  to.chain_before = from.getChainBefore();
  get_list(from.getTurns(), to.turns, [](auto one, auto& turn) { get(one, turn); });
  get_plain(from.getTokens(), to.tokens);
  if (to.tokens.size() > limits::session_tokens - std::min<std::size_t>(to.first, limits::session_tokens))
    throw bad_value{"a piece past the longest session"};
}

void put(Point::Builder to, const history_point& from) {
  to.setLength(from.length);
  to.setChain(from.chain);
}

void get(Point::Reader from, history_point& to) {
  to = {from.getLength(), from.getChain()};
}

void put(TokenLogprob::Builder to, const token_logprob& from) {
  to.setToken(from.token);
  to.setLogprob(from.logprob);
}

void get(TokenLogprob::Reader from, token_logprob& to) {
  to = {from.getToken(), from.getLogprob()};
}

void put(Record::Builder to, const session_record& from) {
  if (const auto* open = std::get_if<open_record>(&from)) {
    put(to.initOpen(), open->turn);
  } else if (const auto* tokens = std::get_if<tokens_record>(&from)) {
    put(to.initTokens(), *tokens);
  } else if (const auto* cut = std::get_if<truncate_record>(&from)) {
    put(to.initTruncate(), history_point{cut->length, cut->chain});
  } else if (const auto* close = std::get_if<close_record>(&from)) {
    to.setClose(close->turn);
  } else {
    to.setDrop();
  }
}

void get(Record::Reader from, session_record& to) {
  switch (from.which()) {
    case Record::OPEN:
      get(from.getOpen(), to.emplace<open_record>().turn);
      return;
    case Record::TOKENS:
      get(from.getTokens(), to.emplace<tokens_record>());
      return;
    case Record::TRUNCATE:
      to = truncate_record{from.getTruncate().getLength(), from.getTruncate().getChain()};
      return;
    case Record::CLOSE:
      to = close_record{from.getClose()};
      return;
    case Record::DROP:
      to = drop_record{};
      return;
  }
  throw bad_value{"unknown kind of record"};
}

void put(Process::Builder to, const process_id& from) {
  to.setName(to_wire(from.name));
  to.setIncarnation(raw(from.incarnation));
}

void get(Process::Reader from, process_id& to) {
  to = {text_of(from.getName()), incarnation{from.getIncarnation()}};
}

void put(capnp::List<Field>::Builder to, const fingerprint_fields& from) {
  put_list(to, from, [](auto one, const auto& field) {
    one.setName(to_wire(field.first));
    one.setValue(to_wire(field.second));
  });
}

void get(capnp::List<Field>::Reader from, fingerprint_fields& to) {
  get_list(from, to, [](auto one, auto& field) {
    field = {text_of(one.getName()), text_of(one.getValue())};
  });
}

}  // namespace baton::wire

namespace baton {
BATON_MESSAGE(turn_header, Turn)
BATON_MESSAGE(session_piece, Piece)
}  // namespace baton
