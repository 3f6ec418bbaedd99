#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schemas/control.hpp"
#include "schemas/limits.hpp"

namespace baton::actors::protocol {

/// Counts the nodes that died at the same point of one turn: what a request looks like that kills, or stalls,
/// whoever runs it. A node that gave the turn up by a planned move does not count, nor does one that had made
/// a token first: a turn that gets on is not what kills. While the prompt is evaluated, nodes that died
/// before the furthest row that anybody has reached do not count either. Pure; not thread-safe.
class poison_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// `owner` has the turn from now on.
  void on_taken(const process_id& owner, time_point now) {
    owner_ = owner;
    if (owner != productive_ && !has_been_silent(owner)) silent_.push_back({owner, now});
  }
  /// So many nodes may have died of it before it began; only a token clears it of that.
  void suspect(std::uint32_t deaths) noexcept { suspected_ = deaths; }
  /// Who has it now has evaluated its rows up to here.
  void on_rows(position rows) {
    if (rows <= furthest_) return;
    furthest_ = rows;
    deaths_ = 0;
    std::erase_if(silent_, [this](const silence& it) { return it.node != owner_; });
  }
  /// Who has it now has made a token.
  void on_progress() {
    productive_ = owner_;
    silent_.clear();
    deaths_ = 0;
    suspected_ = 0;
  }
  /// Learns who has died; of whom the view says nothing, nothing is known. Who is called dead may have been
  /// suspected in error: that counts once the node cannot be `reached` either, or has had the turn for so
  /// long that its engine may have stalled.
  template <class Reached>
  void on_view(const cluster_view& view, const Reached& reached, time_point now) {
    std::erase_if(silent_, [&](const silence& it) {
      const auto found = std::find_if(view.nodes.begin(), view.nodes.end(),
                                      [&](const node_view& one) { return one.node.name == it.node.name; });
      if (found == view.nodes.end()) return false;
      const bool alive = found->alive && found->node == it.node;
      if (alive) return it.node != owner_;
      if (reached(it.node) && now - it.since < limits::engine_stalled_after) return false;
      ++deaths_;
      return true;
    });
  }

  /// At the point where the turn is.
  [[nodiscard]] std::uint32_t deaths() const noexcept { return suspected_ + deaths_; }
  /// How many that may be, if those whose place `next` takes have died as well.
  [[nodiscard]] std::uint32_t possible_deaths(const process_id& next) const {
    const auto others = silent_.size() - (has_been_silent(next) ? 1 : 0);
    return deaths() + static_cast<std::uint32_t>(others);
  }
  /// Whether `node` has it now, and has got on with it in no way.
  [[nodiscard]] bool silent_at(const process_id& node) const {
    return owner_ == node && has_been_silent(node);
  }

 private:
  /// A node that has had the turn since then, has got no further with it, and is not known to be dead.
  struct silence {
    process_id node;
    time_point since{};
  };
  [[nodiscard]] bool has_been_silent(const process_id& node) const {
    return std::ranges::find(silent_, node, &silence::node) != silent_.end();
  }

  process_id owner_;
  process_id productive_;  // made the last token
  std::vector<silence> silent_;
  position furthest_ = 0;
  std::uint32_t deaths_ = 0;
  std::uint32_t suspected_ = 0;
};

/// Prompts that nodes have died of, by hash, for a time. One that only looked like poison, since two nodes
/// were lost at once, gets another chance, when that costs one node of many. Pure; not thread-safe.
class poison_list {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit poison_list(std::chrono::milliseconds remembered) : remembered_(remembered) {}

  /// Nodes have died of it, once more.
  void add(std::uint64_t prompt, time_point now) {
    if (prompts_.size() >= limits::poison_prompts && !prompts_.contains(prompt)) return;
    entry& it = prompts_[prompt];
    it.forgotten_at = now + remembered_;
    ++it.times;
  }
  /// It has got on after all.
  void clear(std::uint64_t prompt) { prompts_.erase(prompt); }

  enum class verdict : std::uint8_t { unknown, suspect, refused };
  /// Whether it may be run; `whole`: all nodes are there, and more than one.
  verdict judge(std::uint64_t prompt, bool whole, time_point now) {
    std::erase_if(prompts_, [&](const auto& it) { return it.second.forgotten_at <= now; });
    const auto known = prompts_.find(prompt);
    if (known == prompts_.end()) return verdict::unknown;
    return whole && known->second.times == 1 ? verdict::suspect : verdict::refused;
  }
  [[nodiscard]] bool empty() const noexcept { return prompts_.empty(); }

 private:
  struct entry {
    time_point forgotten_at{};
    std::uint32_t times = 0;
  };
  std::chrono::milliseconds remembered_;
  std::map<std::uint64_t, entry> prompts_;
};

}  // namespace baton::actors::protocol
