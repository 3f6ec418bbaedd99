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
  /// `owner` has the turn from now on.
  void on_taken(const process_id& owner) {
    owner_ = owner;
    if (owner != productive_ && !has_been_silent(owner)) silent_.push_back(owner);
  }
  /// So many nodes may have died of it before it began; only a token clears it of that.
  void suspect(std::uint32_t deaths) noexcept { suspected_ = deaths; }
  /// Who has it now has evaluated its rows up to here.
  void on_rows(position rows) {
    if (rows <= furthest_) return;
    furthest_ = rows;
    deaths_ = 0;
    std::erase_if(silent_, [this](const process_id& node) { return node != owner_; });
  }
  /// Who has it now has made a token.
  void on_progress() {
    productive_ = owner_;
    silent_.clear();
    deaths_ = 0;
    suspected_ = 0;
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

  /// At the point where the turn is.
  [[nodiscard]] std::uint32_t deaths() const noexcept { return suspected_ + deaths_; }
  /// How many that may be, if those whose place `next` takes have died as well.
  [[nodiscard]] std::uint32_t possible_deaths(const process_id& next) const {
    const auto others = silent_.size() - static_cast<std::size_t>(std::ranges::count(silent_, next));
    return deaths() + static_cast<std::uint32_t>(others);
  }
  /// Whether `node` has it now, and has got on with it in no way.
  [[nodiscard]] bool silent_at(const process_id& node) const {
    return owner_ == node && has_been_silent(node);
  }

 private:
  [[nodiscard]] bool has_been_silent(const process_id& node) const {
    return std::ranges::count(silent_, node) > 0;
  }

  process_id owner_;
  process_id productive_;           // made the last token
  std::vector<process_id> silent_;  // have had it since, and got no further; not known to be dead
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
