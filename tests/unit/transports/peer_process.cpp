// A peer in a process of its own, for tests that kill it:
//
//   peer_process BODY listen PID
//     prints its address, lands what comes, answers each rows with a message
//
//   peer_process BODY storm ADDRESS PID
//     connects, says a word and closes, without end, four at a time
//
//   peer_process BODY stream ADDRESS N PID
//     connects and sends rows of N bytes without end, four in flight
//
// PID is the process id of the test.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/transports/bodies.hpp"
#include "tests/unit/transports/recording_sink.hpp"

using namespace baton;
using namespace baton::transports;
using namespace baton::transports::test;

namespace {

/// Lands all rows in the same memory: nobody looks at them.
class drain : public frame_sink {
 public:
  void on_accepted(connection_id) override {}
  void on_message(connection_id from, std::span<const std::byte>) override {
    vain_ = 0;
    if (storming) net->close(from);
  }
  memory_region on_rows(connection_id, std::span<const std::byte>, std::size_t size_bytes) override {
    if (landing_.size() < size_bytes + 1) landing_.resize(size_bytes + 1);
    return region_of(landing_);
  }
  void on_landed(connection_id from, memory_region, result<void>) override {
    (void)net->send_message(from, pattern(6, 0));
  }
  void on_lost(connection_id, const error&) override {
    if (!storming || ++vain_ > 100) std::_Exit(0);
    connect();
  }

  void connect() {
    const auto to = net->connect(address);
    if (!to || !net->send_message(*to, pattern(6, 0))) std::_Exit(0);
  }

  transport* net = nullptr;
  bool storming = false;
  std::string address;

 private:
  bytes landing_;
  int vain_ = 0;  // connections lost since one last worked
};

}  // namespace

int main(int argc, char** argv) {
  // Never outlives the test, not even one that was gone before this line.
  const auto parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc > 1 && std::to_string(parent) != argv[argc - 1]) return 2;
  if (argc < 3) return 2;
  drain sink;
  const auto net = make_body(argv[1], sink);
  sink.net = net.get();
  if (std::string(argv[2]) == "listen") {
    const auto at = net->listen(any_address_of(argv[1]));
    if (!at) return 1;
    std::printf("%s\n", at->c_str());
    std::fflush(stdout);
    for (;;)
      ::pause();
  }
  if (std::string(argv[2]) == "storm" && argc > 4) {
    sink.storming = true;
    sink.address = argv[3];
    for (int i = 0; i < 4; ++i)
      sink.connect();
    for (;;)
      ::pause();
  }
  if (argc < 6) return 2;
  const auto to = net->connect(argv[3]);
  if (!to) return 1;
  bytes rows = pattern(std::stoul(argv[4]), 1);
  std::mutex mutex;
  std::condition_variable changed;
  int in_flight = 0;
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return in_flight < 4; });
    ++in_flight;
    lock.unlock();
    const auto taken = net->send_rows(*to, pattern(8, 0), region_of(rows), [&](result<void> outcome) {
      const std::lock_guard inner(mutex);
      if (!outcome) std::_Exit(0);
      --in_flight;
      changed.notify_all();
    });
    if (!taken && taken.code() != errc::no_room) return 0;
    if (!taken) {
      const std::lock_guard inner(mutex);
      --in_flight;
    }
  }
}
