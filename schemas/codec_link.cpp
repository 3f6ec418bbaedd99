#include "schemas/codec_session.hpp"

namespace baton::wire {

static void put(Ack::Builder to, const replica_ack& from) {
  to.setSession(raw(from.session));
  to.setEpoch(raw(from.epoch));
  to.setLogged(from.logged);
  to.setChain(from.chain);
  to.setSynced(from.synced);
  to.setExpected(from.expected);
  to.setProblem(from.has_problem ? static_cast<std::uint16_t>(from.problem) : 0);
  to.setAboutRows(from.about_rows);
  to.setSequence(from.sequence);
}

static void get(Ack::Reader from, replica_ack& to) {
  to.session = session_id{from.getSession()};
  to.epoch = epoch{from.getEpoch()};
  to.logged = from.getLogged();
  to.chain = from.getChain();
  to.synced = from.getSynced();
  to.expected = from.getExpected();
  to.has_problem = from.getProblem() != 0;
  if (to.has_problem) to.problem = code_from_wire(from.getProblem());
  to.about_rows = from.getAboutRows();
  to.sequence = from.getSequence();
  if (to.synced > to.logged || to.expected < to.synced)
    throw bad_value{"positions of an acknowledgement out of order"};
}

static void put(SessionRecords::Builder to, const session_records& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  put_list(to.initRecords(from.records.size()), from.records,
           [](auto one, const auto& record) { put(one, record); });
  to.setSequence(from.sequence);
}

static void get(SessionRecords::Reader from, session_records& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.session = session_id{from.getSession()};
  get_list(from.getRecords(), to.records, [](auto one, auto& record) { get(one, record); });
  to.sequence = from.getSequence();
}

static void put(Resync::Builder to, const resync_frame& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  put_list(to.initProbes(from.probes.size()), from.probes,
           [](auto one, const auto& point) { put(one, point); });
  to.setSequence(from.sequence);
}

static void get(Resync::Reader from, resync_frame& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.session = session_id{from.getSession()};
  get_list(from.getProbes(), to.probes, [](auto one, auto& point) { get(one, point); });
  to.sequence = from.getSequence();
  if (to.probes.size() > limits::resync_probes) throw bad_value{"too many probes"};
}

static void put(LinkFrame::Builder to, const link_frame& from) {
  if (const auto* hello = std::get_if<link_hello>(&from)) {
    auto out = to.initHello();
    put(out.initFrom(), hello->from);
    put(out.initTo(), hello->to);
    out.setSoftware(to_wire(hello->software));
    put(out.initFingerprint(hello->fingerprint.size()), hello->fingerprint);
  } else if (const auto* welcome = std::get_if<link_welcome>(&from)) {
    auto out = to.initWelcome();
    put(out.initFrom(), welcome->from);
    out.setRows(welcome->rows);
  } else if (const auto* refusal = std::get_if<link_refusal>(&from)) {
    auto out = to.initRefusal();
    out.setCode(static_cast<std::uint16_t>(refusal->code));
    out.setReason(to_wire(refusal->reason));
  } else if (const auto* records = std::get_if<records_frame>(&from)) {
    put_list(to.initRecords(records->sessions.size()), records->sessions,
             [](auto one, const auto& session) { put(one, session); });
  } else if (const auto* resync = std::get_if<resync_frame>(&from)) {
    put(to.initResync(), *resync);
  } else if (const auto* appointment = std::get_if<appointment_frame>(&from)) {
    auto out = to.initAppointment();
    out.setGroup(raw(appointment->group));
    out.setEpoch(raw(appointment->epoch));
  } else {
    const auto& acks = std::get<acks_frame>(from).acks;
    put_list(to.initAcks(acks.size()), acks, [](auto one, const auto& ack) { put(one, ack); });
  }
}

static void get(LinkFrame::Reader from, link_frame& to) {
  switch (from.which()) {
    case LinkFrame::HELLO: {
      auto& hello = to.emplace<link_hello>();
      get(from.getHello().getFrom(), hello.from);
      get(from.getHello().getTo(), hello.to);
      hello.software = text_of(from.getHello().getSoftware());
      get(from.getHello().getFingerprint(), hello.fingerprint);
      return;
    }
    case LinkFrame::WELCOME: {
      auto& welcome = to.emplace<link_welcome>();
      get(from.getWelcome().getFrom(), welcome.from);
      welcome.rows = from.getWelcome().getRows();
      return;
    }
    case LinkFrame::REFUSAL:
      to = link_refusal{code_from_wire(from.getRefusal().getCode()), text_of(from.getRefusal().getReason())};
      return;
    case LinkFrame::RECORDS:
      get_list(from.getRecords(), to.emplace<records_frame>().sessions,
               [](auto one, auto& session) { get(one, session); });
      return;
    case LinkFrame::RESYNC:
      get(from.getResync(), to.emplace<resync_frame>());
      return;
    case LinkFrame::ACKS:
      get_list(from.getAcks(), to.emplace<acks_frame>().acks, [](auto one, auto& ack) { get(one, ack); });
      return;
    case LinkFrame::APPOINTMENT:
      to = appointment_frame{group_id{from.getAppointment().getGroup()},
                             epoch{from.getAppointment().getEpoch()}};
      return;
  }
  throw bad_value{"unknown kind of frame"};
}

static void put(Delta::Builder to, const delta_descriptor& from) {
  to.setGroup(raw(from.group));
  to.setEpoch(raw(from.epoch));
  to.setSession(raw(from.session));
  to.setFirst(from.first);
  to.setCount(from.count);
  to.setChainBefore(from.chain_before);
  to.setChainAfter(from.chain_after);
  to.setFingerprint(from.fingerprint);
  to.setFirstRegion(from.first_region);
  to.setRegions(from.regions);
  to.setCodec(static_cast<std::uint8_t>(from.codec));
  to.setBytes(from.bytes);
  to.setChecksum(from.checksum);
}

static void get(Delta::Reader from, delta_descriptor& to) {
  to.group = group_id{from.getGroup()};
  to.epoch = epoch{from.getEpoch()};
  to.session = session_id{from.getSession()};
  to.first = from.getFirst();
  to.count = from.getCount();
  to.chain_before = from.getChainBefore();
  to.chain_after = from.getChainAfter();
  to.fingerprint = from.getFingerprint();
  to.first_region = from.getFirstRegion();
  to.regions = from.getRegions();
  if (from.getCodec() != static_cast<std::uint8_t>(row_codec::none)) throw bad_value{"unknown codec"};
  to.codec = row_codec::none;
  to.bytes = from.getBytes();
  to.checksum = from.getChecksum();
  if (to.count == 0 || to.count > limits::session_tokens || to.first > limits::session_tokens - to.count)
    throw bad_value{"positions of a delta out of range"};
}

}  // namespace baton::wire

namespace baton {
BATON_MESSAGE(link_frame, LinkFrame)
BATON_MESSAGE(delta_descriptor, Delta)
}  // namespace baton
