#include "sim/table_law.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {

// The executor lets go of what is behind a window when it has computed the step, the scheduler when
// it has processed the result.
std::string table_error(const Scheduler& scheduler, const SimulatedExecutor& executor,
                        const SchedulerOutput& plan) {
  const auto same = [&](RequestId id) {
    const BlockTable* table = scheduler.find_blocks(id);
    const std::vector<BlockId>* copy = executor.find_block_ids(id);
    return table == nullptr
               ? copy == nullptr
               : copy != nullptr &&
                     std::ranges::equal(table->block_ids(), *copy, [](BlockId own, BlockId of) {
                       return own == of || of == kNullBlock;
                     });
  };
  const auto differ = [](RequestId id) {
    return fmt::format("request {}: scheduler and executor have different block tables", id);
  };
  for (const auto requests : {scheduler.running(), scheduler.waiting(), scheduler.fetching()}) {
    for (const Request* request : requests) {
      const RequestId id = request->id();
      // What beams have is told with their next step.
      const Beams* beams = request->beams();
      for (const RequestId row : beams ? beams->rows.told() : std::span(&id, 1)) {
        if (!same(row)) return differ(row);
      }
    }
  }
  for (const ScheduledRequest& each : plan.scheduled) {  // rows that nobody wants, too
    if (!same(each.request_id)) return differ(each.request_id);
  }
  return {};
}

}  // namespace quire
