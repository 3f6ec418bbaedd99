#include "transports/poller.hpp"

#include <sys/eventfd.h>

#include <array>
#include <stdexcept>

namespace baton::transports::detail {

poller::poller() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!wake_ || !epoll_) throw std::runtime_error("transport: no file descriptors left");
  watch(wake_.get(), EPOLLIN);
}

void poller::watch(int descriptor, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) != 0)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void poller::unwatch(int descriptor) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void poller::wait(int timeout_ms, const std::function<void(int, unsigned)>& ready) {
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd != wake_.get()) {
      ready(event.data.fd, event.events);
      continue;
    }
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
  }
}

void poller::wake() {
  ::eventfd_write(wake_.get(), 1);
}

}  // namespace baton::transports::detail
