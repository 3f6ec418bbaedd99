#include "actors/stores/etcd_client.hpp"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

namespace baton::actors::stores {

namespace {

constexpr std::size_t longest_answer = std::size_t{64} << 20;

std::size_t take(const char* data, std::size_t size, std::size_t count, void* into) {
  auto& text = *static_cast<std::string*>(into);
  if (text.size() + size * count > longest_answer) return 0;
  text.append(data, size * count);
  return size * count;
}

}  // namespace

struct etcd_client::connection {
  struct cleanup {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::unique_ptr<CURL, cleanup> handle{curl_easy_init()};
  std::unique_ptr<curl_slist, cleanup> headers;
};

struct etcd_client::reply {
  bool arrived = true;  ///< false: the member cannot have got the request
  result<nlohmann::json> answer;
};

etcd_client::etcd_client(std::vector<std::string> members, std::chrono::milliseconds patience)
    : members_(std::move(members)), patience_(patience), connection_(std::make_unique<connection>()) {
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  // A member that has lost its leader says so at once, instead of waiting for one.
  headers = curl_slist_append(headers, "Grpc-Metadata-hasleader: true");
  connection_->headers.reset(headers);
  CURL* handle = connection_->handle.get();
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
}

etcd_client::~etcd_client() = default;

etcd_client::reply etcd_client::post(const std::string& path, const std::string& body,
                                     clock::time_point deadline) {
  const std::string& member = members_[now_at_];
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now());
  CURL* handle = connection_->handle.get();
  const std::string url = member + path;
  std::string text;
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &text);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(1, left.count())));
  const CURLcode code = curl_easy_perform(handle);
  if (code != CURLE_OK) {
    const bool arrived = code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST;
    return {arrived, {errc::io_failed, "etcd " + member + ": " + curl_easy_strerror(code)}};
  }
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  auto answer = nlohmann::json::parse(text, nullptr, false);
  if (status != 200 || !answer.is_object())
    return {true,
            {errc::io_failed, "etcd " + member + ": status " + std::to_string(status) + ": " +
                                  (answer.is_object() ? answer.value("error", "") : "no JSON")}};
  return {true, std::move(answer)};
}

result<nlohmann::json> etcd_client::try_members(const std::string& path, const nlohmann::json& body,
                                                bool repeatable) {
  const std::string text = body.dump();
  const auto deadline = clock::now() + patience_;
  result<nlohmann::json> last{errc::io_failed, "etcd: no members"};
  for (std::size_t left = members_.size(); left > 0; --left) {
    // What a frozen member costs must leave time to ask another.
    const auto until =
        repeatable ? clock::now() + (deadline - clock::now()) / static_cast<std::ptrdiff_t>(left) : deadline;
    reply out = post(path, text, until);
    if (out.answer) return std::move(out.answer);
    last = out.answer.failure();
    now_at_ = (now_at_ + 1) % members_.size();
    if (out.arrived && !repeatable) break;
  }
  return last;
}

result<nlohmann::json> etcd_client::ask(const std::string& path, const nlohmann::json& body) {
  return try_members(path, body, true);
}

result<nlohmann::json> etcd_client::write(const std::string& path, const nlohmann::json& body) {
  return try_members(path, body, false);
}

std::string etcd_client::to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and the zero that is written behind it
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

result<std::string> etcd_client::from_base64(std::string_view text) {
  std::string bytes(3 * (text.size() / 4), '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0 || text.size() % 4 != 0) return {errc::malformed, "no base64"};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

}  // namespace baton::actors::stores
