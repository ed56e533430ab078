// What the scheduler knows of the tier below the KV cache: which blocks are there. The blocks
// themselves, and where they lie, are an executor's matter; it tells what has changed
// (TierReport). A block counts as there from the plan that stores it: who is wrong about one
// fetches in vain, and computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "base/block_name.h"
#include "core/step.h"

namespace quire {

class KvTier {
 public:
  explicit KvTier(bool on) : on_(on) {}

  // Bytes of bookkeeping for each block that a tier has room for: a node of a hash table, its
  // bucket, and what the allocator adds.
  static constexpr std::uint64_t kBytesPerBlock = 48;

  bool on() const { return on_; }
  // Whether blocks are to be stored.
  bool stores() const { return on_ && stores_; }
  bool has(const BlockName& name) const { return on_ && blocks_.contains(name[0]); }
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }

  void add(const BlockName& name) { blocks_.insert(name[0]); }
  void apply(const TierReport& report) {
    blocks_.insert(report.added.begin(), report.added.end());
    for (const std::uint64_t word : report.removed) blocks_.erase(word);
    if (report.stores_end) stores_ = false;
    if (report.closed) *this = KvTier(false);
  }

  struct Snapshot {
    bool on = false;
    bool stores = true;
    std::vector<std::uint64_t> blocks;  // sorted
  };
  Snapshot snapshot() const {
    std::vector<std::uint64_t> blocks(blocks_.begin(), blocks_.end());
    std::ranges::sort(blocks);
    return {on_, stores_, std::move(blocks)};
  }
  void restore(const Snapshot& snapshot) {
    on_ = snapshot.on;
    stores_ = snapshot.stores;
    blocks_ = {snapshot.blocks.begin(), snapshot.blocks.end()};
  }

 private:
  bool on_;
  bool stores_ = true;
  std::unordered_set<std::uint64_t> blocks_;  // first words of their names
};

}  // namespace quire
