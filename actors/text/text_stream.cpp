#include "actors/text/text_stream.hpp"

#include <algorithm>
#include <utility>

namespace baton::actors::text {

text_stream::text_stream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

text_piece text_stream::release(std::size_t bytes) {
  text_piece piece;
  piece.text = held_.substr(0, bytes);
  held_.erase(0, bytes);
  shown_bytes_ += bytes;
  while (!token_ends_.empty() && token_ends_.front() <= shown_bytes_) {
    token_ends_.pop_front();
    ++piece.tokens;
  }
  return piece;
}

std::size_t text_stream::whole(std::size_t bytes) const {
  while (bytes > 0 && bytes < held_.size() && (static_cast<unsigned char>(held_[bytes]) & 0xC0) == 0x80)
    --bytes;
  return bytes;
}

std::optional<text_piece> text_stream::cut() {
  std::size_t stop_at = std::string::npos;
  for (const std::string& stop : stops_)
    stop_at = std::min(stop_at, held_.find(stop));
  if (stop_at == std::string::npos) return std::nullopt;
  stopped_ = true;
  text_piece piece = release(whole(stop_at));
  piece.stopped = true;
  return piece;
}

text_piece text_stream::feed(std::string_view bytes) {
  if (stopped_) return {};
  ++fed_;
  const std::string complete = characters_.feed(bytes);
  held_ += complete;
  made_bytes_ += complete.size();
  // A token whose character is not complete yet ends where that character will end: one byte further at
  // least.
  token_ends_.push_back(made_bytes_ + (characters_.held_bytes() > 0 ? 1 : 0));

  if (auto piece = cut()) return *std::move(piece);
  // Hold back the longest end that begins a stop string.
  std::size_t hold = 0;
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > hold; --n)
      if (std::string_view{held_}.ends_with(std::string_view{stop}.substr(0, n))) hold = n;
  return release(whole(held_.size() - hold));
}

text_piece text_stream::finish() {
  if (stopped_) return {};
  const std::string tail = characters_.finish();
  held_ += tail;
  made_bytes_ += tail.size();
  if (auto piece = cut())  // the replacement of a broken character can complete a stop string
    return *std::move(piece);
  return release(held_.size());
}

}  // namespace baton::actors::text
