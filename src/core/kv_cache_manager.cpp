#include "core/kv_cache_manager.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

// Blocks at and after this index of a table are written to.
std::int32_t first_written(std::int32_t num_computed_tokens, std::int32_t block_size) {
  return num_computed_tokens / block_size;
}

}  // namespace

KvCacheManager::KvCacheManager(std::int32_t block_size, std::int32_t num_blocks,
                               bool enable_prefix_caching)
    : block_size_(block_size),
      enable_prefix_caching_(enable_prefix_caching),
      pool_(num_blocks),
      index_(enable_prefix_caching ? num_blocks : 0, block_size) {
  assert(block_size > 0);
}

void KvCacheManager::reserve(std::int32_t max_tables, std::int32_t max_blocks) {
  const auto count = static_cast<std::size_t>(max_blocks);
  tables_.reserve(static_cast<std::size_t>(max_tables), [&](Table& table) {
    table.blocks.reserve(count);
    if (enable_prefix_caching_) table.nodes.reserve(count);
  });
}

std::uint64_t KvCacheManager::bytes_per_block(std::int32_t block_size, bool enable_prefix_caching) {
  return BlockPool::kBytesPerBlock +
         (enable_prefix_caching ? PrefixIndex::bytes_per_block(block_size) : 0);
}

std::span<const TokenId> KvCacheManager::tokens_of(std::span<const TokenId> tokens,
                                                   std::int32_t index) const {
  const auto size = static_cast<std::size_t>(block_size_);
  return tokens.subspan(static_cast<std::size_t>(index) * size, size);
}

KvCacheManager::PrefixMatch KvCacheManager::match_prefix(std::span<const TokenId> tokens,
                                                         std::int32_t max_tokens) const {
  PrefixMatch match;
  if (!enable_prefix_caching_) return match;
  PrefixIndex::NodeId node = PrefixIndex::kRoot;
  for (const std::int32_t most = max_tokens / block_size_; match.num_blocks < most;
       ++match.num_blocks) {
    const auto found = index_.find(node, tokens_of(tokens, match.num_blocks));
    if (!found) break;
    node = found->node;
    match.num_free_blocks += pool_.reference_count(found->block_id) == 0 ? 1 : 0;
  }
  return match;
}

void KvCacheManager::share_prefix(RequestId request_id, std::span<const TokenId> tokens,
                                  const PrefixMatch& match) {
  Table& table = new_table(request_id);
  PrefixIndex::NodeId node = PrefixIndex::kRoot;
  for (std::int32_t i = 0; i < match.num_blocks; ++i) {
    const PrefixIndex::Found found = *index_.find(node, tokens_of(tokens, i));
    node = found.node;
    if (pool_.reference_count(found.block_id) == 0) {
      pool_.take(found.block_id);
      --num_cached_;
    } else {
      pool_.add_reference(found.block_id);
    }
    table.blocks.append(found.block_id);
    table.nodes.push_back(node);
  }
  num_held_ += match.num_blocks;
}

void KvCacheManager::fork(RequestId parent_id, RequestId child_id, std::int32_t num_tokens) {
  Table& child = new_table(child_id);
  const Table& parent = *tables_.find(parent_id);
  const auto size = static_cast<std::int32_t>(ceil_div(num_tokens, block_size_));
  assert(size <= parent.blocks.size());
  for (std::int32_t i = 0; i < size; ++i) {
    pool_.add_reference(parent.blocks[i]);
    child.blocks.append(parent.blocks[i]);
  }
  const auto num_full = static_cast<std::size_t>(num_tokens / block_size_);
  const auto end =
      parent.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(num_full, parent.nodes.size()));
  child.nodes.assign(parent.nodes.begin(), end);
  num_held_ += size;
}

KvCacheManager::Table& KvCacheManager::new_table(RequestId request_id) {
  assert(find(request_id) == nullptr);
  Table& table = tables_.insert(request_id);
  table.blocks.clear();
  table.nodes.clear();
  return table;
}

BlockId KvCacheManager::take_block() {
  const BlockId block_id = *pool_.allocate();
  if (findable(block_id)) {
    index_.erase(block_id);
    --num_cached_;
  }
  return block_id;
}

// A block without content that may be used again is the next to be taken, the others in the order
// in which they were released.
void KvCacheManager::release(BlockId block_id) {
  const bool cached = findable(block_id);
  pool_.release(block_id, cached ? FreeListEnd::kBack : FreeListEnd::kFront);
  if (cached && pool_.reference_count(block_id) == 0) ++num_cached_;
}

std::optional<std::int32_t> KvCacheManager::allocate(RequestId request_id,
                                                     std::int32_t num_computed_tokens,
                                                     std::int32_t num_new_tokens,
                                                     SchedulerOutput& plan) {
  assert(num_new_tokens > 0);
  if (blocks_needed(request_id, num_computed_tokens, num_new_tokens) > pool_.num_free_blocks()) {
    return std::nullopt;
  }
  Table* found = tables_.find(request_id);
  BlockTable& table = found == nullptr ? new_table(request_id).blocks : found->blocks;
  for (std::int32_t i = first_written(num_computed_tokens, block_size_); i < table.size(); ++i) {
    const BlockId source = table[i];
    if (!pool_.shared(source)) {
      // What it holds was found by others until now, and is about to change.
      if (findable(source)) index_.erase(source);
      continue;
    }
    const BlockId copy = take_block();
    table.replace_with_copy(i, copy);
    release(source);
    plan.replaced_blocks.push_back({request_id, i, copy});
    plan.block_copies.push_back({source, copy});
  }
  const std::int64_t size = ceil_div(num_computed_tokens + num_new_tokens, block_size_);
  std::int32_t num_appended = 0;
  for (; table.size() < size; ++num_appended) {
    const BlockId block_id = take_block();
    table.append(block_id);
    plan.new_block_ids.push_back(block_id);
  }
  num_held_ += num_appended;
  return num_appended;
}

std::int32_t KvCacheManager::blocks_needed(RequestId request_id, std::int32_t num_computed_tokens,
                                           std::int32_t num_new_tokens) const {
  const auto size =
      static_cast<std::int32_t>(ceil_div(num_computed_tokens + num_new_tokens, block_size_));
  const BlockTable* table = find(request_id);
  if (table == nullptr) return size;
  std::int32_t needed = std::max(size - table->size(), 0);
  for (std::int32_t i = first_written(num_computed_tokens, block_size_); i < table->size(); ++i) {
    needed += pool_.shared((*table)[i]) ? 1 : 0;
  }
  return needed;
}

bool KvCacheManager::fits_ever(std::int64_t num_tokens) const {
  return ceil_div(num_tokens, block_size_) <= pool_.num_blocks();
}

// Where an equal node exists already (two requests computed the same block at the same time), that
// one stays, and this request's next blocks become its children.
void KvCacheManager::commit(RequestId request_id, std::span<const TokenId> tokens,
                            std::int32_t num_computed_tokens) {
  if (!enable_prefix_caching_) return;
  Table& table = *tables_.find(request_id);
  for (auto i = static_cast<std::int32_t>(table.nodes.size());
       i < num_computed_tokens / block_size_; ++i) {
    const PrefixIndex::NodeId parent =
        table.nodes.empty() ? PrefixIndex::kRoot : table.nodes.back();
    const auto found = index_.find(parent, tokens_of(tokens, i));
    table.nodes.push_back(found ? found->node
                                : index_.insert(table.blocks[i], parent, tokens_of(tokens, i)));
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
    const BlockId last = table.blocks[size - 1];
    if (findable(last) && !pool_.shared(last)) index_.erase(last);
  }
  if (size == table.blocks.size()) return std::nullopt;
  num_held_ -= table.blocks.size() - size;
  for (std::int32_t i = table.blocks.size() - 1; i >= size; --i) release(table.blocks[i]);
  table.blocks.truncate(size);
  return size;
}

void KvCacheManager::free(RequestId request_id) {
  const Table* table = tables_.find(request_id);
  if (table == nullptr) return;
  for (std::int32_t i = table->blocks.size() - 1; i >= 0; --i) release(table->blocks[i]);
  num_held_ -= table->blocks.size();
  tables_.erase(request_id);
}

const BlockTable* KvCacheManager::find(RequestId request_id) const {
  const Table* table = tables_.find(request_id);
  return table == nullptr ? nullptr : &table->blocks;
}

Status KvCacheManager::check_invariants() const {
  QUIRE_RETURN_IF_ERROR(pool_.check_invariants());
  QUIRE_RETURN_IF_ERROR(index_.check_invariants());
  std::vector<std::int32_t> holders(static_cast<std::size_t>(pool_.num_blocks()), 0);
  std::vector<RequestId> last_holder(holders.size(), 0);
  for (const auto& [request_id, table] : tables_) {
    for (const BlockId block_id : table.blocks.block_ids()) {
      const auto i = static_cast<std::size_t>(block_id);
      if (i >= holders.size()) {
        return Status::internal(
            fmt::format("request {} holds block {}, which does not exist", request_id, block_id));
      }
      if (holders[i] > 0 && last_holder[i] == request_id) {
        return Status::internal(fmt::format("request {} holds block {} twice", request_id, i));
      }
      ++holders[i];
      last_holder[i] = request_id;
    }
  }
  std::int32_t num_cached = 0;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const auto id = static_cast<BlockId>(i);
    const std::int32_t references = pool_.reference_count(id);
    if (references != holders[i]) {
      return Status::internal(fmt::format("block {} has {} references, but {} tables hold it", i,
                                          references, holders[i]));
    }
    if (references == 0 && findable(id)) ++num_cached;
  }
  if (num_cached != num_cached_) {
    return Status::internal(
        fmt::format("{} free blocks are cached, {} are counted", num_cached, num_cached_));
  }
  if (blocks_leaked() != 0) {
    return Status::internal(fmt::format("{} block references are leaked", blocks_leaked()));
  }
  return {};
}

}  // namespace quire
