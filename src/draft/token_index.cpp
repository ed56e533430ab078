#include "draft/token_index.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/random.h"

namespace quire {

TokenIndex::TokenIndex(std::size_t capacity, std::span<const std::int32_t> grams)
    : mask_(std::bit_ceil(std::max<std::size_t>(capacity, 1)) - 1) {
  levels_.reserve(grams.size());
  for (const std::int32_t gram : grams) {
    Level& level = levels_.emplace_back();
    level.gram = gram;
    level.heads.assign(mask_ + 1, -1);
    level.previous.assign(capacity + 1, -1);
  }
}

std::uint64_t TokenIndex::bytes(std::size_t capacity, std::size_t num_grams) {
  const std::size_t heads = std::bit_ceil(std::max<std::size_t>(capacity, 1));
  return std::uint64_t{num_grams} * (heads + capacity + 1) * sizeof(std::int32_t);
}

void TokenIndex::clear() {
  for (Level& level : levels_) std::ranges::fill(level.heads, -1);
  size_ = 0;
}

std::size_t TokenIndex::slot_of(const Level& level, std::span<const TokenId> gram) const {
  std::uint64_t hash = static_cast<std::uint64_t>(level.gram);
  for (const TokenId token : gram) {
    hash = mix64(hash ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)));
  }
  return static_cast<std::size_t>(hash) & mask_;
}

void TokenIndex::extend(std::span<const TokenId> text, std::size_t end) {
  assert(end <= text.size());
  for (std::size_t at = size_ + 1; at <= end; ++at) {
    for (Level& level : levels_) {
      const auto gram = static_cast<std::size_t>(level.gram);
      if (at < gram || at >= level.previous.size()) continue;
      std::int32_t& head = level.heads[slot_of(level, text.subspan(at - gram, gram))];
      level.previous[at] = head;
      head = static_cast<std::int32_t>(at);
    }
  }
  size_ = std::max(size_, end);
}

void TokenIndex::find(std::span<const TokenId> text, std::span<const TokenId> context,
                      std::int32_t max_length, std::vector<Match>& matches) const {
  matches.clear();
  const auto common = [&](std::size_t end) {
    const std::size_t most =
        std::min({end, context.size(), static_cast<std::size_t>(std::max(max_length, 0))});
    std::size_t length = 0;
    while (length < most && text[end - 1 - length] == context[context.size() - 1 - length]) {
      ++length;
    }
    return static_cast<std::int32_t>(length);
  };
  for (auto level = levels_.rbegin(); level != levels_.rend() && matches.empty(); ++level) {
    const auto gram = static_cast<std::size_t>(level->gram);
    if (context.size() < gram || level->gram > max_length) continue;
    std::int32_t end = level->heads[slot_of(*level, context.last(gram))];
    for (int visited = 0; end >= 0 && visited < kMaxVisited; ++visited) {
      const std::int32_t length = common(static_cast<std::size_t>(end));
      if (length >= level->gram) matches.push_back({.end = end, .length = length});
      end = level->previous[static_cast<std::size_t>(end)];
    }
  }
}

}  // namespace quire
