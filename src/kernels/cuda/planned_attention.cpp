#include "kernels/cuda/planned_attention.h"

#include <algorithm>

#include "base/checked.h"

namespace quire::cuda {

void CudaPlannedAttention::build(const AttentionBatch& batch) {
  batch_ = batch;
  tables_.clear();
  const auto count = static_cast<std::size_t>(batch.num_seqs);
  inputs_ = {.num_seqs = batch.num_seqs,
             .num_tokens = batch.query_start_loc[count] - batch.query_start_loc[0],
             .host_query_start_loc = batch.query_start_loc,
             .host_seq_lens = batch.seq_lens};
  for (std::size_t i = 0; i < count; ++i) {
    inputs_.max_seq_len = std::max(inputs_.max_seq_len, batch.seq_lens[i]);
    inputs_.max_queries =
        std::max(inputs_.max_queries, batch.query_start_loc[i + 1] - batch.query_start_loc[i]);
  }
  const auto place = transfers_.stage((2 * count + 1) * sizeof(std::int32_t));
  auto* const host = reinterpret_cast<std::int32_t*>(place.host);
  const auto* const device = reinterpret_cast<const std::int32_t*>(place.device);
  std::copy_n(batch.query_start_loc, count + 1, host);
  std::copy_n(batch.seq_lens, count, host + count + 1);
  inputs_.query_start_loc = device;
  inputs_.seq_lens = device + count + 1;
}

const BlockId* CudaPlannedAttention::staged(const BlockId* const* block_tables,
                                            std::int64_t block_size, std::int64_t stride) const {
  const auto known = std::ranges::find(tables_, block_tables, &StagedTables::of_host);
  if (known != tables_.end()) return known->of_device;
  const auto count = static_cast<std::size_t>(batch_.num_seqs);
  const auto place = transfers_.stage(count * static_cast<std::size_t>(stride) * sizeof(BlockId));
  auto* to = reinterpret_cast<BlockId*>(place.host);
  for (std::size_t i = 0; i < count; ++i, to += stride) {
    std::copy_n(block_tables[i], ceil_div(std::int64_t{batch_.seq_lens[i]}, block_size), to);
  }
  tables_.push_back({block_tables, reinterpret_cast<const BlockId*>(place.device)});
  return tables_.back().of_device;
}

AttentionInputs CudaPlannedAttention::inputs(const AttentionArgs& args) const {
  AttentionInputs inputs = inputs_;
  inputs.table_stride =
      ceil_div(std::int64_t{inputs.max_seq_len}, std::int64_t{args.layout.block_size});
  const BlockId* const* const tables =
      args.block_tables != nullptr ? args.block_tables : batch_.block_tables;
  inputs.block_tables = staged(tables, args.layout.block_size, inputs.table_stride);
  return inputs;
}

}  // namespace quire::cuda
