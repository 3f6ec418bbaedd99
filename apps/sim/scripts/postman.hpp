#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/sim/fabric.hpp"
#include "apps/sim/scripts/wording.hpp"

namespace baton::apps::sim::scripts {

/// What a script has happen to messages: lost, kept back, handed over twice, or with a byte flipped.
class postman final : public tap {
 public:
  enum class deed : std::uint8_t { drop, hold, repeat, corrupt };
  /// For messages of a kind, between names; an empty name is anybody.
  struct order {
    deed what = deed::drop;
    std::string kind;
    std::string from, to;
    std::uint64_t count = 1;  ///< messages it is for; then it is void
  };
  /// Sees each message as it arrives, with what is done to it ("": nothing).
  using observer = std::function<void(const std::string& from, const std::string& to, const any_message& what,
                                      std::string_view done)>;

  /// `data`: where rows are corrupted. Watches until it is destroyed.
  postman(fabric& data, observer seen);
  ~postman() override { data_.paths.watch(nullptr); }
  postman(const postman&) = delete;
  postman& operator=(const postman&) = delete;

  void add(order what) { orders_.push_back(std::move(what)); }
  /// Nothing is held any more: what was kept arrives, in order, where the connection still stands.
  void let_go();

  int on_arrival(const std::string& from, const std::string& to, const any_message& what,
                 const std::function<void()>& later) override;

 private:
  [[nodiscard]] std::optional<deed> deed_for(const std::string& from, const std::string& to,
                                             const any_message& what);

  fabric& data_;
  observer seen_;
  std::vector<order> orders_;
  std::deque<std::function<void()>> kept_;
};

}  // namespace baton::apps::sim::scripts
