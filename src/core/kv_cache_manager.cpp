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

KvCacheManager::KvCacheManager(std::int32_t block_size, std::int32_t num_blocks)
    : block_size_(block_size), pool_(num_blocks) {
  assert(block_size > 0);
}

std::optional<KvAllocation> KvCacheManager::allocate(RequestId request_id,
                                                     std::int32_t num_computed_tokens,
                                                     std::int32_t num_new_tokens) {
  assert(num_new_tokens > 0);
  if (blocks_needed(request_id, num_computed_tokens, num_new_tokens) > pool_.num_free_blocks()) {
    return std::nullopt;
  }
  KvAllocation allocation;
  BlockTable& table = tables_[request_id];
  for (std::int32_t i = first_written(num_computed_tokens, block_size_); i < table.size(); ++i) {
    const BlockId source = table[i];
    if (!pool_.shared(source)) continue;
    const BlockId copy = *pool_.allocate();
    table.replace_with_copy(i, copy);
    pool_.release(source);
    allocation.replaced_blocks.push_back({request_id, i, copy});
    allocation.block_copies.push_back({source, copy});
  }
  const std::int64_t size = ceil_div(num_computed_tokens + num_new_tokens, block_size_);
  while (table.size() < size) {
    const BlockId block_id = *pool_.allocate();
    table.append(block_id);
    ++num_held_;
    allocation.new_block_ids.push_back(block_id);
  }
  return allocation;
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

void KvCacheManager::fork(RequestId parent_id, RequestId child_id) {
  assert(find(parent_id) != nullptr && find(child_id) == nullptr);
  const BlockTable shared = *find(parent_id);
  for (const BlockId block_id : shared.block_ids()) pool_.add_reference(block_id);
  num_held_ += shared.size();
  tables_.emplace(child_id, shared);
}

void KvCacheManager::free(RequestId request_id) {
  const auto found = tables_.find(request_id);
  if (found == tables_.end()) return;
  const BlockTable& table = found->second;
  for (std::int32_t i = table.size() - 1; i >= 0; --i) pool_.release(table[i]);
  num_held_ -= table.size();
  tables_.erase(found);
}

const BlockTable* KvCacheManager::find(RequestId request_id) const {
  const auto found = tables_.find(request_id);
  return found == tables_.end() ? nullptr : &found->second;
}

Status KvCacheManager::check_invariants() const {
  QUIRE_RETURN_IF_ERROR(pool_.check_invariants());
  std::vector<std::int32_t> holders(static_cast<std::size_t>(pool_.num_blocks()), 0);
  std::vector<RequestId> last_holder(holders.size(), 0);
  for (const auto& [request_id, table] : tables_) {
    for (const BlockId block_id : table.block_ids()) {
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
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const std::int32_t references = pool_.reference_count(static_cast<BlockId>(i));
    if (references != holders[i]) {
      return Status::internal(fmt::format("block {} has {} references, but {} tables hold it", i,
                                          references, holders[i]));
    }
  }
  if (blocks_leaked() != 0) {
    return Status::internal(fmt::format("{} block references are leaked", blocks_leaked()));
  }
  return {};
}

}  // namespace quire
