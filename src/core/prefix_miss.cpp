#include "core/prefix_miss.h"

#include <algorithm>
#include <span>

#include "core/kv_cache_manager.h"

namespace quire {

std::string_view prefix_miss_name(PrefixMissCause cause) {
  switch (cause) {
    case PrefixMissCause::kNone:
      return "none";
    case PrefixMissCause::kOff:
      return "off";
    case PrefixMissCause::kTooShort:
      return "too_short";
    case PrefixMissCause::kWanted:
      return "wanted";
    case PrefixMissCause::kNew:
      return "new";
    case PrefixMissCause::kEnds:
      return "ends";
    case PrefixMissCause::kDiffers:
      return "differs";
    case PrefixMissCause::kEvicted:
      return "evicted";
    case PrefixMissCause::kReset:
      return "reset";
    case PrefixMissCause::kNoRoom:
      return "no_room";
    case PrefixMissCause::kInFlight:
      return "in_flight";
  }
  return "unknown";
}

// Of the blocks that would go on with the match, the longest that was lost.
std::optional<LostBlocks::Loss> KvCacheManager::find_loss(std::span<const TokenId> rest,
                                                          std::int32_t num_matched,
                                                          const PrefixMatch& match,
                                                          const CacheScope& scope) const {
  std::optional<LostBlocks::Loss> found;
  std::uint64_t hash = PrefixIndex::start_hash(match.node.id, scope);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    hash = PrefixIndex::extend_hash(hash, rest[i]);
    if (static_cast<std::int32_t>(i) < num_matched) continue;
    if (const auto loss = lost_.find(hash)) found = loss;
  }
  return found;
}

// A block that was evicted explains more than one that is there and differs.
PrefixMiss KvCacheManager::explain_miss(std::span<const TokenId> tokens, std::int32_t max_tokens,
                                        const CacheScope& scope, const PrefixMatch& match) const {
  PrefixMiss miss{.num_found = match.num_tokens};
  if (match.num_tokens >= max_tokens) return miss;
  miss.token = tokens[static_cast<std::size_t>(match.num_tokens)];
  const std::int32_t begin = match.num_blocks * block_size_;
  const std::int32_t num_matched = match.num_tokens - begin;
  const auto at_most = [&](std::int32_t end) {
    return tokens.subspan(static_cast<std::size_t>(begin),
                          static_cast<std::size_t>(std::min(end - begin, block_size_)));
  };
  // A block that was full is known by all of its tokens, the prompt's last one too.
  const auto block = at_most(static_cast<std::int32_t>(tokens.size()));
  if (const auto loss = find_loss(block, num_matched, match, scope)) {
    miss.cause = loss->by ? PrefixMissCause::kEvicted : PrefixMissCause::kReset;
    miss.by = loss->by;
    if (loss->by) miss.age = now_ - loss->when;
    return miss;
  }
  const auto rest = at_most(max_tokens);
  const auto longest = index_.find_longest(match.node, rest, scope);
  if (longest && longest->num_tokens > num_matched) {
    miss.cause = PrefixMissCause::kNoRoom;
    return miss;
  }
  // A node that lacks some of its blocks has lost them; to which request is not known any more.
  if (const auto node = index_.find(match.node, rest, scope); node && !match.last) {
    miss.cause = PrefixMissCause::kEvicted;
    return miss;
  }
  miss.cached_token = match.last ? index_.token_at(*match.last, num_matched)
                                 : index_.token_at(index_.latest_child(match.node), 0);
  if (miss.cached_token) {
    miss.cause = PrefixMissCause::kDiffers;
  } else {
    miss.cause = match.num_tokens == 0 ? PrefixMissCause::kNew : PrefixMissCause::kEnds;
  }
  return miss;
}

}  // namespace quire
