// The whole state of a scheduler between two steps, as plain data: what an event log begins with,
// so that a replay can start in the middle of a run. Who writes it to a file is not core's matter.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kv_cache_manager.h"
#include "core/request.h"
#include "core/scheduler.h"

namespace quire {

struct SchedulerSnapshot {
  SchedulerConfig config;
  KvCacheManager::Snapshot kv;
  std::vector<RequestSnapshot> running;  // in order
  std::vector<RequestSnapshot> waiting;  // in order: the next one last
  std::int64_t num_vacancies = 0;        // of the batch that forms
  std::vector<RetainedRow> retained;
  std::vector<RequestId> removed_request_ids;  // that the executor has not been told of yet
  std::uint64_t num_arrivals = 0;
  SchedulerStats counters;  // its gauges are unused
};

}  // namespace quire
