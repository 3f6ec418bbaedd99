#include "transports/ucx_worker.hpp"

#include <ucs/config/global_opts.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace baton::transports::detail {
namespace {

errc code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_CANCELED:
      return errc::cancelled;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return errc::no_room;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return errc::invalid_argument;
    case UCS_ERR_TIMED_OUT:
      return errc::timed_out;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return errc::unsupported;
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
      return errc::connection_lost;
    default:
      return errc::io_failed;
  }
}

/// Modifies a setting of `config`, unless it is empty or the user has said otherwise and may.
ucs_status_t set(ucp_config_t* config, const char* key, const std::string& value, bool user_may = true) {
  if (value.empty() || (user_may && std::getenv((std::string("UCX_") + key).c_str()) != nullptr))
    return UCS_OK;
  return ucp_config_modify(config, key, value.c_str());
}

}  // namespace

error translate(ucs_status_t status, std::string_view doing) {
  return {code_of(status), std::string(doing) + ": " + ucs_status_string(status)};
}

void prepare_ucx() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("UCX_POSIX_ERROR_HANDLING", "y", 0);
    // UCX has read its log level as it was loaded: the variable would come too late.
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  });
}

result<std::unique_ptr<ucx_worker>> ucx_worker::create(const ucx_settings& settings) {
  std::unique_ptr<ucx_worker> made(new ucx_worker);
  ucp_config_t* config = nullptr;
  if (auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return translate(status, "reading the UCX configuration");
  const std::string threshold =
      settings.rendezvous_bytes == 0 ? std::string() : std::to_string(settings.rendezvous_bytes);
  auto status = set(config, "TLS", settings.tls, settings.tls_may_be_overridden);
  if (status == UCS_OK) status = set(config, "NET_DEVICES", settings.devices);
  if (status == UCS_OK) status = set(config, "RNDV_THRESH", threshold);
  // UCX 1.13 aborts the process when a peer resets a tcp connection that is being closed here with a send
  // from user memory on its way (comp->count > 0 in uct_iface.h). Sends through its own buffers cost a copy
  // and never do.
  if (status == UCS_OK && !settings.zero_copy) status = set(config, "ZCOPY_THRESH", "inf");
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucp_init(&params, config, &made->context_);
  }
  ucp_config_release(config);
  if (status != UCS_OK) return translate(status, "starting UCX with transports " + settings.tls);

  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  params.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX;
  status = ucp_worker_create(made->context_, &params, &made->worker_);
  if (status == UCS_OK) status = ucp_worker_get_efd(made->worker_, &made->event_fd_);
  if (status != UCS_OK) return translate(status, "making a UCX worker with transports " + settings.tls);
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = ucp_worker_query(made->worker_, &attributes);
  if (status != UCS_OK) return translate(status, "asking a UCX worker for its limits");
  made->max_header_bytes_ = attributes.max_am_header;
  return made;
}

ucx_worker::~ucx_worker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

result<void> ucx_worker::handle_active_message(unsigned id, ucp_am_recv_callback_t handler, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  params.id = id;
  params.cb = handler;
  params.arg = argument;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  if (auto status = ucp_worker_set_am_recv_handler(worker_, &params); status != UCS_OK)
    return translate(status, "setting an active-message handler");
  return {};
}

result<std::vector<std::byte>> ucx_worker::address() const {
  ucp_address_t* raw = nullptr;
  std::size_t size_bytes = 0;
  if (auto status = ucp_worker_get_address(worker_, &raw, &size_bytes); status != UCS_OK)
    return translate(status, "asking a UCX worker for its address");
  const auto* bytes = reinterpret_cast<const std::byte*>(raw);
  std::vector<std::byte> copy(bytes, bytes + size_bytes);
  ucp_worker_release_address(worker_, raw);
  return copy;
}

std::string lanes_of(ucp_ep_h endpoint) {
  char* text = nullptr;
  std::size_t size_bytes = 0;
  std::FILE* stream = ::open_memstream(&text, &size_bytes);
  if (stream == nullptr) return {};
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string report(text, size_bytes);
  std::free(text);

  // Lines of the form "# lane[2]:  1:tcp/lo.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup".
  std::string lanes;
  std::set<std::string> seen;
  for (std::size_t at = report.find("lane["); at != std::string::npos; at = report.find("lane[", at + 1)) {
    const auto line = report.substr(at, report.find('\n', at) - at);
    const auto path = line.find('/');
    if (path == std::string::npos || line.find(" am") == std::string::npos)
      continue;  // a connection manager's lane
    auto begin = line.rfind(':', path);
    auto end = line.find_first_of(" \t", path);
    if (begin == std::string::npos || end == std::string::npos) continue;
    auto name = line.substr(begin + 1, end - begin - 1);
    name = name.substr(0, name.rfind('.'));  // the path index within the device
    if (!seen.insert(name).second) continue;
    if (!lanes.empty()) lanes += ' ';
    lanes += name;
  }
  return lanes;
}

}  // namespace baton::transports::detail
