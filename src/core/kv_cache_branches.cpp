// The blocks of drafts that form a tree: each path but the first has its own.
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.h"
#include "core/kv_cache_manager.h"

namespace quire {

KvCacheManager::BranchBlocks KvCacheManager::branch_blocks(std::int32_t num_computed_tokens,
                                                           const DraftPath& path) const {
  return {(num_computed_tokens + path.depth) / block_size_,
          static_cast<std::int32_t>(ceil_div(num_computed_tokens + path.end_depth(), block_size_))};
}

std::int32_t KvCacheManager::branch_pages(std::int32_t num_computed_tokens,
                                          std::span<const DraftPath> paths) const {
  std::int32_t pages = 0;
  for (const DraftPath& path : paths.subspan(std::min<std::size_t>(paths.size(), 1))) {
    const BranchBlocks blocks = branch_blocks(num_computed_tokens, path);
    pages += (blocks.end - blocks.first) * pages_per_block_;
  }
  return pages;
}

// Tokens that were computed before this step are all in the request's own table, of which the last
// block is its own by now.
std::optional<std::int32_t> KvCacheManager::branch(RequestId request_id,
                                                   std::int32_t num_computed_tokens,
                                                   std::span<const DraftPath> paths,
                                                   SchedulerOutput& plan) {
  Table& table = *tables_.find(request_id);
  assert(table.branches.empty() && table.branch_pages.empty());
  const std::int32_t num_pages = branch_pages(num_computed_tokens, paths);
  if (num_pages > pool_.num_free_blocks()) return std::nullopt;
  for (const DraftPath& path : paths.subspan(std::min<std::size_t>(paths.size(), 1))) {
    const BranchBlocks blocks = branch_blocks(num_computed_tokens, path);
    assert(blocks.end <= table.blocks.size());
    table.branches.push_back({.parent = path.parent,
                              .first_block = blocks.first,
                              .first_page = table.branch_pages.size(),
                              .num_blocks = blocks.end - blocks.first});
    for (std::int32_t block = blocks.first; block < blocks.end; ++block) {
      const bool begins_computed = block * block_size_ < num_computed_tokens;
      for (std::int32_t page = 0; page < pages_per_block_; ++page) {
        const BlockId block_id = take_page(page, request_id);
        table.branch_pages.push_back(block_id);
        plan.new_block_ids.push_back(block_id);
        if (begins_computed) plan.block_copies.push_back({table.blocks.at(block, page), block_id});
      }
    }
  }
  return num_pages;
}

void KvCacheManager::adopt(RequestId request_id, std::int32_t path,
                           std::vector<BlockReplacement>& adopted) {
  Table& table = *tables_.find(request_id);
  std::int32_t end = table.blocks.size();
  while (path != 0) {
    const Table::Branch& branch = table.branches[static_cast<std::size_t>(path) - 1];
    end = std::min(end, branch.first_block + branch.num_blocks);
    std::size_t next = branch.first_page;
    for (std::int32_t block = branch.first_block; block < end; ++block) {
      for (std::int32_t page = 0; page < pages_per_block_; ++page, ++next) {
        const BlockId block_id = table.branch_pages[next];
        table.branch_pages[next] = table.blocks.at(block, page);
        table.blocks.set(block, page, block_id);
        adopted.push_back({request_id, block * pages_per_block_ + page, block_id});
      }
    }
    end = std::min(end, branch.first_block);
    path = branch.parent;
  }
  drop_branches(table);
}

void KvCacheManager::drop_branches(Table& table) {
  for (std::size_t i = table.branch_pages.size(); i-- > 0;) {
    release(table.branch_pages[i], static_cast<std::int32_t>(i) % pages_per_block_);
  }
  table.branches.clear();
  table.branch_pages.clear();
}

std::int64_t KvCacheManager::num_branch_pages() const {
  std::int64_t num_pages = 0;
  for (const auto& [id, table] : tables_) num_pages += std::ssize(table.branch_pages);
  return num_pages;
}

}  // namespace quire
