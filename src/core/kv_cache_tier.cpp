// What goes to the tier below the KV cache, and comes back from there.
#include <algorithm>
#include <cassert>

#include "core/kv_cache_manager.h"
#include "core/request.h"

namespace quire {

// The last, partial block of a sequence is not worth keeping.
bool KvCacheManager::wanted_below(BlockId block_id) const {
  return tier_.stores() && !withheld(block_id) && index_.num_tokens_of(block_id) == block_size_ &&
         !tier_.has(index_.name_at(block_id));
}

// Its page is about to be another's.
void KvCacheManager::offload(BlockId block_id) {
  if (!wanted_below(block_id)) return;
  const BlockName& name = index_.name_at(block_id);
  tier_.add(name);
  stores_.push_back({block_id, name});
}

std::vector<BlockStore> KvCacheManager::kept_blocks() const {
  std::vector<BlockStore> blocks;
  for (BlockId page = 0; page < pool_.num_blocks(); ++page) {
    if (findable(page) && wanted_below(page)) blocks.push_back({page, index_.name_at(page)});
  }
  std::ranges::sort(blocks, {},
                    [&](const BlockStore& each) { return index_.id_at(each.block_id); });
  return blocks;
}

void KvCacheManager::withhold(std::span<const RequestId> request_ids) {
  if (withheld_.empty()) return;
  for (const RequestId request_id : request_ids) {
    for (const BlockId block_id : tables_.find(request_id)->blocks.block_ids()) {
      if (!findable(block_id) || pool_.shared(block_id)) continue;
      withheld_[static_cast<std::size_t>(block_id)] = true;
    }
  }
}

void KvCacheManager::take_stores(SchedulerOutput& plan) {
  plan.block_stores.insert(plan.block_stores.end(), stores_.begin(), stores_.end());
  stores_.clear();
}

KvCacheManager::TierMatch KvCacheManager::match_tier(std::span<const TokenId> tokens,
                                                     std::int32_t max_tokens,
                                                     const CacheScope& scope,
                                                     const PrefixMatch& match) const {
  TierMatch found;
  if (!tier_.on() || tier_.num_blocks() == 0) return found;
  BlockName name = index_.name(match.node, scope);
  for (std::int32_t block = match.num_blocks; (block + 1) * block_size_ <= max_tokens; ++block) {
    name = next_block_name(name, tokens_of(tokens, block));
    if (!tier_.has(name)) break;
    if (found.num_blocks++ == 0) found.first = name;
  }
  return found;
}

void KvCacheManager::begin_fetch(FetchId fetch_id, const Request& request, const PrefixMatch& match,
                                 std::int32_t num_blocks, SchedulerOutput& plan) {
  const RequestId table_id = fetch_table(fetch_id);
  PrefixMatch full = match;
  full.num_tokens = match.num_blocks * block_size_;
  full.last.reset();
  BlockName name = index_.name(match.node, request.cache_scope());
  share_prefix(table_id, full);
  BlockTable& table = tables_.find(table_id)->blocks;
  for (std::int32_t i = 0; i < num_blocks; ++i) {
    name = next_block_name(name, tokens_of(request.token_ids(), match.num_blocks + i));
    const BlockId page = take_page(0, request.id());
    table.append(page);
    plan.block_fetches.push_back({fetch_id, page, name});
  }
}

void KvCacheManager::end_fetch(FetchId fetch_id, std::span<const TokenId> tokens,
                               const CacheScope& scope, std::int32_t num_blocks) {
  const RequestId table_id = fetch_table(fetch_id);
  const std::int32_t num_tokens = num_blocks * block_size_;
  truncate(table_id, num_tokens);
  commit(table_id, tokens, num_tokens, scope);
  free(table_id);
}

}  // namespace quire
