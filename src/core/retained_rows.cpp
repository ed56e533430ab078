#include "core/retained_rows.h"

#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {

void RetainedRows::add_to(StepWork& work) const {
  for (const RetainedRow& row : rows_) work.add_row(row.num_tokens - 1);
}

std::int32_t RetainedRows::plan(std::int32_t most, KvCacheManager& kv, SchedulerOutput& plan) {
  std::int32_t num_planned = 0;
  for (RetainedRow& row : rows_) {
    if (num_planned == most) break;
    if (row.num_tokens >= max_model_len_) continue;
    kv.release_passed(row.request_id, row.num_tokens - 1);
    const auto num_new_blocks = kv.allocate(row.request_id, row.num_tokens - 1, 1, plan);
    if (!num_new_blocks) break;
    plan.scheduled.push_back(
        {.request_id = row.request_id,
         .num_computed_tokens = row.num_tokens - 1,
         .num_scheduled_tokens = 1,
         .use = RowUse::kTokens,
         .first_new_block = static_cast<std::int32_t>(plan.new_block_ids.size()) - *num_new_blocks,
         .num_new_blocks = *num_new_blocks});
    ++plan.total_num_scheduled_tokens;
    ++row.num_tokens;
    ++num_planned;
  }
  return num_planned;
}

void RetainedRows::drop(std::size_t num_left, KvCacheManager& kv, std::vector<RequestId>& removed) {
  while (rows_.size() > num_left) {
    const RequestId id = rows_.back().request_id;
    rows_.pop_back();
    kv.free(id);
    removed.push_back(id);
  }
}

Status RetainedRows::restore(std::vector<RetainedRow> rows) {
  for (const RetainedRow& row : rows) {
    if (row.num_tokens < 2 || row.num_tokens > max_model_len_) {
      return Status::invalid_argument(
          fmt::format("the row of request {} has {} tokens", row.request_id, row.num_tokens));
    }
  }
  rows_ = std::move(rows);
  return {};
}

Status RetainedRows::check_invariants(const KvCacheManager& kv) const {
  for (const RetainedRow& row : rows_) {
    const BlockTable* table = kv.find(row.request_id);
    if (table == nullptr || table->size() != ceil_div(row.num_tokens - 1, kv.block_size())) {
      return Status::internal(
          fmt::format("the row of request {} does not hold the blocks of its {} tokens",
                      row.request_id, row.num_tokens));
    }
  }
  return {};
}

}  // namespace quire
