// The tier below a simulated executor's KV memory: blocks by their names, in room for a few of them
// that forgets, with fetches that take their time and sometimes fail. It distrusts the scheduler as
// the executor does: a name stands for one content for ever, and while a fetch is on its way its
// pages have contents that nobody may read.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/block_name.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/step.h"
#include "sim/workload.h"

namespace quire {

struct SimulatedTierConfig {
  std::int64_t max_blocks = 0;  // 0: there is no tier
  Duration block_time{};        // of a fetch, for each block
  double loss = 0;              // how often a block is not stored, or not found again
  std::uint64_t seed = 0;
};

class SimulatedTier {
 public:
  // Of an executor's memory: what each token of a page has left, page after page. Borrowed. Nothing
  // where `block_size` is zero: then blocks are names alone.
  SimulatedTier(const SimulatedTierConfig& config, std::span<std::uint64_t> slots,
                std::size_t block_size)
      : config_(config), slots_(slots), block_size_(block_size), random_(config.seed) {}

  // A step's stores and fetches, at their time. kInternal for two contents of one name.
  Status begin(const SchedulerOutput& plan, Instant now);
  // What has happened until now; false: nothing.
  bool take_report(TierReport& report, Instant now);
  // When the next fetch ends; nullopt: none is on its way.
  std::optional<Instant> next_end() const;
  // Of all fetches that have ended, from the plan that asked for it.
  Duration fetch_time() const { return fetch_time_; }

 private:
  struct Fetch {
    FetchId id = 0;
    Instant begin{};
    Instant end{};
    std::vector<BlockFetch> blocks;
  };
  std::span<std::uint64_t> page(BlockId block_id) const {
    return slots_.subspan(static_cast<std::size_t>(block_id) * block_size_, block_size_);
  }
  Status store(const BlockStore& block);
  void forget(const BlockName& name);
  void end(const Fetch& fetch, TierReport& report);

  SimulatedTierConfig config_;
  std::span<std::uint64_t> slots_;
  std::size_t block_size_;
  RandomStream random_;
  std::unordered_map<BlockName, std::vector<std::uint64_t>, BlockNameHash> blocks_;
  std::unordered_map<BlockName, std::vector<std::uint64_t>, BlockNameHash> seen_;  // ever
  std::deque<BlockName> order_;  // of blocks_, the oldest first
  std::deque<Fetch> fetches_;    // in order
  Duration fetch_time_{};
  TierReport report_;
};

}  // namespace quire
