// The scheduler's numbers as an engine shows them.
#pragma once

#include <span>

#include "core/scheduler.h"
#include "engine/engine_state.h"

namespace quire {

// `uses`: of the KV groups of `config`, in their order.
EngineStats engine_stats(const SchedulerStats& stats, const SchedulerConfig& config,
                         std::span<const KvCacheManager::GroupUse> uses,
                         const SpeculationTimes& speculation = {}, const TierStats& tier = {});

}  // namespace quire
