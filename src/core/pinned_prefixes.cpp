#include "core/pinned_prefixes.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/kv_cache_manager.h"

namespace quire {

bool PinnedPrefixes::add(PinId id, std::span<const TokenId> tokens, std::int32_t num_blocks,
                         const CacheScope& scope, KvCacheManager& kv) {
  const auto match = kv.match_prefix(tokens, num_blocks * kv.block_size(), scope);
  if (num_blocks == 0 || match.num_blocks != num_blocks) return false;
  kv.share_prefix(KvCacheManager::pin_table(id), match);
  pins_.push_back({.id = id, .num_blocks = num_blocks, .num_pages = kv.prefix_pages(num_blocks)});
  return true;
}

bool PinnedPrefixes::remove(PinId id, KvCacheManager& kv) {
  const auto found = std::ranges::find(pins_, id, &PinnedPrefix::id);
  if (found == pins_.end()) return false;
  kv.free(KvCacheManager::pin_table(id));
  pins_.erase(found);
  return true;
}

void PinnedPrefixes::clear(KvCacheManager& kv) {
  for (const PinnedPrefix& pin : pins_) kv.free(KvCacheManager::pin_table(pin.id));
  pins_.clear();
}

std::int32_t PinnedPrefixes::count_hits(RequestId request_id, const KvCacheManager& kv) {
  std::int32_t longest = 0;
  for (PinnedPrefix& pin : pins_) {
    if (!kv.begins_with(request_id, KvCacheManager::pin_table(pin.id))) continue;
    ++pin.num_hits;
    longest = std::max(longest, pin.num_blocks);
  }
  return longest * kv.block_size();
}

const PinnedPrefix* PinnedPrefixes::find(PinId id) const {
  const auto found = std::ranges::find(pins_, id, &PinnedPrefix::id);
  return found == pins_.end() ? nullptr : &*found;
}

std::int64_t PinnedPrefixes::num_pages() const {
  std::int64_t pages = 0;
  for (const PinnedPrefix& pin : pins_) pages += pin.num_pages;
  return pages;
}

Status PinnedPrefixes::check_invariants(const KvCacheManager& kv) const {
  const auto broken = [](PinId id, std::string_view why) {
    return Status::internal(fmt::format("pinned prefix {}: {}", id, why));
  };
  for (const PinnedPrefix& pin : pins_) {
    if (pin.id == 0 || pin.id > kMaxPinId || pin.num_hits < 0) {
      return broken(pin.id, "its id or hits cannot be");
    }
    if (std::ranges::count(pins_, pin.id, &PinnedPrefix::id) != 1) {
      return broken(pin.id, "there are two");
    }
    const RequestId table_id = KvCacheManager::pin_table(pin.id);
    const BlockTable* table = kv.find(table_id);
    if (table == nullptr || table->size() != pin.num_blocks || pin.num_blocks < 1 ||
        !kv.begins_with(table_id, table_id)) {
      return broken(pin.id, "it does not hold its blocks");
    }
    QUIRE_RETURN_IF_ERROR(kv.check_windows(table_id, pin.num_blocks * kv.block_size()));
    std::int64_t num_held = 0;
    for (const BlockId page : table->block_ids()) {
      if (page == kNullBlock) continue;
      ++num_held;
      if (!kv.findable(page)) return broken(pin.id, "a block of it cannot be found");
    }
    if (num_held != pin.num_pages) return broken(pin.id, "it holds other pages than it says");
  }
  return {};
}

}  // namespace quire
