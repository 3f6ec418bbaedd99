#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/control.hpp"

namespace baton::actors::protocol {

/// Counts the nodes that died while they had one turn and had made no token of it: what a request looks like
/// that kills, or stalls, whoever runs it. A node that gave the turn up by a planned move does not count, nor
/// does one that had made a token first: a turn that gets on is not what kills. Pure; not thread-safe.
class poison_watch {
 public:
  /// `owner` has the turn from now on.
  void on_taken(const process_id& owner) {
    owner_ = owner;
    if (owner != productive_ && std::find(silent_.begin(), silent_.end(), owner) == silent_.end())
      silent_.push_back(owner);
  }
  /// Who has it now has made a token.
  void on_progress() {
    productive_ = owner_;
    silent_.clear();
    deaths_ = 0;
  }
  /// Learns who has died; of whom the view says nothing, nothing is known.
  void on_view(const cluster_view& view) {
    std::erase_if(silent_, [&](const process_id& node) {
      const auto found = std::find_if(view.nodes.begin(), view.nodes.end(),
                                      [&](const node_view& it) { return it.node.name == node.name; });
      if (found == view.nodes.end()) return false;
      const bool alive = found->alive && found->node == node;
      if (!alive) ++deaths_;
      return !alive || node != owner_;
    });
  }

  /// Since the last token.
  [[nodiscard]] std::uint32_t deaths() const noexcept { return deaths_; }
  /// How many that may be, if those whose place `next` takes have died as well.
  [[nodiscard]] std::uint32_t possible_deaths(const process_id& next) const {
    const auto others = silent_.size() - static_cast<std::size_t>(std::ranges::count(silent_, next));
    return deaths_ + static_cast<std::uint32_t>(others);
  }

 private:
  process_id owner_;
  process_id productive_;           // made the last token
  std::vector<process_id> silent_;  // have had it since, and made none; not known to be dead
  std::uint32_t deaths_ = 0;
};

}  // namespace baton::actors::protocol
