#include "engine/engine_state.h"

#include <algorithm>

#include "core/scheduler.h"
#include "engine/engine_stats.h"

namespace quire {
namespace {

// Those behind a window are held no more.
std::int32_t num_held(const BlockTable* table) {
  if (table == nullptr) return 0;
  const auto& entries = table->block_ids();
  return static_cast<std::int32_t>(std::ssize(entries) - std::ranges::count(entries, kNullBlock));
}

OutputState output_state(const Request& request, const KvCacheManager& kv, Instant now) {
  const std::optional<WaitCause> wait = request.timeline().current();
  return {.id = request.id(),
          .external_id = request.external_id(),
          .index = request.sample_index(),
          .priority = request.priority(),
          .num_prompt_tokens = request.num_prompt_tokens(),
          .num_cached_tokens = request.num_cached_tokens(),
          .num_computed_tokens = request.num_computed_tokens(),
          .num_tokens = request.num_tokens(),
          .max_num_tokens = request.num_prompt_tokens() + request.max_output_tokens(),
          .num_preemptions = request.num_preemptions(),
          .num_blocks = num_held(kv.find(request.id())),
          .arrival = request.arrival(),
          .wait = wait,
          .waited = wait ? request.timeline().total(*wait, now) : Duration{}};
}

}  // namespace

EngineStats EngineState::stats() const {
  return engine_stats(scheduler_.stats(), scheduler_.config(), scheduler_.kv_cache().group_uses(),
                      speculation_);
}

std::vector<OutputState> EngineState::running(std::size_t most, Instant now) const {
  std::vector<OutputState> outputs;
  const auto running = scheduler_.running();
  for (const Request* request : running.first(std::min(running.size(), most))) {
    outputs.push_back(output_state(*request, scheduler_.kv_cache(), now));
  }
  return outputs;
}

std::vector<OutputState> EngineState::waiting(std::size_t most, Instant now) const {
  std::vector<OutputState> outputs;
  for (const Request* request : scheduler_.fetching()) {
    if (outputs.size() < most) {
      outputs.push_back(output_state(*request, scheduler_.kv_cache(), now));
    }
  }
  most -= outputs.size();
  const auto waiting = scheduler_.waiting();  // the next one last
  for (std::size_t i = 0; i < std::min(waiting.size(), most); ++i) {
    const Request& request = *waiting[waiting.size() - 1 - i];
    outputs.push_back(output_state(request, scheduler_.kv_cache(), now));
  }
  return outputs;
}

std::optional<OutputState> EngineState::find(RequestId output_id, Instant now) const {
  const Request* request = scheduler_.find(output_id);
  if (request == nullptr) return std::nullopt;
  return output_state(*request, scheduler_.kv_cache(), now);
}

std::shared_ptr<const RequestTimeline> EngineState::timeline(RequestId output_id) const {
  const Request* request = scheduler_.find(output_id);
  if (request == nullptr) return nullptr;
  return std::make_shared<const RequestTimeline>(request->timeline());
}

std::span<const PinnedPrefix> EngineState::pins() const { return scheduler_.pinned().all(); }

void EngineState::read_block_uses(std::vector<BlockUse>& uses) const {
  const KvCacheManager& kv = scheduler_.kv_cache();
  const BlockPool& pool = kv.pool();
  uses.resize(static_cast<std::size_t>(pool.num_blocks()));
  for (BlockId id = 0; id < pool.num_blocks(); ++id) {
    BlockUse& use = uses[static_cast<std::size_t>(id)];
    if (pool.reference_count(id) > 0) {
      use = kBlockRetained;  // unless an output is found below
    } else {
      use = kv.findable(id) ? kBlockCached : kBlockFree;
    }
  }
  for (const PinnedPrefix& pin : scheduler_.pinned().all()) {
    for (const BlockId id : kv.find(KvCacheManager::pin_table(pin.id))->block_ids()) {
      if (id != kNullBlock) uses[static_cast<std::size_t>(id)] = kBlockPinned;
    }
  }
  for (const Request* request : scheduler_.running()) {
    const BlockTable* table = kv.find(request->id());
    if (table == nullptr) continue;
    for (const BlockId id : table->block_ids()) {
      if (id == kNullBlock) continue;  // behind a window
      BlockUse& use = uses[static_cast<std::size_t>(id)];
      if (use == kBlockRetained || use == kBlockPinned)
        use = block_held(request->id(), pool.shared(id));
    }
  }
}

}  // namespace quire
