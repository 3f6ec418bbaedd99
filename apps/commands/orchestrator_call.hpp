#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "schemas/errors.hpp"

namespace baton::apps {

/// False, and said on standard error, if that is no address of an orchestrator.
bool is_orchestrator(const std::string& address);

/// What `work` returns, or `timed_out`. Connecting to a frozen process cannot be given up, so it happens on a
/// thread that may be left behind: a program that calls this ends by `_exit`.
template <class Value>
result<Value> within(std::chrono::milliseconds time, const std::string& orchestrator,
                     std::function<result<Value>()> work) {
  std::promise<result<Value>> promise;
  auto answer = promise.get_future();
  std::thread([work = std::move(work), promise = std::move(promise)]() mutable {
    promise.set_value(work());
  }).detach();
  if (answer.wait_for(time) == std::future_status::ready) return answer.get();
  return {errc::timed_out,
          "orchestrator " + orchestrator + ": no answer within " + std::to_string(time.count()) + " ms"};
}

}  // namespace baton::apps
