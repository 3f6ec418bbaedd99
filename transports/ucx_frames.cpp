#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "schemas/limits.hpp"
#include "transports/send_checks.hpp"
#include "transports/ucx_engine.hpp"

// The frames of `ucx_engine`: how they leave and arrive.

namespace baton::transports::detail {
namespace {

/// Over shared memory, rows of at least this size are read by the receiver from where they lie; smaller ones
/// are cheaper to pass through UCX.
constexpr std::size_t lend_from_bytes = 16U << 10;
/// Read at a time, so that a large piece does not hold up other connections.
constexpr std::size_t fetch_bytes = 1U << 20;

using note = std::array<std::uint64_t, 2>;

std::vector<std::byte> header_with(std::span<const std::byte> descriptor) {
  std::vector<std::byte> header(sizeof(frame_head) + descriptor.size());
  std::copy(descriptor.begin(), descriptor.end(), header.begin() + sizeof(frame_head));
  return header;
}

ucp_request_param_t request_params(void* user_data) {
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.user_data = user_data;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  return params;
}

/// A piece of the memory of another process, into ours.
ssize_t read_from(pid_t process, std::uint64_t address, std::byte* into, std::size_t size_bytes) {
  const iovec local{into, size_bytes};
  // An address of the other process: never one of ours.
  const iovec remote{reinterpret_cast<void*>(address), size_bytes};  // NOLINT(performance-no-int-to-ptr)
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0);
}

}  // namespace

bool can_read(pid_t process, const memory_probe& there) {
  const memory_probe ours;
  std::uint64_t word = 0;
  return process > 0 && there.word == ours.word &&
         read_from(process, there.address, reinterpret_cast<std::byte*>(&word), sizeof word) == sizeof word &&
         word == ours.word;
}

// --- sending
// ------------------------------------------------------------------------------------------------------------

result<void> ucx_engine::send_message(connection_id to, std::vector<std::byte> message) {
  if (auto fits = check_message(message.size()); !fits) return fits;
  auto piece = std::make_unique<ucx_sending>();
  piece->cost = queue_cost(message.size());
  piece->header = header_with({});
  piece->message = std::move(message);
  return enqueue(to, std::move(piece));
}

result<void> ucx_engine::send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                                   transport::completion done) {
  if (auto fits = check_rows(descriptor.size(), abilities_.max_descriptor_bytes, rows); !fits) return fits;
  auto piece = std::make_unique<ucx_sending>();
  piece->cost = queue_cost(descriptor.size() + rows.size_bytes);
  piece->header = header_with(descriptor);
  piece->is_rows = true;
  piece->rows = rows;
  piece->done = std::move(done);
  return enqueue(to, std::move(piece));
}

result<void> ucx_engine::enqueue(connection_id to, std::unique_ptr<ucx_sending> piece) {
  std::unique_lock lock(mutex_);
  const auto found = routes_.find(to);
  if (found == routes_.end()) return connection_gone();
  auto& queued_bytes = found->second->queued_bytes;
  if (!has_room(queued_bytes.load(std::memory_order_relaxed), piece->cost)) return queue_full();
  queued_bytes.fetch_add(piece->cost, std::memory_order_relaxed);
  piece->to = found->second.get();
  commands_.push_back({found->second, std::move(piece), nullptr});
  const bool wake = std::exchange(asleep_, false);
  lock.unlock();
  if (wake) poller_.wake();
  return {};
}

void ucx_engine::hand_to_ucx(std::unique_ptr<ucx_sending> owned) {
  auto& to = *owned->to;
  if (to.now != ucx_connection::phase::open) return report(*owned, to.reason);
  auto& piece = *owned;
  frame_head head;
  head.number = piece.number = to.next_out++;
  piece.lent = piece.is_rows && to.peer_reads && piece.rows.size_bytes >= lend_from_bytes;
  if (piece.lent) {
    head.lent_address = reinterpret_cast<std::uint64_t>(piece.rows.address);
    head.lent_bytes = piece.rows.size_bytes;
  }
  std::memcpy(piece.header.data(), &head, sizeof head);
  transmit(std::move(owned), piece.is_rows ? am_rows : am_message);
}

/// A word between the two engines, not a frame of anybody's.
void ucx_engine::send_note(ucx_connection& to, am_id id, std::array<std::uint64_t, 2> words) {
  auto owned = std::make_unique<ucx_sending>();
  owned->to = &to;
  owned->header.resize(sizeof words);
  std::memcpy(owned->header.data(), words.data(), sizeof words);
  transmit(std::move(owned), id);
}

/// Only ever from the loop, see `progress_workers`.
void ucx_engine::transmit(std::unique_ptr<ucx_sending> owned, am_id id) {
  auto& piece = *owned;
  auto& to = *piece.to;
  piece.self = to.sends.insert(to.sends.end(), std::move(owned));
  auto params = request_params(&piece);
  params.cb.send = on_sent;
  if (!piece.is_rows) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
  }
  const bool carries_rows = piece.is_rows && !piece.lent;
  const void* data = carries_rows ? piece.rows.address : piece.message.data();
  const std::size_t size_bytes = carries_rows ? piece.rows.size_bytes : piece.message.size();
  auto* request =
      ucp_am_send_nbx(to.endpoint, id, piece.header.data(), piece.header.size(), data, size_bytes, &params);
  make_busy(to);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) sent(piece, UCS_PTR_STATUS(request));
}

void ucx_engine::on_sent(void* request, ucs_status_t status, void* user_data) {
  auto& piece = *static_cast<ucx_sending*>(user_data);
  ucp_request_free(request);
  piece.to->engine->sent(piece, status);
}

void ucx_engine::sent(ucx_sending& piece, ucs_status_t status) {
  auto& to = *piece.to;
  if (status != UCS_OK) {
    // A frame that cannot be sent is lost, and a frame is only ever lost with its connection.
    error reason{errc::connection_lost, translate(status, "sending").what};
    report(piece, to.now == ucx_connection::phase::closing || to.failing ? to.reason : reason);
    fail(to, std::move(reason));
  } else if (piece.lent && !piece.reported && to.now != ucx_connection::phase::closing) {
    piece.handed = true;  // and held until the peer has fetched it
    return;
  } else {
    report(piece, piece.lent ? result<void>(to.reason) : result<void>());
    became_active(to);
  }
  to.sends.erase(piece.self);
}

/// The peer has read what was lent, or does not want it.
void ucx_engine::fetched(ucx_connection& to, std::uint64_t number) {
  const auto found = std::find_if(to.sends.begin(), to.sends.end(),
                                  [&](const auto& each) { return each->lent && each->number == number; });
  if (found == to.sends.end()) return;
  auto& piece = **found;
  report(piece, {});
  if (piece.handed) to.sends.erase(found);
}

void ucx_engine::report(ucx_sending& piece, result<void> outcome) {
  if (std::exchange(piece.reported, true)) return;
  piece.to->queued_bytes.fetch_sub(piece.cost, std::memory_order_relaxed);
  if (auto done = std::exchange(piece.done, nullptr)) done(std::move(outcome));
}

// --- receiving
// ----------------------------------------------------------------------------------------------------------

/// The head of a frame that is to be taken: of a connection that lives, and the next in order.
std::optional<frame_head> ucx_engine::due(ucx_connection& from, const void* header,
                                          std::size_t header_bytes) {
  if (from.now == ucx_connection::phase::closing || from.failing) return {};
  frame_head head;
  if (header_bytes >= sizeof head) std::memcpy(&head, header, sizeof head);
  if (header_bytes < sizeof head || head.number != from.next_in || !from.announced) {
    fail(from, {errc::malformed, "frame " + std::to_string(head.number) + " where " +
                                     std::to_string(from.next_in) + " was due"});
    return {};
  }
  ++from.next_in;
  became_active(from);
  return head;
}

/// `bytes` at an address aligned to 8, valid until the next call.
std::span<const std::byte> ucx_engine::aligned(std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) == 0) return bytes;
  aligned_.resize((bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (!bytes.empty()) std::memcpy(aligned_.data(), bytes.data(), bytes.size());
  return {reinterpret_cast<const std::byte*>(aligned_.data()), bytes.size()};
}

ucs_status_t ucx_engine::on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                    std::size_t size_bytes, const ucp_am_recv_param_t* params) {
  auto& from = *static_cast<ucx_connection*>(argument);
  auto& self = *from.engine;
  if (!self.due(from, header, header_bytes)) return UCS_OK;
  if ((params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || size_bytes > limits::message_bytes) {
    self.fail(from, {errc::malformed, "a message of " + std::to_string(size_bytes) + " bytes"});
    return UCS_OK;
  }
  self.sink_.on_message(from.id, self.aligned({static_cast<const std::byte*>(data), size_bytes}));
  return UCS_OK;
}

/// The header first, then the sink's decision, then the bytes: copied when UCX holds them already, fetched
/// straight into the landing when not. What is refused is dropped, and the sender is told that its memory is
/// free.
ucs_status_t ucx_engine::on_rows(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t size_bytes, const ucp_am_recv_param_t* params) {
  auto& from = *static_cast<ucx_connection*>(argument);
  auto& self = *from.engine;
  const auto head = self.due(from, header, header_bytes);
  if (!head) return UCS_OK;
  const bool lent = head->lent_bytes > 0;
  if (lent && (!from.reads_peer || size_bytes != 0)) {
    self.fail(from, {errc::malformed, "rows lent that cannot be fetched"});
    return UCS_OK;
  }
  if (lent) size_bytes = head->lent_bytes;
  const auto descriptor = self.aligned(
      {static_cast<const std::byte*>(header) + sizeof(frame_head), header_bytes - sizeof(frame_head)});
  const auto where = self.sink_.on_rows(from.id, descriptor, size_bytes);
  if (!accepts(where, size_bytes)) {
    if (!where.empty())
      self.sink_.on_landed(from.id, where, {errc::invalid_argument, "the landing does not hold the rows"});
    if (lent) self.fetches_.push_back({from.shared_from_this(), *head, nullptr});
    return UCS_OK;
  }
  auto owned = std::make_unique<ucx_landing>();
  auto& piece = *owned;
  piece.where = where;
  piece.from = &from;
  piece.fetch = lent;
  piece.self = from.landings.insert(from.landings.end(), std::move(owned));
  if (lent) {
    self.fetches_.push_back({from.shared_from_this(), *head, &piece});
  } else if ((params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self.receive(piece, data, size_bytes);
    return UCS_INPROGRESS;  // the data now belongs to the receive
  } else {
    if (size_bytes > 0) std::memcpy(where.address, data, size_bytes);
    self.landed(piece, UCS_OK);
  }
  return UCS_OK;
}

/// A rendezvous: UCX fetches the rows.
void ucx_engine::receive(ucx_landing& piece, void* data, std::size_t size_bytes) {
  auto params = request_params(&piece);
  params.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    auto& done = *static_cast<ucx_landing*>(user_data);
    ucp_request_free(request);
    done.from->engine->landed(done, status);
  };
  auto* request =
      ucp_am_recv_data_nbx(piece.from->worker->handle(), data, piece.where.address, size_bytes, &params);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) landed(piece, UCS_PTR_STATUS(request));
}

/// Reads lent rows a piece at a time, in order, and tells their owners; whether there was anything to do.
bool ucx_engine::fetch_some() {
  if (fetches_.empty()) return false;
  auto& first = fetches_.front();
  auto& from = *first.from;
  if (from.now == ucx_connection::phase::closing) {  // its landings have been failed
    fetches_.pop_front();
    return true;
  }
  if (first.into != nullptr) {
    const auto wanted = std::min(fetch_bytes, first.head.lent_bytes - first.done_bytes);
    const auto got = read_from(from.peer_process, first.head.lent_address + first.done_bytes,
                               first.into->where.address + first.done_bytes, wanted);
    if (got <= 0) {
      landed(*first.into, UCS_ERR_CONNECTION_RESET);
      fetches_.pop_front();
      return true;
    }
    first.done_bytes += static_cast<std::size_t>(got);
    if (first.done_bytes < first.head.lent_bytes) return true;
  }
  const auto finished = std::move(fetches_.front());
  fetches_.pop_front();
  send_note(*finished.from, am_fetched, {finished.head.number, 0});
  if (finished.into != nullptr) landed(*finished.into, UCS_OK);
  return true;
}

ucs_status_t ucx_engine::on_fetched(void* argument, const void* header, std::size_t header_bytes, void*,
                                    std::size_t, const ucp_am_recv_param_t*) {
  auto& from = *static_cast<ucx_connection*>(argument);
  note words{};
  if (header_bytes == sizeof words) std::memcpy(words.data(), header, sizeof words);
  if (from.now == ucx_connection::phase::open) from.engine->fetched(from, words[0]);
  return UCS_OK;
}

/// Answered by the loop; but the sink hears of the peer here, before the frames that may follow at once.
ucs_status_t ucx_engine::on_greeting(void* argument, const void* header, std::size_t header_bytes, void*,
                                     std::size_t, const ucp_am_recv_param_t*) {
  auto& from = *static_cast<ucx_connection*>(argument);
  auto& self = *from.engine;
  if (from.now != ucx_connection::phase::greeting || from.failing) return UCS_OK;
  note words{};
  if (header_bytes == sizeof words) std::memcpy(words.data(), header, sizeof words);
  const auto step = words[0];
  const bool expected = from.accepted ? step == 1 || step == 3 : step == 2;
  if (!expected) {
    self.fail(from, {errc::malformed, "greeting " + std::to_string(step) + " out of turn"});
    return UCS_OK;
  }
  from.peer_reads = words[1] != 0;
  if (step == 3 && !std::exchange(from.announced, true)) self.sink_.on_accepted(from.id);
  self.greetings_.emplace_back(from.shared_from_this(), step);
  return UCS_OK;
}

void ucx_engine::landed(ucx_landing& piece, ucs_status_t status) {
  auto& from = *piece.from;
  if (status == UCS_OK) {
    piece.outcome.emplace();
  } else {
    error reason{errc::connection_lost, translate(status, "receiving rows").what};
    piece.outcome.emplace(reason);
    fail(from, std::move(reason));
  }
  report_landings(from);
}

/// In the order announced: rows that overtook others wait for them.
void ucx_engine::report_landings(ucx_connection& from) {
  while (!from.landings.empty() && from.landings.front()->outcome) {
    auto first = std::move(from.landings.front());
    from.landings.pop_front();
    sink_.on_landed(from.id, first->where, std::move(*first->outcome));
  }
}

// --- reports
// ------------------------------------------------------------------------------------------------------------

void ucx_engine::became_active(ucx_connection& which) {
  if (std::exchange(which.carrier_known, true)) return;
  carrier_due_.push_back(which.shared_from_this());
}

void ucx_engine::refresh_carriers() {
  if (carrier_due_.empty()) return;
  for (const auto& each : std::exchange(carrier_due_, {})) {
    const auto lanes = each->now == ucx_connection::phase::open ? lanes_of(each->endpoint) : std::string();
    const std::lock_guard lock(mutex_);
    if (lanes.empty())
      each->carrier_known = false;  // asked again with the next frame
    else
      each->carrier = "ucx " + lanes + (each->peer_reads ? ", rows read across processes" : "");
  }
}

}  // namespace baton::transports::detail
