#include "apps/sim/scripts/postman.hpp"

#include <algorithm>
#include <utility>

namespace baton::apps::sim::scripts {

postman::postman(fabric& data, observer seen) : data_(data), seen_(std::move(seen)) {
  data_.paths.watch(this);
}

void postman::let_go() {
  std::erase_if(orders_, [](const order& it) { return it.what == deed::hold; });
  data_.flip_rows = 0;
  for (const auto& arrive : std::exchange(kept_, {}))
    arrive();
}

std::optional<postman::deed> postman::deed_for(const std::string& from, const std::string& to,
                                               const any_message& what) {
  const auto found = std::find_if(orders_.begin(), orders_.end(), [&](const order& it) {
    return it.kind == kind_of(what) && (it.from.empty() || it.from == from) && (it.to.empty() || it.to == to);
  });
  if (found == orders_.end()) return std::nullopt;
  const deed done = found->what;
  if (--found->count == 0) orders_.erase(found);
  return done;
}

int postman::on_arrival(const std::string& from, const std::string& to, const any_message& what,
                        const std::function<void()>& later) {
  data_.flip_rows = 0;
  const auto done = deed_for(from, to, what);
  if (!done) {
    seen_(from, to, what, "");
    return 1;
  }
  switch (*done) {
    case deed::drop:
      seen_(from, to, what, "lost");
      return 0;
    case deed::hold:
      seen_(from, to, what, "held");
      kept_.push_back([this, from, to, what, later] {
        seen_(from, to, what, "let go");
        later();
      });
      return 0;
    case deed::repeat:
      seen_(from, to, what, "twice");
      return 2;
    case deed::corrupt:
      seen_(from, to, what, "a byte flipped");
      data_.flip_rows = 1;
      return 1;
  }
  return 1;
}

}  // namespace baton::apps::sim::scripts
