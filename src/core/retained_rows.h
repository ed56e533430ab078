// The rows of finished members of a static batch: they go on being computed, one token a step, as
// long as the batch has members, as in a batch of tensors of fixed shape. What they give is thrown
// away, and their blocks are the first to go when memory is short.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/kv_cache_manager.h"
#include "core/step.h"
#include "core/step_pace.h"

namespace quire {

// Its last known token is not computed yet.
struct RetainedRow {
  RequestId request_id = 0;
  std::int32_t num_tokens = 0;
};

// The block tables stay with the manager that each call is given; always the same one.
class RetainedRows {
 public:
  explicit RetainedRows(std::int32_t max_model_len) : max_model_len_(max_model_len) {}

  // From now on the row of a request that has ended, which keeps its table.
  void add(RequestId request_id, std::int32_t num_tokens) {
    rows_.push_back({request_id, num_tokens});
  }
  // What the next step computes of them.
  void add_to(StepWork& work) const;
  // Schedules one token of each that may grow, at most `most` rows and as long as there are blocks.
  // Returns how many: the last ones of the plan.
  std::int32_t plan(std::int32_t most, KvCacheManager& kv, SchedulerOutput& plan);
  // Ends the last rows until so many are left; their ids go to `removed`.
  void drop(std::size_t num_left, KvCacheManager& kv, std::vector<RequestId>& removed);

  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }

  const std::vector<RetainedRow>& snapshot() const { return rows_; }
  // kInvalidArgument naming the row that cannot be.
  Status restore(std::vector<RetainedRow> rows);
  // kInternal unless each row holds the blocks of its tokens.
  Status check_invariants(const KvCacheManager& kv) const;

 private:
  std::int32_t max_model_len_;
  std::vector<RetainedRow> rows_;
};

}  // namespace quire
