#include <algorithm>
#include <bit>
#include <cstddef>

#include "kernels/cuda/attention/attention_paged_rows.cuh"
#include "kernels/cuda/attention/attention_paged_split.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kMostPartialBytes = std::uint64_t{128} << 20;

// Calls fn(sequence, tile number, tile) for what is split.
template <typename F>
void for_each_split_tile(const SplitForm& form, const AttentionInputs& inputs,
                         const AttentionArgs& args, const F& fn) {
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  for (std::int32_t sequence = 0; sequence < inputs.num_seqs; ++sequence) {
    const SequenceRows rows =
        SequenceRows::of(inputs.host_query_start_loc, inputs.host_seq_lens, sequence, group);
    if (rows.rows() > form.max_rows) continue;
    for (std::int32_t tile = 0; tile < rows.tiles(form.tile_rows); ++tile) {
      fn(sequence, tile, RowTile::of(args, rows, tile, form.tile_rows));
    }
  }
}

std::int32_t rounded_up(std::int32_t count) {
  return count == 0 ? 0 : static_cast<std::int32_t>(std::bit_ceil(static_cast<unsigned>(count)));
}

}  // namespace

SplitPlan SplitPlan::of(const AttentionInputs& inputs, const AttentionArgs& args,
                        const SplitShape& shape, std::uint64_t workspace_bytes) {
  SplitPlan plan;
  SplitForm& form = plan.form;
  form.max_rows = shape.max_rows;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  std::int32_t most_rows = 0;
  for (std::int32_t sequence = 0; sequence < inputs.num_seqs; ++sequence) {
    const std::int32_t rows =
        SequenceRows::of(inputs.host_query_start_loc, inputs.host_seq_lens, sequence, group).rows();
    if (rows <= form.max_rows) most_rows = std::max(most_rows, rows);
  }
  const bool is_small = most_rows <= 16;
  form.tile_rows = is_small ? 16 : shape.tile_rows;
  form.slot_rows = std::min(most_rows, form.tile_rows);

  const std::int64_t heads = args.layout.num_kv_heads;
  std::int64_t units = 0;
  std::int32_t most_ranges = 0;
  for_each_split_tile(form, inputs, args, [&](std::int32_t, std::int32_t, const RowTile& tile) {
    units += tile.ranges() * heads;
    most_ranges = std::max(most_ranges, tile.ranges());
  });
  if (units == 0) return plan;
  const std::int64_t most_blocks =
      std::min(is_small ? shape.small_blocks : shape.blocks, kMostSplitBlocks);
  const std::int64_t share = (units + most_blocks - 1) / most_blocks;
  plan.share = static_cast<std::int32_t>(share);
  plan.blocks = static_cast<std::int32_t>((units + share - 1) / share);
  plan.block_slots = 1 + static_cast<std::int32_t>(std::min<std::int64_t>(share, most_ranges));
  const std::int64_t bytes = std::int64_t{plan.blocks} * plan.block_slots *
                             form.slot_floats(args.layout.value_dims()) *
                             static_cast<std::int64_t>(sizeof(float));
  // Where partial results would not fit, there is so much to do that blocks begin at whole tiles.
  const bool divides_tiles = static_cast<std::uint64_t>(bytes) <= workspace_bytes;

  std::int64_t first = 0;  // unit of the tile
  std::int32_t block = 0;
  std::int64_t last_joined = -1;  // unit where the last tile that blocks have in common begins
  std::int64_t begins[kMostSplitBlocks + 1];
  for_each_split_tile(
      form, inputs, args, [&](std::int32_t sequence, std::int32_t number, const RowTile& tile) {
        const std::int64_t ranges = tile.ranges();
        for (; block < plan.blocks; ++block) {
          std::int64_t within = std::max<std::int64_t>(block * share - first, 0);
          if (!divides_tiles) within = (within + ranges - 1) / ranges * ranges;
          if (within >= ranges * heads) break;
          const auto range = static_cast<std::int32_t>(within % ranges);
          begins[block] = first + within;
          const std::int64_t head_begin = first + within - range;
          if (range != 0 && head_begin != last_joined) {
            plan.joined[plan.num_joined++] = static_cast<std::int16_t>(block - 1);
            last_joined = head_begin;
          }
          plan.starts[block] = {.sequence = sequence,
                                .tile = number,
                                .kv_head = static_cast<std::int32_t>(within / ranges),
                                .range = tile.range_begin() + range};
        }
        first += ranges * heads;
      });
  plan.blocks = block;  // the last ones may have nothing left
  form.grid = std::min(rounded_up(block), static_cast<std::int32_t>(most_blocks));
  form.joined_grid = rounded_up(plan.num_joined);
  form.most_ranges = rounded_up(most_ranges);
  begins[block] = units;
  for (std::int32_t i = 0; i < block; ++i) {
    plan.starts[i].units = static_cast<std::int32_t>(begins[i + 1] - begins[i]);
  }
  return plan;
}

std::uint64_t split_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  const AttentionSizes& sizes = limits.attention;
  const std::int64_t ranges = (sizes.max_seq_len + kRangeKeys - 1) / kRangeKeys;
  const std::int64_t rows = std::min<std::int64_t>(
      kMostSplitRows, limits.max_rows * std::max(sizes.heads_per_kv_head, 1));
  const std::int64_t block_rows =
      std::max(rows, kSmallSplitBlocks * std::min<std::int64_t>(rows, 16));
  const std::int64_t floats = multiprocessors * (1 + ranges) * block_rows * (sizes.head_dim + 6);
  return std::min(static_cast<std::uint64_t>(floats) * sizeof(float), kMostPartialBytes);
}

}  // namespace quire::cuda
