#include "core/kv_cache_manager.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.h"

namespace quire {

KvCacheManager::KvCacheManager(std::int32_t block_size, std::int32_t num_pages,
                               bool enable_prefix_caching, std::vector<KvGroup> groups, bool tier)
    : block_size_(block_size),
      enable_prefix_caching_(enable_prefix_caching),
      groups_(std::move(groups)),
      pages_per_block_(quire::pages_per_block(groups_)),
      pool_(num_pages),
      index_(enable_prefix_caching ? num_pages : 0, block_size, groups_, tier),
      lost_(enable_prefix_caching ? num_pages : 0),
      tier_(tier),
      withheld_(tier ? static_cast<std::size_t>(num_pages) : 0, false),
      uses_(groups_.size()),
      run_begin_(groups_.size()) {
  assert(block_size > 0 && !groups_.empty());
  assert(!tier || (enable_prefix_caching && groups_ == std::vector{KvGroup{}}));
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    first_page_.push_back(static_cast<std::int32_t>(group_of_page_.size()));
    group_of_page_.insert(group_of_page_.end(),
                          static_cast<std::size_t>(groups_[group].pages_per_block), group);
  }
}

void KvCacheManager::reserve(std::int32_t max_tables, std::int32_t max_blocks) {
  tables_.reserve(static_cast<std::size_t>(max_tables), [&](Table& table) {
    table.blocks.reset(pages_per_block_);
    table.blocks.reserve(max_blocks);
    if (enable_prefix_caching_) table.nodes.reserve(static_cast<std::size_t>(max_blocks));
    table.branches.reserve(kMaxTreeDrafts);
    table.branch_pages.reserve(static_cast<std::size_t>(kMaxTreeDrafts * pages_per_block_));
  });
}

std::uint64_t KvCacheManager::bytes_per_page(std::int32_t block_size,
                                             std::span<const KvGroup> groups,
                                             bool enable_prefix_caching, bool tier) {
  return BlockPool::kBytesPerBlock +
         (enable_prefix_caching
              ? PrefixIndex::bytes_per_page(block_size, groups, tier) + LostBlocks::kBytesPerPage
              : 0);
}

std::span<const TokenId> KvCacheManager::tokens_of(std::span<const TokenId> tokens,
                                                   std::int32_t index) const {
  const auto size = static_cast<std::size_t>(block_size_);
  return tokens.subspan(static_cast<std::size_t>(index) * size, size);
}

// Walks down as far as every group that keeps all has its blocks; a hit may end wherever the others
// have those of their window.
KvCacheManager::PrefixMatch KvCacheManager::match_prefix(std::span<const TokenId> tokens,
                                                         std::int32_t max_tokens,
                                                         const CacheScope& scope) const {
  PrefixMatch match;
  if (!enable_prefix_caching_) return match;
  std::ranges::fill(run_begin_, 0);  // since which block each group has all
  PrefixIndex::Node node;
  const std::int32_t most = max_tokens / block_size_;
  for (std::int32_t end = 1; end <= most; ++end) {
    const auto found = index_.find(node, tokens_of(tokens, end - 1), scope);
    if (!found) break;
    node = *found;
    bool hit = true;
    bool lost = false;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (!index_.has_block(node, group)) run_begin_[group] = end;
      if (run_begin_[group] <= first_block(group, end * block_size_)) continue;
      hit = false;
      lost = lost || groups_[group].keeps_all();
    }
    if (lost) break;
    if (!hit) continue;
    match.num_blocks = end;
    match.node = node;
  }
  match.num_tokens = match.num_blocks * block_size_;
  const auto rest = tokens.subspan(
      static_cast<std::size_t>(match.num_tokens),
      static_cast<std::size_t>(std::min(max_tokens - match.num_tokens, block_size_)));
  if (const auto last = index_.find_longest(match.node, rest, scope)) {
    match.num_tokens += last->num_tokens;
    match.last = last->node;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const BlockId page = index_.block(last->node, group)[0];
      if (pool_.reference_count(page) > 0 || !must_copy(page, last->num_tokens)) continue;
      match.num_copied_pages += groups_[group].pages_per_block;
    }
  }
  node = match.node;
  for (std::int32_t block = match.num_blocks - 1; block >= 0; --block) {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (block < first_block(group, match.num_tokens)) continue;
      const bool used = pool_.reference_count(index_.block(node, group)[0]) > 0;
      (used ? match.num_used_pages : match.num_free_pages) += groups_[group].pages_per_block;
    }
    node = index_.parent(node);
  }
  return match;
}

void KvCacheManager::share_prefix(RequestId request_id, const PrefixMatch& match) {
  Table& table = new_table(request_id);
  table.num_passed_tokens = match.num_tokens;
  table.blocks.resize(match.num_blocks + (match.last ? 1 : 0));
  table.nodes.resize(static_cast<std::size_t>(match.num_blocks));
  if (match.last) share_block(table, match.num_blocks, *match.last);
  PrefixIndex::Node node = match.node;
  for (std::int32_t block = match.num_blocks - 1; block >= 0; --block) {
    table.nodes[static_cast<std::size_t>(block)] = node;
    share_block(table, block, node);
    node = index_.parent(node);
  }
}

// The block of a node, in the groups that need it.
void KvCacheManager::share_block(Table& table, std::int32_t block, PrefixIndex::Node node) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (block < first_block(group, table.num_passed_tokens)) continue;
    std::int32_t page = first_page(group);
    for (const BlockId block_id : index_.block(node, group)) {
      share(block_id, page);
      table.blocks.set(block, page++, block_id);
    }
  }
}

KvCacheManager::Table& KvCacheManager::new_table(RequestId request_id) {
  assert(find(request_id) == nullptr);
  Table& table = tables_.insert(request_id);
  table.blocks.reset(pages_per_block_);
  table.nodes.clear();
  table.num_passed_tokens = 0;
  table.branches.clear();
  table.branch_pages.clear();
  return table;
}

// Its contents may be a part of a block, of which the others are free too: they are of no use
// without it.
BlockId KvCacheManager::take_page(std::int32_t page, RequestId request_id) {
  const BlockId block_id = *pool_.allocate();
  if (findable(block_id)) {
    const auto block = index_.block_of(block_id);
    for (const BlockId other : block) {
      if (other != block_id) pool_.move_to_front(other);
    }
    uses_[index_.group_of(block_id)].num_cached -= static_cast<std::int32_t>(block.size());
    lost_.add({.hash = index_.hash_at(block_id), .by = request_id, .when = now_});
    offload(block_id);
    index_.erase(block_id);
    end_withholding(block_id);
  }
  ++uses_[group_of(page)].num_used;
  ++num_held_;
  return block_id;
}

void KvCacheManager::share(BlockId block_id, std::int32_t page) {
  ++num_held_;
  if (pool_.reference_count(block_id) > 0) return pool_.add_reference(block_id);
  pool_.take(block_id);
  end_withholding(block_id);
  ++uses_[group_of(page)].num_used;
  --uses_[group_of(page)].num_cached;
}

// A page without content that may be used again is the next to be allocated, the others in the
// order in which they were released.
void KvCacheManager::release(BlockId block_id, std::int32_t page) {
  const bool cached = findable(block_id);
  pool_.release(block_id, cached ? FreeListEnd::kBack : FreeListEnd::kFront);
  --num_held_;
  if (pool_.reference_count(block_id) > 0) return;
  GroupUse& use = uses_[group_of(page)];
  --use.num_used;
  if (cached) ++use.num_cached;
}

void KvCacheManager::release_block(const Table& table, std::int32_t block) {
  for (std::int32_t page = 0; page < pages_per_block_; ++page) {
    const BlockId block_id = table.blocks.at(block, page);
    if (block_id != kNullBlock) release(block_id, page);
  }
}

// Copies what others share of a block, or may still find; the rest was found by its content until
// now, and is about to change. What is copied becomes free behind what allocate() has counted, so
// that none of it is used for a copy.
void KvCacheManager::make_writable(RequestId request_id, BlockTable& table, std::int32_t block,
                                   std::int32_t num_kept, SchedulerOutput& plan) {
  for (std::int32_t page = 0; page < pages_per_block_; ++page) {
    const BlockId source = table.at(block, page);
    if (!must_copy(source, num_kept)) {
      if (findable(source)) index_.erase(source);
      continue;
    }
    const BlockId copy = take_page(page, request_id);
    table.set(block, page, copy);
    release(source, page);
    plan.replaced_blocks.push_back({request_id, block * pages_per_block_ + page, copy});
    plan.block_copies.push_back({source, copy});
  }
}

std::optional<std::int32_t> KvCacheManager::allocate(RequestId request_id,
                                                     std::int32_t num_computed_tokens,
                                                     std::int32_t num_new_tokens,
                                                     SchedulerOutput& plan) {
  assert(num_new_tokens > 0);
  if (pages_needed(request_id, num_computed_tokens, num_new_tokens) > pool_.num_free_blocks()) {
    return std::nullopt;
  }
  Table* found = tables_.find(request_id);
  BlockTable& table = found == nullptr ? new_table(request_id).blocks : found->blocks;
  for (std::int32_t i = first_written(num_computed_tokens); i < table.size(); ++i) {
    make_writable(request_id, table, i, num_computed_tokens - i * block_size_, plan);
  }
  const std::int64_t size = ceil_div(num_computed_tokens + num_new_tokens, block_size_);
  std::int32_t num_appended = 0;
  while (table.size() < size) {
    for (std::int32_t page = 0; page < pages_per_block_; ++page, ++num_appended) {
      const BlockId block_id = take_page(page, request_id);
      table.append(block_id);
      plan.new_block_ids.push_back(block_id);
    }
  }
  return num_appended;
}

std::int32_t KvCacheManager::pages_needed(RequestId request_id, std::int32_t num_computed_tokens,
                                          std::int32_t num_new_tokens) const {
  const auto size =
      static_cast<std::int32_t>(ceil_div(num_computed_tokens + num_new_tokens, block_size_));
  const BlockTable* table = find(request_id);
  if (table == nullptr) return size * pages_per_block_;
  std::int32_t needed = std::max(size - table->size(), 0) * pages_per_block_;
  for (std::int32_t i = first_written(num_computed_tokens); i < table->size(); ++i) {
    const std::int32_t num_kept = num_computed_tokens - i * block_size_;
    for (const BlockId block_id : table->block(i)) needed += must_copy(block_id, num_kept) ? 1 : 0;
  }
  return needed;
}

void KvCacheManager::drop_lost_nodes(Table& table) {
  while (!table.nodes.empty() && !index_.alive(table.nodes.back())) table.nodes.pop_back();
}

// Where a node has a block of a group already (two requests computed the same block at the same
// time), that one stays, and this request's next blocks belong to its children.
void KvCacheManager::commit(RequestId request_id, std::span<const TokenId> tokens,
                            std::int32_t num_computed_tokens, const CacheScope& scope) {
  if (!enable_prefix_caching_) return;
  Table& table = *tables_.find(request_id);
  drop_lost_nodes(table);
  for (auto i = static_cast<std::int32_t>(table.nodes.size());
       i < num_computed_tokens / block_size_; ++i) {
    const PrefixIndex::Node parent = table.nodes.empty() ? PrefixIndex::Node{} : table.nodes.back();
    auto node = index_.find(parent, tokens_of(tokens, i), scope);
    if (!node) node = index_.insert(parent, tokens_of(tokens, i), scope);
    if (!node) break;
    table.nodes.push_back(*node);
    put_blocks(*node, table.blocks.block(i));
  }
  if (table.nodes.empty()) return;
  index_.prune(table.nodes.back());  // where nothing of it is held any more
  drop_lost_nodes(table);
}

// These are found from now on, in the groups in which the node has no block yet.
void KvCacheManager::put_blocks(PrefixIndex::Node node, std::span<const BlockId> pages) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const auto block = pages.subspan(static_cast<std::size_t>(first_page(group)),
                                     static_cast<std::size_t>(groups_[group].pages_per_block));
    if (block[0] == kNullBlock || index_.contains(block[0])) continue;
    if (!index_.has_block(node, group)) index_.put(node, group, block);
  }
}

void KvCacheManager::keep_end(RequestId request_id, std::span<const TokenId> tokens,
                              std::int32_t num_computed_tokens, const CacheScope& scope) {
  const std::int32_t num_full = num_computed_tokens / block_size_;
  const std::int32_t num_left = num_computed_tokens % block_size_;
  Table* table = tables_.find(request_id);
  if (!enable_prefix_caching_ || num_left == 0 || table == nullptr) return;
  drop_lost_nodes(*table);
  if (std::ssize(table->nodes) != num_full) return;  // nobody would find the way
  const auto pages = table->blocks.block(num_full);
  if (std::ranges::any_of(
          pages, [this](BlockId page) { return page == kNullBlock || index_.contains(page); })) {
    return;
  }
  const PrefixIndex::Node parent = table->nodes.empty() ? PrefixIndex::Node{} : table->nodes.back();
  const auto end = tokens.subspan(static_cast<std::size_t>(num_computed_tokens - num_left),
                                  static_cast<std::size_t>(num_left));
  const auto longest = index_.find_longest(parent, end, scope);
  if ((longest && longest->num_tokens == num_left) || index_.find(parent, end, scope)) return;
  const auto node = index_.insert(parent, end, scope);
  if (!node) return;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    index_.put(*node, group,
               pages.subspan(static_cast<std::size_t>(first_page(group)),
                             static_cast<std::size_t>(groups_[group].pages_per_block)));
  }
}

void KvCacheManager::release_passed(RequestId request_id, std::int32_t num_computed_tokens) {
  Table& table = *tables_.find(request_id);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::int32_t end = first_block(group, num_computed_tokens);
    for (std::int32_t i = first_block(group, table.num_passed_tokens); i < end; ++i) {
      for (std::int32_t page = first_page(group); page < end_page(group); ++page) {
        release(table.blocks.at(i, page), page);
        table.blocks.set(i, page, kNullBlock);
      }
    }
  }
  table.num_passed_tokens = std::max(table.num_passed_tokens, num_computed_tokens);
}

void KvCacheManager::forget_cached() {
  for (BlockId page = 0; page < pool_.num_blocks(); ++page) {
    // The pages of a cached block are used alike.
    if (pool_.reference_count(page) > 0 || !findable(page)) continue;
    const auto block = index_.block_of(page);
    for (const BlockId each : block) pool_.move_to_front(each);
    uses_[index_.group_of(page)].num_cached -= static_cast<std::int32_t>(block.size());
    lost_.add({.hash = index_.hash_at(page), .by = std::nullopt, .when = now_});
    index_.erase(page);
    end_withholding(page);
  }
}

std::optional<std::int32_t> KvCacheManager::truncate(RequestId request_id,
                                                     std::int32_t num_tokens) {
  Table& table = *tables_.find(request_id);
  const auto size = static_cast<std::int32_t>(ceil_div(num_tokens, block_size_));
  const auto num_full = static_cast<std::size_t>(num_tokens / block_size_);
  assert(size <= table.blocks.size());
  if (table.nodes.size() > num_full) table.nodes.resize(num_full);
  if (num_tokens % block_size_ != 0) {
    for (const BlockId block_id : table.blocks.block(size - 1)) {
      if (findable(block_id) && !pool_.shared(block_id)) index_.erase(block_id);
    }
  }
  if (size == table.blocks.size()) return std::nullopt;
  for (std::int32_t i = table.blocks.size() - 1; i >= size; --i) release_block(table, i);
  table.blocks.truncate(size);
  return size * pages_per_block_;
}

KvCacheManager::OwnPages KvCacheManager::own_pages(std::span<const RequestId> request_ids) const {
  OwnPages own;
  for (std::size_t row = 0; row < request_ids.size(); ++row) {
    const Table* table = tables_.find(request_ids[row]);
    if (table == nullptr) continue;
    own.num_pages += static_cast<std::int32_t>(table->branch_pages.size());
    bool shared_so_far = row == 0;
    const std::vector<BlockId>& pages = table->blocks.block_ids();
    for (std::size_t place = 0; place < pages.size(); ++place) {
      const BlockId page = pages[place];
      const auto holds = [&](RequestId request_id) {
        const BlockTable* other = find(request_id);
        return other != nullptr && place < other->block_ids().size() &&
               other->block_ids()[place] == page;
      };
      const std::int32_t references = page == kNullBlock ? 0 : pool_.reference_count(page);
      const bool by_rows = references > 1 && request_ids.size() > 1 &&
                           std::ranges::count_if(request_ids, holds) == references;
      const bool first = !by_rows || std::ranges::none_of(request_ids.first(row), holds);
      own.num_pages += (references == 1 || by_rows) && first ? 1 : 0;
      shared_so_far = shared_so_far && references > 1 && !by_rows;
      if (shared_so_far) own.num_shared_blocks = static_cast<std::int32_t>(place + 1);
    }
  }
  own.num_shared_blocks /= pages_per_block_;
  return own;
}

void KvCacheManager::free(RequestId request_id) {
  Table* const table = tables_.find(request_id);
  if (table == nullptr) return;
  drop_branches(*table);
  for (std::int32_t i = table->blocks.size() - 1; i >= 0; --i) release_block(*table, i);
  tables_.erase(request_id);
}

const BlockTable* KvCacheManager::find(RequestId request_id) const {
  const Table* table = tables_.find(request_id);
  return table == nullptr ? nullptr : &table->blocks;
}

std::int32_t KvCacheManager::num_cached_blocks() const {
  std::int32_t num_cached = 0;
  for (const GroupUse& use : uses_) num_cached += use.num_cached;
  return num_cached;
}

}  // namespace quire
