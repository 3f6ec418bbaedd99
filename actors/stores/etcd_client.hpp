#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/errors.hpp"

namespace baton::actors::stores {

/// Asks the members of an etcd cluster through the JSON gateway of its v3 API. One that does not answer in
/// time is left for the next. Not thread-safe; a call returns within `patience`.
class etcd_client {
 public:
  /// "http://host:port" of each member.
  etcd_client(std::vector<std::string> members, std::chrono::milliseconds patience);
  ~etcd_client();
  etcd_client(const etcd_client&) = delete;
  etcd_client& operator=(const etcd_client&) = delete;

  /// A read, or a write that does no harm if it is carried out twice or late. All members are tried.
  result<nlohmann::json> ask(const std::string& path, const nlohmann::json& body);
  /// A write. Another member is tried only if the first cannot have got it; `io_failed` says that it may have
  /// been carried out, or may be yet.
  result<nlohmann::json> write(const std::string& path, const nlohmann::json& body);

  [[nodiscard]] static std::string to_base64(std::string_view bytes);
  [[nodiscard]] static result<std::string> from_base64(std::string_view text);

 private:
  struct reply;
  using clock = std::chrono::steady_clock;
  reply post(const std::string& path, const std::string& body, clock::time_point deadline);
  result<nlohmann::json> try_members(const std::string& path, const nlohmann::json& body, bool repeatable);

  std::vector<std::string> members_;
  std::chrono::milliseconds patience_;
  std::size_t now_at_ = 0;  // the member that answered last
  struct connection;
  std::unique_ptr<connection> connection_;
};

}  // namespace baton::actors::stores
