#pragma once

#include <utility>

#include <caf/all.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "actors/completion_service.hpp"
#include "actors/interfaces.hpp"

namespace baton::actors {

/// What clients' threads ask of the gateway actor.
struct submit_turn {
  turn_handle handle{};
  std::shared_ptr<completion_request> request;
  completion_service::receiver events;
};
struct cancel_turn {
  turn_handle handle{};
};

}  // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::submit_turn)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::cancel_turn)

namespace baton::actors {

using gateway_core_actor = gateway_actor::extend<caf::reacts_to<submit_turn>, caf::reacts_to<cancel_turn>,
                                                 caf::reacts_to<tick_atom>>;

/// What other threads may read of a gateway.
struct gateway_snapshot {
  std::mutex guard;
  std::string status = "{}";
  std::string metrics;
  std::atomic<bool> ready{false};
};

/// The gateway as the threads of its clients see it.
class gateway_service final : public completion_service {
 public:
  gateway_service(gateway_core_actor actor, std::shared_ptr<const engines::tokenizer> text,
                  std::shared_ptr<gateway_snapshot> snapshot)
      : actor_(std::move(actor)), text_(std::move(text)), snapshot_(std::move(snapshot)) {}

  turn_handle submit(completion_request request, receiver events) override {
    const turn_handle handle{next_.fetch_add(1)};
    caf::anon_send(actor_, submit_turn{handle, std::make_shared<completion_request>(std::move(request)),
                                       std::move(events)});
    return handle;
  }
  void cancel(turn_handle which) override { caf::anon_send(actor_, cancel_turn{which}); }
  [[nodiscard]] const engines::tokenizer& text() const override { return *text_; }
  [[nodiscard]] bool ready() const override { return snapshot_->ready; }
  [[nodiscard]] std::string status_json() const override {
    const std::lock_guard lock{snapshot_->guard};
    return snapshot_->status;
  }
  [[nodiscard]] std::string metrics_text() const override {
    const std::lock_guard lock{snapshot_->guard};
    return snapshot_->metrics;
  }

 private:
  gateway_core_actor actor_;
  std::shared_ptr<const engines::tokenizer> text_;
  std::shared_ptr<gateway_snapshot> snapshot_;
  std::atomic<std::uint64_t> next_{1};
};

}  // namespace baton::actors
