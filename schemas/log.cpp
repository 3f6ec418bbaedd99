#include "schemas/log.hpp"

#include <mutex>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>

namespace baton {

std::shared_ptr<spdlog::logger> log_of(std::string_view room) {
  static std::mutex guard;
  const std::lock_guard lock{guard};
  const std::string name{room};
  if (auto known = spdlog::get(name)) return known;
  return spdlog::stderr_logger_mt(name);
}

void configure_log(std::string_view level, std::string_view process) {
  spdlog::set_level(spdlog::level::from_str(std::string{level}));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %L " + std::string{process} + " %n: %v");
}

}  // namespace baton
