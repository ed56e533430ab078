#include "kernels/cuda/planned_attention.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "base/checked.h"

namespace quire::cuda {
namespace {

// Block ids of a sequence that has `blocks`, and of those that have a few more: at most a quarter
// more, or 64.
std::int64_t table_room(std::int64_t blocks) {
  const auto quarter =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(blocks)) / 4);
  const std::int64_t step = std::max<std::int64_t>(quarter, 64);
  return ceil_div(blocks, step) * step;
}

}  // namespace

CudaPlannedAttention::Kind CudaPlannedAttention::Kind::of(const AttentionArgs& args,
                                                          const SplitShape& shape) {
  return {.num_heads = args.num_heads,
          .num_kv_heads = args.layout.num_kv_heads,
          .head_dim = args.layout.head_dim,
          .latent_dims = args.layout.latent_dims,
          .window = args.window,
          .chunk = args.chunk,
          .shape = shape};
}

AttentionArgs CudaPlannedAttention::Kind::args() const {
  AttentionArgs args;
  args.num_heads = num_heads;
  args.window = window;
  args.chunk = chunk;
  args.layout.num_kv_heads = num_kv_heads;
  args.layout.head_dim = head_dim;
  args.layout.latent_dims = latent_dims;
  return args;
}

void CudaPlannedAttention::build(const AttentionBatch& batch) {
  batch_ = batch;
  tables_.clear();
  const auto count = static_cast<std::size_t>(batch.num_seqs);
  inputs_ = {.num_seqs = batch.num_seqs,
             .num_tokens = batch.query_start_loc[count] - batch.query_start_loc[0],
             .host_query_start_loc = batch.query_start_loc,
             .host_seq_lens = batch.seq_lens};
  for (std::size_t i = 0; i < count; ++i) {
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
  for (StagedKind& staged : kinds_) stage_split(staged);
  if (block_size_ == 0) return;
  if (batch.layer_tables.empty()) stage_tables(batch.block_tables);
  for (const BlockId* const* const tables : batch.layer_tables) stage_tables(tables);
}

bool CudaPlannedAttention::repeats() const {
  return std::ranges::all_of(kinds_, [&](const StagedKind& staged) {
    const Kind& kind = staged.kind;
    return std::int64_t{inputs_.max_queries} * kind.num_heads / kind.num_kv_heads <=
           kind.shape.max_rows;
  });
}

void CudaPlannedAttention::add_to(PieceKey& key) const {
  key.add(inputs_.num_seqs, inputs_.num_tokens, inputs_.max_queries, inputs_.query_start_loc,
          inputs_.seq_lens, table_stride_);
  for (const StagedTables& tables : tables_) key.add(tables.of_host, tables.of_device);
  for (const StagedKind& staged : kinds_) {
    const auto& [max_rows, tile_rows, slot_rows, grid, joined_grid, most_ranges] =
        staged.split.form;
    key.add(max_rows, tile_rows, slot_rows, grid, joined_grid, most_ranges, staged.split.plan);
  }
}

void CudaPlannedAttention::stage_split(StagedKind& staged) const {
  const SplitPlan plan =
      SplitPlan::of(inputs_, staged.kind.args(), staged.kind.shape, workspace_bytes_);
  const auto place = transfers_.stage(sizeof(SplitPlan));
  std::construct_at(reinterpret_cast<SplitPlan*>(place.host), plan);
  staged.split = {.form = plan.form, .plan = reinterpret_cast<const SplitPlan*>(place.device)};
}

const BlockId* CudaPlannedAttention::stage_tables(const BlockId* const* block_tables) const {
  const auto known = std::ranges::find(tables_, block_tables, &StagedTables::of_host);
  if (known != tables_.end()) return known->of_device;
  const auto count = static_cast<std::size_t>(batch_.num_seqs);
  std::int64_t most_blocks = 1;
  for (std::size_t i = 0; i < count; ++i) {
    most_blocks = std::max(most_blocks, ceil_div(std::int64_t{batch_.seq_lens[i]}, block_size_));
  }
  table_stride_ = table_room(most_blocks);
  const auto stride = static_cast<std::size_t>(table_stride_);
  const auto place = transfers_.stage(count * stride * sizeof(BlockId));
  auto* to = reinterpret_cast<BlockId*>(place.host);
  for (std::size_t i = 0; i < count; ++i, to += stride) {
    std::copy_n(block_tables[i], ceil_div(std::int64_t{batch_.seq_lens[i]}, block_size_), to);
  }
  tables_.push_back({block_tables, reinterpret_cast<const BlockId*>(place.device)});
  return tables_.back().of_device;
}

CudaPlannedAttention::Layer CudaPlannedAttention::layer(const AttentionArgs& args) const {
  if (block_size_ != args.layout.block_size) {
    block_size_ = args.layout.block_size;
    tables_.clear();
  }
  Layer layer;
  const BlockId* const tables =
      stage_tables(args.block_tables != nullptr ? args.block_tables : batch_.block_tables);
  layer.inputs = inputs_;
  layer.inputs.table_stride = table_stride_;
  layer.inputs.block_tables = tables;
  const std::optional<SplitShape> shape = split_shape(args, multiprocessors_);
  layer.repeats = attention_repeats(inputs_, args, shape);
  if (layer.repeats) {
    // Nobody looks there, and what is launched must not depend on where they are.
    layer.inputs.host_query_start_loc = layer.inputs.host_seq_lens = nullptr;
  }
  if (!shape) return layer;
  const Kind kind = Kind::of(args, *shape);
  auto staged = std::ranges::find(kinds_, kind, &StagedKind::kind);
  if (staged == kinds_.end()) {
    kinds_.push_back({.kind = kind, .split = {}});
    staged = std::prev(kinds_.end());
    stage_split(*staged);
  }
  layer.split = staged->split;
  return layer;
}

}  // namespace quire::cuda
