// The laws of the KV cache's bookkeeping, checked in full.
#include <fmt/format.h>

#include "core/kv_cache_manager.h"

namespace quire {

Status KvCacheManager::check_invariants() const {
  QUIRE_RETURN_IF_ERROR(pool_.check_invariants());
  QUIRE_RETURN_IF_ERROR(index_.check_invariants());
  QUIRE_RETURN_IF_ERROR(check_pages());
  if (blocks_leaked() != 0) {
    return Status::internal(fmt::format("{} block references are leaked", blocks_leaked()));
  }
  return {};
}

// Who holds each page, and which group it is of.
Status KvCacheManager::check_pages() const {
  std::vector<std::int32_t> holders(static_cast<std::size_t>(pool_.num_blocks()), 0);
  std::vector<RequestId> last_holder(holders.size(), 0);
  std::vector<std::size_t> group_of_holders(holders.size(), 0);
  std::vector<BlockId> entries;  // of a table and its branches
  for (const auto& [request_id, table] : tables_) {
    entries = table.blocks.block_ids();
    entries.insert(entries.end(), table.branch_pages.begin(), table.branch_pages.end());
    for (const BlockId page : table.branch_pages) {
      if (pool_.reference_count(page) == 1 && !findable(page)) continue;
      return Status::internal(
          fmt::format("request {}: block {} of its drafts is not theirs alone", request_id, page));
    }
    for (std::size_t entry = 0; entry < entries.size(); ++entry) {
      if (entries[entry] == kNullBlock) continue;
      const auto i = static_cast<std::size_t>(entries[entry]);
      const std::size_t group = group_of(static_cast<std::int32_t>(entry) % pages_per_block_);
      if (i >= holders.size()) {
        return Status::internal(
            fmt::format("request {} holds block {}, which does not exist", request_id, i));
      }
      if (holders[i] > 0 && last_holder[i] == request_id) {
        return Status::internal(fmt::format("request {} holds block {} twice", request_id, i));
      }
      if (holders[i] > 0 && group_of_holders[i] != group) {
        return Status::internal(fmt::format("block {} is held in two groups", i));
      }
      ++holders[i];
      last_holder[i] = request_id;
      group_of_holders[i] = group;
    }
  }
  std::vector<GroupUse> uses(groups_.size());
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const auto id = static_cast<BlockId>(i);
    const std::int32_t references = pool_.reference_count(id);
    if (references != holders[i]) {
      return Status::internal(fmt::format("block {} has {} references, but {} tables hold it", i,
                                          references, holders[i]));
    }
    if (withheld(id) && (references > 0 || !findable(id))) {
      return Status::internal(fmt::format("block {} is withheld, and not cached", i));
    }
    if (references > 0) ++uses[group_of_holders[i]].num_used;
    if (!findable(id)) continue;
    if (references > 0 && index_.group_of(id) != group_of_holders[i]) {
      return Status::internal(fmt::format("block {} is held in a group that it is not of", i));
    }
    if (references == 0) ++uses[index_.group_of(id)].num_cached;
    for (const BlockId other : index_.block_of(id)) {
      if (pool_.reference_count(other) == references) continue;
      return Status::internal(
          fmt::format("pages {} and {} of one block have different references", i, other));
    }
  }
  for (std::size_t group = 0; group < uses.size(); ++group) {
    if (uses[group] == uses_[group]) continue;
    return Status::internal(
        fmt::format("group {} uses {} pages and has {} cached; {} and {} are "
                    "counted",
                    group, uses[group].num_used, uses[group].num_cached, uses_[group].num_used,
                    uses_[group].num_cached));
  }
  return {};
}

Status KvCacheManager::check_windows(RequestId request_id, std::int32_t num_computed_tokens) const {
  const BlockTable* table = find(request_id);
  if (table == nullptr) return {};
  for (std::int32_t block = 0; block < table->size(); ++block) {
    for (std::int32_t page = 0; page < pages_per_block_; ++page) {
      const bool held = table->at(block, page) != kNullBlock;
      if (held == (block >= first_block(group_of(page), num_computed_tokens))) continue;
      return Status::internal(fmt::format(
          "request {} {} block {} in group {} with {} tokens computed", request_id,
          held ? "still holds" : "has lost", block, group_of(page), num_computed_tokens));
    }
  }
  return {};
}

}  // namespace quire
