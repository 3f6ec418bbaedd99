#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "transports/transport.hpp"

namespace baton::transports {

/// What goes wrong, and when. Equal faults over equal frames go wrong equally.
struct faults {
  std::uint64_t seed = 1;               ///< decides which byte is flipped and which message is doubled
  std::set<std::uint64_t> drop_rows;    ///< arriving rows, counted from 1, that are dropped as if never sent
  std::set<std::uint64_t> flip_rows;    ///< arriving rows, counted from 1, of which one bit is flipped
  double duplicate_messages = 0;        ///< chance that an arriving message is delivered twice
  std::chrono::milliseconds delay{0};   ///< by which each frame sent is held back, in order
  std::chrono::milliseconds jitter{0};  ///< added to `delay`, between 0 and this
};

/// For tests: any transport, with faults that real networks have. Faults of arriving frames are counted over
/// all connections of this transport. With no faults it keeps the contract, but for one word: calls of the
/// sink come from two threads, still never at once.
class faulty_transport final : public transport, private frame_sink {
 public:
  using maker = std::function<std::unique_ptr<transport>(frame_sink&)>;

  /// What has gone wrong so far.
  struct tally {
    std::uint64_t dropped_rows = 0, flipped_rows = 0, duplicated_messages = 0, swallowed_frames = 0;
  };

  /// Makes the inner transport; `sink` must outlive this one.
  faulty_transport(frame_sink& sink, faults how, const maker& make);
  ~faulty_transport() override;

  /// Partitions this node from all others, silently: frames both ways are swallowed, completions of swallowed
  /// rows wait for the end of their connection, a peer's close is not seen, new connections neither come
  /// about nor fail.
  void cut();
  /// Ends the partition. What was swallowed stays lost, also on connections that live on: here frames are
  /// lost within a living connection, against the contract. Ends of connections that were not seen are
  /// reported now.
  void heal();
  [[nodiscard]] tally so_far() const;

  [[nodiscard]] capabilities abilities() const override;
  result<std::string> listen(std::string_view address) override;
  result<connection_id> connect(std::string_view address) override;
  result<void> send_message(connection_id to, std::vector<std::byte> message) override;
  result<void> send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                         completion done) override;
  void close(connection_id which) override;
  [[nodiscard]] std::string carrier(connection_id which) const override;

 private:
  using clock = std::chrono::steady_clock;

  struct frame {
    clock::time_point due;
    connection_id to{};
    bool is_rows = false;
    std::vector<std::byte> head;
    memory_region rows;
    completion done;
    std::size_t cost = 0;
  };

  void on_accepted(connection_id from) override;
  void on_message(connection_id from, std::span<const std::byte> message) override;
  memory_region on_rows(connection_id from, std::span<const std::byte> descriptor,
                        std::size_t size_bytes) override;
  void on_landed(connection_id from, memory_region landing, result<void> outcome) override;
  void on_lost(connection_id from, const error& reason) override;

  result<void> send(frame piece);
  result<void> forward(frame& piece);
  void deliver_lost(connection_id which, const error& reason);
  void run();
  std::uint64_t next_random();

  frame_sink& sink_;
  const faults how_;
  std::mutex sink_mutex_;  // held while the sink or a completion runs; never taken under mutex_

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<frame> delayed_;
  std::map<connection_id, std::size_t> delayed_bytes_;
  std::deque<std::pair<connection_id, error>> to_report_;       // lost, to be said by our own thread
  std::map<connection_id, error> unseen_;                       // lost during a cut
  std::map<connection_id, std::vector<completion>> swallowed_;  // their rows never went out
  std::set<connection_id> live_, closed_here_;                  // open; of them those given to `close`
  std::set<connection_id> hopeless_, ignored_;                  // begun during a cut; accepted during a cut
  std::map<std::byte*, std::size_t> to_flip_;
  tally tally_;
  std::uint64_t rows_seen_ = 0;
  std::uint64_t random_ = 0;
  std::uint64_t next_hopeless_ = std::uint64_t{1} << 63;
  bool cut_ = false, closing_ = false, done_ = false;
  std::unique_ptr<transport> inner_;  // touched under mutex_, until closing_
  const capabilities abilities_;
  std::thread thread_;
};

}  // namespace baton::transports
