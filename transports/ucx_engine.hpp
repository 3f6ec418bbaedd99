#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "transports/poller.hpp"
#include "transports/transport.hpp"
#include "transports/ucx_socket.hpp"
#include "transports/ucx_worker.hpp"

/// The works of `ucx_transport`: the one thread that owns UCX, the frames on their way, and the life of a
/// connection. For this room only.
namespace baton::transports::detail {

class ucx_engine;
struct ucx_connection;

enum am_id : unsigned { am_message = 1, am_rows = 2, am_greeting = 3, am_fetched = 4 };

/// Begins the header of each message and rows.
struct frame_head {
  std::uint64_t number = 0;  // on its connection, from 0: a lost or overtaken frame is noticed
  /// Rows that do not ride in the frame: where they lie in the sender's process.
  std::uint64_t lent_address = 0, lent_bytes = 0;
};

/// A frame handed to UCX, or waiting for it. Lives until UCX has called back, also when its fate was reported
/// before.
struct ucx_sending {
  std::vector<std::byte> header;   // the frame's number, then the descriptor
  std::vector<std::byte> message;  // empty for rows
  memory_region rows;
  bool is_rows = false;
  transport::completion done;
  std::size_t cost = 0;
  bool reported = false;
  std::uint64_t number = 0;
  bool lent = false;    // the peer reads the rows from our memory, and says when it has
  bool handed = false;  // UCX is done with it, the peer is not
  ucx_connection* to = nullptr;
  std::list<std::unique_ptr<ucx_sending>>::iterator self;  // in the connection's list
};

/// Rows on their way into a landing.
struct ucx_landing {
  memory_region where;
  std::optional<result<void>> outcome;  // none: UCX still writes
  bool fetch = false;                   // we read it ourselves
  ucx_connection* from = nullptr;
  std::list<std::unique_ptr<ucx_landing>>::iterator self;  // in the connection's list
};

/// One connection with a UCX context, worker and endpoint of its own: so connections cannot mix, and a broken
/// one is taken down as a whole. All but `queued_bytes` and `carrier` belongs to the engine's thread.
struct ucx_connection : std::enable_shared_from_this<ucx_connection> {
  /// sockets: the workers' addresses are exchanged. greeting: the endpoint stands, UCX wires it up. open:
  /// frames may go.
  enum class phase { sockets, greeting, open, closing };

  ucx_connection(connection_id id, ucx_engine* engine, bool accepted)
      : id(id), engine(engine), accepted(accepted), announced(!accepted) {}

  const connection_id id;
  ucx_engine* const engine;
  const bool accepted;  // the peer connected to us
  std::atomic<std::size_t> queued_bytes{0};
  std::string carrier = "ucx";  // guarded by the engine's mutex

  phase now = phase::sockets;
  bool announced;  // the sink knows of it
  std::uint64_t next_out = 0;
  std::uint64_t next_in = 0;
  std::deque<std::unique_ptr<ucx_sending>> waiting;  // until it is open
  std::list<std::unique_ptr<ucx_sending>> sends;
  std::list<std::unique_ptr<ucx_landing>> landings;
  std::optional<ucx_socket> socket;
  pid_t peer_process = 0;   // over shared memory
  unique_fd process;        // readable once the peer's process has ended
  bool reads_peer = false;  // we can read the peer's memory
  bool peer_reads = false;  // and it ours
  std::unique_ptr<ucx_worker> worker;
  ucp_ep_h endpoint = nullptr;
  bool busy = false;  // its worker has to be progressed before the thread may sleep
  bool carrier_known = false;

  bool failing = false;  // to be closed at the next round, for `reason`
  error reason{};
  bool doomed = false;  // to be closed once it is wired up
  std::uint64_t closing_since_round = 0;
  std::chrono::steady_clock::time_point
      deadline;  // of an accepted one to greet, of a doomed one to be wired up
};

/// Whether we may read the memory of `process`, tried on its probe.
bool can_read(pid_t process, const memory_probe& there);

/// The thread and all that lives on it. Public members may be called from any thread.
class ucx_engine {
 public:
  /// Starts the thread; throws std::runtime_error when UCX has no such transports or devices.
  ucx_engine(ucx_settings how, bool shared_memory, frame_sink& sink);
  /// After `stop`.
  ~ucx_engine();
  ucx_engine(const ucx_engine&) = delete;
  ucx_engine& operator=(const ucx_engine&) = delete;

  [[nodiscard]] capabilities abilities() const { return abilities_; }
  result<std::string> listen(std::string_view address);
  result<connection_id> connect(std::string_view address);
  result<void> send_message(connection_id to, std::vector<std::byte> message);
  result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         transport::completion done);
  void close(connection_id which);
  [[nodiscard]] std::string carrier(connection_id which) const;
  /// Closes everything and joins the thread. While it runs, sink calls may still call.
  void stop();

 private:
  using connection_ptr = std::shared_ptr<ucx_connection>;

  /// Runs on the thread; or a frame to send.
  struct command {
    connection_ptr to;
    std::unique_ptr<ucx_sending> send;
    std::function<void()> act;
  };

  /// Rows lent by a peer, to be read; or to be told refused.
  struct fetch {
    connection_ptr from;
    frame_head head;
    ucx_landing* into = nullptr;
    std::size_t done_bytes = 0;
  };

  // any thread
  void post(command what);
  result<void> enqueue(connection_id to, std::unique_ptr<ucx_sending> piece);

  // the loop
  void run();
  bool run_commands();
  bool progress_workers();
  void wait(int timeout_ms);
  void on_ready(int descriptor);
  void watch(int descriptor, unsigned events, const connection_ptr& owner);
  void unwatch(int descriptor);
  void make_busy(ucx_connection& which);

  // the life of a connection
  void accept_all();
  void start_connecting(const connection_ptr& which, const socket_address& to);
  result<void> make_worker(const connection_ptr& which);
  void advance_socket(const connection_ptr& which);
  result<void> make_endpoint(ucx_connection& which);
  void greet(ucx_connection& which, std::uint64_t step);
  void greeted(const connection_ptr& which, std::uint64_t step);
  void check_peer(const connection_ptr& which);
  void fail(ucx_connection& which, error reason);
  bool close_failing();
  void begin_close(const connection_ptr& which, error reason);
  void close_doomed();
  void end_endpoint(ucx_connection& which, bool wiring);
  void finish_closing();
  void drop_late_greeters();

  // frames
  void hand_to_ucx(std::unique_ptr<ucx_sending> piece);
  void send_note(ucx_connection& to, am_id id, std::array<std::uint64_t, 2> words);
  void transmit(std::unique_ptr<ucx_sending> owned, am_id id);
  void sent(ucx_sending& piece, ucs_status_t status);
  void fetched(ucx_connection& to, std::uint64_t number);
  void report(ucx_sending& piece, result<void> outcome);
  std::optional<frame_head> due(ucx_connection& from, const void* header, std::size_t header_bytes);
  std::span<const std::byte> aligned(std::span<const std::byte> bytes);
  void receive(ucx_landing& piece, void* data, std::size_t size_bytes);
  bool fetch_some();
  void landed(ucx_landing& piece, ucs_status_t status);
  void report_landings(ucx_connection& from);
  void became_active(ucx_connection& which);
  void refresh_carriers();

  // UCX's calls; the argument is the connection
  static void on_sent(void* request, ucs_status_t status, void* user_data);
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t size_bytes, const ucp_am_recv_param_t* params);
  static ucs_status_t on_rows(void* argument, const void* header, std::size_t header_bytes, void* data,
                              std::size_t size_bytes, const ucp_am_recv_param_t* params);
  static ucs_status_t on_greeting(void* argument, const void* header, std::size_t header_bytes, void* data,
                                  std::size_t size_bytes, const ucp_am_recv_param_t* params);
  static ucs_status_t on_fetched(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t size_bytes, const ucp_am_recv_param_t* params);

  const ucx_settings how_;
  const bool shared_memory_;
  frame_sink& sink_;
  const capabilities abilities_;

  mutable std::mutex mutex_;
  std::vector<command> commands_;                             // guarded by mutex_
  std::unordered_map<connection_id, connection_ptr> routes_;  // guarded by mutex_: those that take frames
  std::uint64_t next_id_ = 1;                                 // guarded by mutex_
  bool asleep_ = false;                                       // guarded by mutex_
  bool listening_ = false, ending_ = false;                   // guarded by mutex_

  // the thread's own
  std::unordered_map<connection_id, connection_ptr> live_;  // also those that are closing
  std::unordered_map<int, std::weak_ptr<ucx_connection>> watched_;
  std::vector<connection_ptr> busy_;
  std::vector<connection_ptr> failing_;
  std::vector<connection_ptr> closing_;
  std::vector<connection_ptr> wiring_;    // in phase `greeting`
  std::vector<connection_ptr> greeters_;  // accepted, not yet announced
  std::vector<std::pair<connection_ptr, std::uint64_t>> greetings_;
  std::deque<fetch> fetches_;
  std::vector<connection_ptr> carrier_due_;
  std::vector<connection_ptr> doomed_;  // closed while UCX wires them up
  std::vector<std::uint64_t> aligned_;  // scratch for what UCX hands out unaligned
  std::uint64_t round_ = 0;
  bool stopping_ = false;
  unique_fd listener_;
  poller poller_;
  std::thread thread_;
};

}  // namespace baton::transports::detail
