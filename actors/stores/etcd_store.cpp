#include <algorithm>
#include <charconv>
#include <random>
#include <utility>

#include "actors/stores/etcd_client.hpp"
#include "actors/stores/record_store.hpp"
#include "schemas/codec.hpp"

/// Records in etcd (its API, version 3). A record's revision is the `mod_revision` of its key; its epoch,
/// where the change made a new one, is that too, and then written as 0. Each write compares the term as well:
/// what an orchestrator of an older term still has on its way is refused.
namespace baton::actors::stores {

namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds patience{1000};
constexpr int most_attempts = 8;

result<std::uint64_t> number_in(const json& object, const char* name) {
  std::uint64_t value = 0;
  if (!object.is_object() || !object.contains(name)) return value;  // a zero is left out
  const json& it = object[name];
  if (it.is_number_unsigned()) return it.get<std::uint64_t>();
  if (!it.is_string()) return {errc::malformed, std::string{"etcd: "} + name + " is no number"};
  const auto& text = it.get_ref<const std::string&>();
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc{} || end != text.data() + text.size())
    return {errc::malformed, std::string{"etcd: "} + name + " is no number"};
  return value;
}

/// The keys and values of the answer to a range.
json pairs_in(const json& answer) {
  return answer.is_object() && answer.contains("kvs") && answer["kvs"].is_array() ? answer["kvs"]
                                                                                  : json::array();
}

class etcd_store final : public record_store {
 public:
  etcd_store(std::vector<std::string> members, const std::string& cluster)
      : client_(std::move(members), patience),
        store_key_(etcd_client::to_base64("/baton/" + cluster + "/store")),
        term_key_(etcd_client::to_base64("/baton/" + cluster + "/term")),
        groups_("/baton/" + cluster + "/groups/") {}

  result<office> begin_term() override {
    auto store = identity();
    if (!store) return store.failure();
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      auto found = client_.ask("/v3/kv/range", {{"key", term_key_}});
      if (!found) return found.failure();
      const json pairs = pairs_in(*found);
      std::uint64_t last = 0;
      std::uint64_t revision = 0;
      if (!pairs.empty()) {
        auto known = written_in(pairs[0]);
        auto at = number_in(pairs[0], "mod_revision");
        if (!known) return known.failure();
        if (!at) return at.failure();
        last = *known;
        revision = *at;
      }
      const std::uint64_t next = last + 1;
      // Whether or not an attempt before this one was carried out late: a term that we skip does no harm.
      auto begun = client_.ask(
          "/v3/kv/txn",
          {{"compare", json::array({compare_revision(term_key_, revision)})},
           {"success", json::array({put(term_key_, etcd_client::to_base64(std::to_string(next)))})}});
      if (!begun) return begun.failure();
      if (begun->value("succeeded", false)) return office{term_ = next, *store};
    }
    return {errc::conflict, "etcd: others begin terms all the time"};
  }

  result<std::vector<group_record>> load() override {
    std::string end = groups_;
    ++end.back();
    auto found = client_.ask("/v3/kv/range", {{"key", etcd_client::to_base64(groups_)},
                                              {"range_end", etcd_client::to_base64(end)}});
    if (!found) return found.failure();
    std::vector<group_record> records;
    for (const json& pair : pairs_in(*found)) {
      auto record = record_in(pair);
      if (!record) return record.failure();
      records.push_back(std::move(*record));
    }
    std::ranges::sort(records, {}, [](const group_record& it) { return raw(it.group); });
    return records;
  }

  result<group_record> swap(group_record desired, std::uint64_t expected, bool new_epoch) override {
    desired.revision = 0;
    if (new_epoch) desired.epoch = {};
    const std::string key = etcd_client::to_base64(groups_ + std::to_string(raw(desired.group)));
    const auto bytes = encode(desired);
    const std::string value =
        etcd_client::to_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const std::string term = etcd_client::to_base64(std::to_string(term_));
    auto written = client_.write(
        "/v3/kv/txn",
        {{"compare",
          json::array({{{"key", term_key_}, {"target", "VALUE"}, {"result", "EQUAL"}, {"value", term}},
                       compare_revision(key, expected)})},
         {"success", json::array({put(key, value)})},
         {"failure", json::array({{{"request_range", {{"key", term_key_}}}}})}});
    if (!written) return written.failure();
    if (!written->value("succeeded", false)) return refusal(*written, expected);
    auto revision = number_in(written->value("header", json::object()), "revision");
    if (!revision) return revision.failure();
    desired.revision = *revision;
    if (new_epoch) desired.epoch = epoch{*revision};
    return desired;
  }

 private:
  static json compare_revision(const std::string& key, std::uint64_t revision) {
    return {{"key", key}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", std::to_string(revision)}};
  }
  static json put(const std::string& key, const std::string& value) {
    return {{"request_put", {{"key", key}, {"value", value}}}};
  }

  static result<std::string> value_in(const json& pair) {
    return etcd_client::from_base64(pair.is_object() ? pair.value("value", "") : "");
  }

  static result<std::uint64_t> written_in(const json& pair) {
    auto text = value_in(pair);
    if (!text) return text.failure();
    return number_in({{"value", *text}}, "value");
  }

  /// Whoever comes first draws it.
  result<std::uint64_t> identity() {
    std::random_device random;
    const std::uint64_t drawn = ((std::uint64_t{random()} << 30) ^ random()) | 1;
    auto made = client_.ask(
        "/v3/kv/txn",
        {{"compare", json::array({compare_revision(store_key_, 0)})},
         {"success", json::array({put(store_key_, etcd_client::to_base64(std::to_string(drawn)))})}});
    if (!made) return made.failure();
    auto found = client_.ask("/v3/kv/range", {{"key", store_key_}});
    if (!found) return found.failure();
    const json pairs = pairs_in(*found);
    if (pairs.empty()) return {errc::io_failed, "etcd: the number of the store is gone"};
    return written_in(pairs[0]);
  }

  static result<group_record> record_in(const json& pair) {
    auto bytes = value_in(pair);
    auto revision = number_in(pair, "mod_revision");
    if (!bytes || !revision) return {errc::io_failed, "etcd: a damaged record"};
    auto record = decode<group_record>(std::as_bytes(std::span{*bytes}));
    if (!record) return {errc::io_failed, "etcd: a damaged record: " + record.failure().what};
    record->revision = *revision;
    if (raw(record->epoch) == 0) record->epoch = epoch{*revision};
    return record;
  }

  [[nodiscard]] error refusal(const json& answer, std::uint64_t expected) const {
    const json found = answer.contains("responses") && !answer["responses"].empty()
                           ? pairs_in(answer["responses"][0].value("response_range", json::object()))
                           : json::array();
    const auto term = found.empty() ? result<std::uint64_t>{std::uint64_t{0}} : written_in(found[0]);
    if (term && *term == term_) return {errc::conflict, "revision is not " + std::to_string(expected)};
    return {errc::stale_epoch, "another orchestrator has begun a term after " + std::to_string(term_)};
  }

  etcd_client client_;
  std::string store_key_, term_key_;  // base64
  std::string groups_;                // what the keys of records begin with
  std::uint64_t term_ = 0;
};

}  // namespace

result<std::unique_ptr<record_store>> open_etcd_store(std::vector<std::string> members,
                                                      const std::string& cluster) {
  return std::unique_ptr<record_store>{std::make_unique<etcd_store>(std::move(members), cluster)};
}

}  // namespace baton::actors::stores
