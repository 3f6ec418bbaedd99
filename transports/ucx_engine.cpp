#include "transports/ucx_engine.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "schemas/limits.hpp"
#include "transports/send_checks.hpp"

namespace baton::transports::detail {
namespace {

/// How long a connection that is closed while UCX wires it up may take to get there.
constexpr std::chrono::milliseconds close_grace{250};
/// Whoever connects to us must have greeted by then.
constexpr std::chrono::seconds greeting_grace{5};
/// Strangers that we let greet at a time.
constexpr std::size_t most_greeters = 64;
/// Guards against a wake-up that UCX swallows; costs nothing to speak of.
constexpr int idle_wait_ms = 1000;
/// UCX loses wake-ups while it wires up.
constexpr int wiring_wait_ms = 1;
/// Rounds of a busy thread between two looks at the sockets.
constexpr std::uint64_t rounds_between_looks = 16;

/// Workers whose peer died while UCX wired them up: UCX can neither finish nor destroy them without aborting
/// the process. They are never touched again.
std::vector<std::unique_ptr<ucx_worker>>& abandoned = *new std::vector<std::unique_ptr<ucx_worker>>;
std::mutex abandoned_mutex;

}  // namespace

#ifdef __SANITIZE_ADDRESS__
/// What an abandoned worker holds is reached only by way of memory that UCX has mapped, where the leak
/// checker does not look.
extern "C" [[gnu::weak]] const char* __lsan_default_suppressions() {
  return "leak:libucs.so\n";
}
#endif

ucx_engine::ucx_engine(ucx_settings how, bool shared_memory, frame_sink& sink)
    : how_(std::move(how)),
      shared_memory_(shared_memory),
      sink_(sink),
      // Over tcp and shared memory it is the worker that writes, and it goes with its connection.
      abilities_{.name = "ucx",
                 .crosses_hosts = !shared_memory,
                 .late_writes = !shared_memory && how_.tls != "tcp",
                 .max_descriptor_bytes = limits::descriptor_bytes} {
  const auto trial =
      ucx_worker::create(how_);  // what is wrong with the settings shows now, not at the first connection
  if (!trial) throw std::runtime_error("ucx transport: " + trial.failure().what);
  if ((*trial)->max_header_bytes() < limits::descriptor_bytes + sizeof(frame_head))
    throw std::runtime_error("ucx transport: " + how_.tls + " carries headers of only " +
                             std::to_string((*trial)->max_header_bytes()) + " bytes");
  thread_ = std::thread([this] { run(); });
}

ucx_engine::~ucx_engine() = default;

void ucx_engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  post({nullptr, nullptr, [this] {
          stopping_ = true;
          std::vector<connection_ptr> all;
          for (const auto& [id, each] : live_)
            all.push_back(each);
          for (const auto& each : all)
            begin_close(each, {errc::cancelled, "the transport was closed"});
        }});
  thread_.join();
}

// --- any thread
// ---------------------------------------------------------------------------------------------------------

result<std::string> ucx_engine::listen(std::string_view address) {
  const auto at = parse_address(address, shared_memory_);
  if (!at) return at.failure();
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return {errc::cancelled, "the transport is closing"};
    if (std::exchange(listening_, true)) return {errc::invalid_argument, "this transport listens already"};
  }
  auto made = listen_at(*at);
  if (!made) {
    const std::lock_guard lock(mutex_);
    listening_ = false;
    return made.failure();
  }
  post({nullptr, nullptr, [this, descriptor = made->descriptor.release()] {
          listener_ = unique_fd(descriptor);
          watch(descriptor, EPOLLIN, nullptr);
        }});
  return made->address;
}

result<connection_id> ucx_engine::connect(std::string_view address) {
  const auto to = parse_address(address, shared_memory_);
  if (!to) return to.failure();
  connection_ptr made;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return {errc::cancelled, "the transport is closing"};
    made = std::make_shared<ucx_connection>(connection_id{next_id_++}, this, false);
    routes_.emplace(made->id, made);
  }
  const auto id = made->id;
  post({nullptr, nullptr, [this, made = std::move(made), to = *to] { start_connecting(made, to); }});
  return id;
}

void ucx_engine::post(command what) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(what));
    wake = std::exchange(asleep_, false);
  }
  if (wake) poller_.wake();
}

void ucx_engine::close(connection_id which) {
  connection_ptr closing;
  {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(which);
    if (found == routes_.end()) return;
    closing = std::move(found->second);
    routes_.erase(found);
  }
  post({nullptr, nullptr, [this, closing = std::move(closing)] {
          begin_close(closing, {errc::cancelled, "closed here"});
        }});
}

std::string ucx_engine::carrier(connection_id which) const {
  const std::lock_guard lock(mutex_);
  const auto found = routes_.find(which);
  return found == routes_.end() ? "ucx" : found->second->carrier;
}

// --- the loop
// -----------------------------------------------------------------------------------------------------------

void ucx_engine::run() {
  for (;;) {
    ++round_;
    bool worked = run_commands();
    worked |= close_failing();
    finish_closing();
    if (!doomed_.empty()) close_doomed();
    worked |= progress_workers();
    worked |= fetch_some();
    for (const auto& [which, step] : std::exchange(greetings_, {}))
      greeted(which, step);
    refresh_carriers();
    if (stopping_ && live_.empty()) break;
    if (!worked && busy_.empty() && failing_.empty())
      wait(wiring_.empty() ? idle_wait_ms : wiring_wait_ms);
    else if (round_ % rounds_between_looks == 0)
      wait(0);
  }
  listener_.reset();
}

bool ucx_engine::run_commands() {
  std::vector<command> batch;
  {
    const std::lock_guard lock(mutex_);
    batch.swap(commands_);
  }
  for (auto& each : batch) {
    if (each.act)
      each.act();
    else if (each.to->now == ucx_connection::phase::sockets ||
             each.to->now == ucx_connection::phase::greeting)
      each.to->waiting.push_back(std::move(each.send));
    else
      hand_to_ucx(std::move(each.send));
  }
  return !batch.empty();
}

/// Frames are never sent from within this, but by the loop in between: UCX may let what its own calls send
/// overtake what still waits for the network.
bool ucx_engine::progress_workers() {
  bool worked = false;
  for (const auto& each : std::exchange(busy_, {})) {
    const bool progressed = each->worker && each->worker->progress();
    worked = worked || progressed;
    if (!each->worker || (!progressed && each->worker->arm())) {
      each->busy = false;
    } else {
      busy_.push_back(each);
    }
  }
  return worked;
}

void ucx_engine::make_busy(ucx_connection& which) {
  if (!which.worker || std::exchange(which.busy, true)) return;
  busy_.push_back(which.shared_from_this());
}

void ucx_engine::wait(int timeout_ms) {
  if (timeout_ms > 0) {
    const std::lock_guard lock(mutex_);
    if (!commands_.empty()) return;
    asleep_ = true;
  }
  poller_.wait(timeout_ms, [this](int descriptor, unsigned) { on_ready(descriptor); });
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  std::erase_if(wiring_, [](const auto& each) { return each->now != ucx_connection::phase::greeting; });
  for (const auto& each : wiring_)
    make_busy(*each);
  if (!greeters_.empty()) drop_late_greeters();
}

void ucx_engine::on_ready(int descriptor) {
  if (descriptor == listener_.get()) return accept_all();
  const auto found = watched_.find(descriptor);
  const auto which = found == watched_.end() ? nullptr : found->second.lock();
  if (!which || which->now == ucx_connection::phase::closing) return;
  if (which->worker && descriptor == which->worker->event_fd()) return make_busy(*which);
  if (which->now == ucx_connection::phase::sockets) return advance_socket(which);
  check_peer(which);
}

void ucx_engine::watch(int descriptor, unsigned events, const connection_ptr& owner) {
  watched_[descriptor] = owner;
  poller_.watch(descriptor, events);
}

void ucx_engine::unwatch(int descriptor) {
  if (watched_.erase(descriptor) > 0) poller_.unwatch(descriptor);
}

// --- how a connection comes about
// ---------------------------------------------------------------------------------------

void ucx_engine::accept_all() {
  for (;;) {
    auto descriptor = accept_next(listener_.get());
    if (!descriptor) return;
    if (stopping_ || greeters_.size() >= most_greeters) continue;
    connection_ptr made;
    {
      const std::lock_guard lock(mutex_);
      made = std::make_shared<ucx_connection>(connection_id{next_id_++}, this, true);
      routes_.emplace(made->id, made);
    }
    live_.emplace(made->id, made);
    made->deadline = std::chrono::steady_clock::now() + greeting_grace;
    greeters_.push_back(made);
    made->socket = ucx_socket::accepted(std::move(descriptor));
    watch(made->socket->descriptor(), EPOLLIN, made);
  }
}

void ucx_engine::start_connecting(const connection_ptr& which, const socket_address& to) {
  live_.emplace(which->id, which);
  if (stopping_) return begin_close(which, {errc::cancelled, "the transport was closed"});
  auto made = ucx_socket::connect_to(to);
  if (!made) return fail(*which, made.failure());
  which->socket = std::move(*made);
  if (auto ready = make_worker(which); !ready) return fail(*which, ready.failure());
  watch(which->socket->descriptor(), EPOLLIN | EPOLLOUT, which);
}

result<void> ucx_engine::make_worker(const connection_ptr& which) {
  auto made = ucx_worker::create(how_);
  if (!made) return made.failure();
  which->worker = std::move(*made);
  auto& worker = *which->worker;
  if (auto set = worker.handle_active_message(am_message, on_message, which.get()); !set) return set;
  if (auto set = worker.handle_active_message(am_rows, on_rows, which.get()); !set) return set;
  if (auto set = worker.handle_active_message(am_greeting, on_greeting, which.get()); !set) return set;
  if (auto set = worker.handle_active_message(am_fetched, on_fetched, which.get()); !set) return set;
  const auto address = worker.address();
  if (!address) return address.failure();
  which->socket->say(*address);
  watch(worker.event_fd(), EPOLLIN, which);
  make_busy(*which);
  return {};
}

/// The side that connects speaks first; the other makes a worker only for a peer that speaks our language.
void ucx_engine::advance_socket(const connection_ptr& which) {
  auto heard = which->socket->advance();
  if (!heard) return fail(*which, heard.failure());
  if (*heard && !which->worker) {
    if (auto ready = make_worker(which); !ready) return fail(*which, ready.failure());
    if (auto said = which->socket->advance(); !said) return fail(*which, said.failure());
  }
  if (*heard) {
    which->now = ucx_connection::phase::greeting;
    wiring_.push_back(which);
    if (!which->accepted) {
      if (auto ready = make_endpoint(*which); !ready) return fail(*which, ready.failure());
      greet(*which, 1);
    }
  }
  const unsigned events = which->socket->wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  watch(which->socket->descriptor(), events, which);
}

result<void> ucx_engine::make_endpoint(ucx_connection& which) {
  const auto address = which.socket->take_peer_address();
  if (shared_memory_) {
    if (!which.socket->peer_process(which.peer_process))
      return {errc::invalid_argument, "a process of another user may not share memory"};
    which.reads_peer = can_read(which.peer_process, which.socket->peer_probe());
    if (which.peer_process > 0)
      which.process = unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, which.peer_process, 0)));
    if (which.process) watch(which.process.get(), EPOLLIN, which.shared_from_this());
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = &which;
  params.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
    auto& lost = *static_cast<ucx_connection*>(argument);
    lost.engine->fail(lost, {errc::connection_lost, translate(status, "the peer").what});
  };
  if (auto status = ucp_ep_create(which.worker->handle(), &params, &which.endpoint); status != UCS_OK)
    return {errc::connection_lost, translate(status, "making an endpoint").what};
  return {};
}

/// UCX 1.13 does not keep the order of what is sent while it wires an endpoint up: small frames overtake
/// large ones. So three greetings go to and fro first (1 from the side that connected, 2 back, 3 again), and
/// each side sends its frames once it knows that both ways stand.
void ucx_engine::greet(ucx_connection& which, std::uint64_t step) {
  send_note(which, am_greeting, {step, which.reads_peer ? 1U : 0U});
}

void ucx_engine::greeted(const connection_ptr& which, std::uint64_t step) {
  if (which->now != ucx_connection::phase::greeting) return;
  // Only now, when the peer's connection stands: UCX 1.13 may abort when both sides connect at once.
  if (step == 1)
    if (auto ready = make_endpoint(*which); !ready) return fail(*which, ready.failure());
  if (step < 3) greet(*which, step + 1);
  if (step == 1) return;
  which->now = ucx_connection::phase::open;
  if (which->doomed) return fail(*which, which->reason);
  while (!which->waiting.empty()) {
    auto next = std::move(which->waiting.front());
    which->waiting.pop_front();
    hand_to_ucx(std::move(next));
  }
}

void ucx_engine::drop_late_greeters() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(greeters_, [&](const connection_ptr& each) {
    if (each->announced || each->now == ucx_connection::phase::closing) return true;
    if (now >= each->deadline) fail(*each, {errc::timed_out, "no greeting came"});
    return now >= each->deadline;
  });
}

// --- how a connection ends
// ----------------------------------------------------------------------------------------------

/// The socket or the process of the peer has become readable: it has ended. What UCX holds already is still
/// taken.
void ucx_engine::check_peer(const connection_ptr& which) {
  const bool wrote_all = !which->socket->wants_to_write();
  if (!wrote_all) {
    if (auto said = which->socket->advance(); !said) return fail(*which, said.failure());
    if (!which->socket->wants_to_write()) watch(which->socket->descriptor(), EPOLLIN, which);
  }
  pollfd process{which->process.get(), POLLIN, 0};
  const bool ended = which->process && ::poll(&process, 1, 0) == 1;
  if (!ended && which->socket->peer_holds()) return;
  for (int i = 0; i < 64 && which->worker->progress(); ++i) {
  }
  fail(*which,
       {errc::connection_lost, ended ? "the peer's process has ended" : "the peer has closed or died"});
}

/// Closes at the next round of the loop; may be called from within UCX.
void ucx_engine::fail(ucx_connection& which, error reason) {
  if (which.failing || which.now == ucx_connection::phase::closing) return;
  which.failing = true;
  which.reason = std::move(reason);
  failing_.push_back(which.shared_from_this());
}

bool ucx_engine::close_failing() {
  const auto batch = std::exchange(failing_, {});
  for (const auto& each : batch)
    begin_close(each, each->reason);
  return !batch.empty();
}

void ucx_engine::begin_close(const connection_ptr& which, error reason) {
  if (which->now == ucx_connection::phase::closing) return;
  {
    const std::lock_guard lock(mutex_);
    routes_.erase(which->id);
  }
  if (!which->doomed && !which->failing) which->reason = std::move(reason);
  live_.emplace(which->id, which);  // closed before it was begun
  for (auto& each : std::exchange(which->waiting, {}))
    report(*each, which->reason);
  // UCX cannot be stopped while it wires up, here or at the peer: both abort. It is given the moment it
  // takes.
  if (which->now == ucx_connection::phase::greeting && !which->failing) {
    if (!std::exchange(which->doomed, true)) doomed_.push_back(which);
    which->deadline = std::chrono::steady_clock::now() + close_grace;
    return;
  }
  const bool wiring = which->now == ucx_connection::phase::greeting;
  which->now = ucx_connection::phase::closing;
  which->closing_since_round = round_;
  closing_.push_back(which);
  end_endpoint(*which, wiring);
  if (which->socket) unwatch(which->socket->descriptor());
  which->socket.reset();  // tells the peer
  if (which->process) unwatch(which->process.get());
  which->process.reset();
}

void ucx_engine::close_doomed() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& each : doomed_)
    if (each->now == ucx_connection::phase::greeting && now >= each->deadline) fail(*each, each->reason);
  std::erase_if(doomed_, [](const connection_ptr& each) {
    return each->now != ucx_connection::phase::greeting || each->failing;
  });
}

/// The worker is destroyed at once: UCX says nothing more, and what it had not called for is reported from
/// our own lists. It is not progressed after its endpoint has been closed, as an orderly end would need: then
/// UCX 1.13 corrupts memory when the peer resets the connection. Whoever promotes itself must not die of its
/// peer's death.
void ucx_engine::end_endpoint(ucx_connection& which, bool wiring) {
  if (!which.worker) return;
  unwatch(which.worker->event_fd());
  if (wiring) {
    const std::lock_guard lock(abandoned_mutex);
    abandoned.push_back(std::move(which.worker));
    return;
  }
  if (which.endpoint != nullptr) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;  // fails what is on its way, so that the worker can be destroyed
    auto* request = ucp_ep_close_nbx(which.endpoint, &params);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  which.worker.reset();
}

/// Reports those whose frames have all been accounted for: one round later, in which the frames accepted
/// before they left the routes are taken from the queue and cancelled.
void ucx_engine::finish_closing() {
  if (closing_.empty()) return;
  std::vector<connection_ptr> ended;
  std::erase_if(closing_, [&](const connection_ptr& each) {
    if (each->closing_since_round >= round_) return false;
    ended.push_back(each);
    return true;
  });
  for (const auto& each : ended) {
    for (auto& piece : each->landings) {
      if (!piece->outcome)
        piece->outcome = error{errc::connection_lost, "the connection was lost before the rows had landed"};
      sink_.on_landed(each->id, piece->where, std::move(*piece->outcome));
    }
    for (auto& piece : each->sends)
      report(*piece, each->reason);
    each->landings.clear();
    each->sends.clear();
    live_.erase(each->id);
    if (each->announced) sink_.on_lost(each->id, each->reason);
  }
}

}  // namespace baton::transports::detail
