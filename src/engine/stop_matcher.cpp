#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t partial_match(std::string_view text, std::string_view stop) {
  std::size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

StopMatcher::Match StopMatcher::add(std::string_view piece) {
  held_ += piece;
  std::size_t first_end = std::string::npos;
  const std::string* matched = nullptr;
  for (const std::string& stop : stop_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stop.size();
    if (matched == nullptr || end < first_end ||
        (end == first_end && stop.size() > matched->size())) {
      first_end = end;
      matched = &stop;
    }
  }
  if (matched != nullptr) {
    const std::size_t end = include_ ? first_end : first_end - matched->size();
    return {.text = held_.substr(0, end), .stop = *matched};
  }

  std::size_t keep = 0;
  for (const std::string& stop : stop_) keep = std::max(keep, partial_match(held_, stop));
  Match match = {.text = held_.substr(0, held_.size() - keep), .stop = {}};
  held_.erase(0, held_.size() - keep);
  return match;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace quire
