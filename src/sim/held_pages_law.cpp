#include "sim/held_pages_law.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/kv_group.h"

namespace quire {

std::string held_pages_error(const Scheduler& scheduler, const SchedulerOutput& plan,
                             Coverage& coverage) {
  const SchedulerConfig& config = scheduler.config();
  for (const ScheduledRequest& each : plan.scheduled) {
    for (const KvGroup& group : config.kv_groups) {
      if (!group.keeps_all() && each.num_scheduled_tokens > group.window) {
        ++coverage.chunks_over_end;
      }
    }
    const auto& entries = scheduler.find_blocks(each.request_id)->block_ids();
    const std::int64_t num_null = std::ranges::count(entries, kNullBlock);
    coverage.passed_pages += num_null;
    const std::int64_t num_held = std::ssize(entries) - num_null;
    const std::int64_t most =
        max_pages(config.kv_groups, each.end(), config.max_tokens_in_flight(), config.block_size);
    if (num_held > most) {
      return fmt::format("request {} holds {} pages, at most {} were to be expected",
                         each.request_id, num_held, most);
    }
  }
  return {};
}

}  // namespace quire
