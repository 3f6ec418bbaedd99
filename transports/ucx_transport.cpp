#include "transports/ucx_transport.hpp"

#include <utility>

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

}  // namespace

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
