#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transports/stores/object_store.hpp"

namespace baton::test {

/// Objects in memory; fails when told to.
class memory_store final : public transports::stores::object_store {
 public:
  using bytes = transports::stores::bytes;

  [[nodiscard]] const std::string& where() const noexcept override { return where_; }

  result<void> put(const std::string& key, std::span<const std::byte> object) override {
    if (failing.contains(++puts)) return {errc::io_failed, "told to fail"};
    objects[key] = {object.begin(), object.end()};
    written.push_back(key);
    return {};
  }
  result<bytes> get(const std::string& key, std::size_t most) override {
    const auto found = objects.find(key);
    if (found == objects.end()) return {errc::not_found, key};
    if (found->second.size() > most) return {errc::no_room, key};
    return found->second;
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    std::vector<std::string> keys;
    for (const auto& [key, object] : objects)
      if (folder.empty() || key.starts_with(folder + "/")) keys.push_back(key);
    return keys;
  }
  result<void> remove(const std::string& key) override {
    objects.erase(key);
    return {};
  }

  std::map<std::string, bytes> objects;
  std::vector<std::string> written;  // in order
  int puts = 0;
  std::set<int> failing;  // puts by number, from 1

 private:
  std::string where_ = "memory:";
};

}  // namespace baton::test
