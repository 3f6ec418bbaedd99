#include "transports/ucx_transport.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <utility>

#include "transports/socket_address.hpp"
#include "transports/ucx_engine.hpp"
#include "transports/ucx_worker.hpp"

namespace baton::transports {
namespace {

detail::ucx_settings settings_of(ucx_options how) {
  detail::prepare_ucx();
  if (how.shared_memory) return {"posix", {}, how.rendezvous_bytes, false, false};
  const bool zero_copy = how.tls.find("tcp") == std::string::npos;
  return {std::move(how.tls), std::move(how.devices), how.rendezvous_bytes, zero_copy, true};
}

bool same_host(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  return a.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

std::string device_of(std::string_view address) {
  const auto at = detail::parse_address(address, false);
  ifaddrs* interfaces = nullptr;
  if (!at || ::getifaddrs(&interfaces) != 0) return {};
  std::string found;
  for (const ifaddrs* each = interfaces; each != nullptr && found.empty(); each = each->ifa_next)
    if (each->ifa_addr != nullptr && same_host(*each->ifa_addr, *at->get())) found = each->ifa_name;
  ::freeifaddrs(interfaces);
  return found.substr(0, found.find(':'));  // without the label of a second address
}

ucx_transport::ucx_transport(const ucx_options& how, frame_sink& sink)
    : engine_(std::make_unique<detail::ucx_engine>(settings_of(how), how.shared_memory, sink)) {}

ucx_transport::~ucx_transport() {
  engine_->stop();
}

capabilities ucx_transport::abilities() const {
  return engine_->abilities();
}

result<std::string> ucx_transport::listen(std::string_view address) {
  return engine_->listen(address);
}

result<connection_id> ucx_transport::connect(std::string_view address) {
  return engine_->connect(address);
}

result<void> ucx_transport::send_message(connection_id to, std::vector<std::byte> message) {
  return engine_->send_message(to, std::move(message));
}

result<void> ucx_transport::send_rows(connection_id to, std::vector<std::byte> descriptor, memory_region rows,
                                      completion done) {
  return engine_->send_rows(to, std::move(descriptor), rows, std::move(done));
}

void ucx_transport::close(connection_id which) {
  engine_->close(which);
}

std::string ucx_transport::carrier(connection_id which) const {
  return engine_->carrier(which);
}

}  // namespace baton::transports
