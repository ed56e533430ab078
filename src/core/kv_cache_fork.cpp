// Sequences that share what they have in common, and write into blocks of their own.
#include <algorithm>
#include <cassert>
#include <vector>

#include "base/checked.h"
#include "core/kv_cache_manager.h"

namespace quire {

// The last token is computed again, so the child reads what that token reads.
bool KvCacheManager::can_fork(RequestId parent_id, std::int32_t num_tokens) const {
  if (keeps_states()) return false;
  const Table& parent = *tables_.find(parent_id);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::int32_t block = first_block(group, num_tokens - 1);
    if (parent.blocks.at(block, first_page(group)) == kNullBlock) return false;
  }
  return true;
}

void KvCacheManager::fork(RequestId parent_id, RequestId child_id, std::int32_t num_tokens) {
  Table& child = new_table(child_id);
  const Table& parent = *tables_.find(parent_id);
  const auto size = static_cast<std::int32_t>(ceil_div(num_tokens, block_size_));
  assert(size <= parent.blocks.size());
  child.num_passed_tokens = num_tokens - 1;
  child.blocks.resize(size);
  for (std::int32_t block = 0; block < size; ++block) {
    for (std::int32_t page = 0; page < pages_per_block_; ++page) {
      if (block < first_block(group_of(page), child.num_passed_tokens)) continue;
      const BlockId block_id = parent.blocks.at(block, page);
      share(block_id, page);
      child.blocks.set(block, page, block_id);
    }
  }
  const auto num_full = static_cast<std::size_t>(num_tokens / block_size_);
  const auto end =
      parent.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(num_full, parent.nodes.size()));
  child.nodes.assign(parent.nodes.begin(), end);
}

void KvCacheManager::fork(RequestId parent_id, RequestId child_id) {
  Table& child = new_table(child_id);
  const Table& parent = *tables_.find(parent_id);
  child.num_passed_tokens = parent.num_passed_tokens;
  child.nodes = parent.nodes;
  for (std::int32_t block = 0; block < parent.blocks.size(); ++block) {
    for (std::int32_t page = 0; page < pages_per_block_; ++page) {
      const BlockId block_id = parent.blocks.at(block, page);
      if (block_id != kNullBlock) share(block_id, page);
      child.blocks.append(block_id);
    }
  }
}

std::int64_t KvCacheManager::prefix_pages(std::int32_t num_blocks) const {
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::int32_t num_held = num_blocks - first_block(group, num_blocks * block_size_);
    pages += std::int64_t{groups_[group].pages_per_block} * num_held;
  }
  return pages;
}

void KvCacheManager::put_back(RequestId request_id) {
  const Table& table = *tables_.find(request_id);
  for (std::size_t i = 0; i < table.nodes.size(); ++i) {
    if (!index_.alive(table.nodes[i])) return;
    put_blocks(table.nodes[i], table.blocks.block(static_cast<std::int32_t>(i)));
  }
}

// The same node is the same tokens from the first one on.
bool KvCacheManager::begins_with(RequestId request_id, RequestId prefix_table) const {
  const Table* request = tables_.find(request_id);
  const Table& prefix = *tables_.find(prefix_table);
  const auto num_blocks = static_cast<std::size_t>(prefix.blocks.size());
  return request != nullptr && num_blocks > 0 && prefix.nodes.size() == num_blocks &&
         request->nodes.size() >= num_blocks &&
         request->nodes[num_blocks - 1] == prefix.nodes.back();
}

std::int32_t KvCacheManager::pages_needed(std::span<const RequestId> request_ids,
                                          std::int32_t num_computed_tokens,
                                          std::int32_t num_new_tokens) const {
  std::int32_t needed = 0;
  for (const RequestId id : request_ids) {
    needed += pages_needed(id, num_computed_tokens, num_new_tokens);
  }
  if (request_ids.size() == 1) return needed;
  return needed - num_left_to_last(request_ids, num_computed_tokens);
}

// Pages that only these share and that all of them write: the last one need not copy them.
std::int32_t KvCacheManager::num_left_to_last(std::span<const RequestId> request_ids,
                                              std::int32_t num_computed_tokens) const {
  std::vector<BlockId> shared;
  const std::int32_t block = first_written(num_computed_tokens);
  const std::int32_t num_kept = num_computed_tokens - block * block_size_;
  for (const RequestId id : request_ids) {
    const BlockTable* table = find(id);
    if (table == nullptr || block >= table->size()) continue;
    for (const BlockId page : table->block(block)) {
      const bool kept = findable(page) && index_.num_tokens_of(page) > num_kept;
      if (pool_.shared(page) && !kept) shared.push_back(page);
    }
  }
  std::ranges::sort(shared);
  std::int32_t count = 0;
  for (auto next = shared.begin(); next != shared.end();) {
    const auto end = std::upper_bound(next, shared.end(), *next);
    if (end - next == pool_.reference_count(*next)) ++count;
    next = end;
  }
  return count;
}

std::int64_t KvCacheManager::max_branch_pages(std::int64_t num_shared_tokens,
                                              std::int64_t num_tokens,
                                              std::int64_t num_new_tokens) const {
  const std::int64_t own = ceil_div(num_tokens, block_size_) - num_shared_tokens / block_size_;
  std::int64_t pages = 0;
  for (const KvGroup& group : groups_) {
    pages += group.pages_per_block *
             std::min(own, group.max_blocks(num_tokens, num_new_tokens, block_size_));
  }
  return pages;
}

}  // namespace quire
