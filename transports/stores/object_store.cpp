#include "transports/stores/object_store.hpp"

#include <string_view>

namespace baton::transports::stores {

result<std::unique_ptr<object_store>> open_object_store(const std::string& where) {
  constexpr std::string_view file = "file:";
  if (where.starts_with(file) && where.size() > file.size()) return open_directory(where.substr(file.size()));
  return {errc::invalid_argument, "\"" + where + "\" is no object store; expected \"file:PATH\""};
}

}  // namespace baton::transports::stores
