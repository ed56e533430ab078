// The units of work of one block, in their order (attention_paged_split.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_paged_rows.cuh"
#include "kernels/cuda/attention/attention_paged_split.h"

namespace quire::cuda {

struct SplitTask {
  AttentionArgs args;
  AttentionInputs inputs;
  SplitPlan plan;
  KvPlaces kv;
  std::int32_t group = 1;
  float* slots = nullptr;

  __device__ SequenceRows rows_of(std::int32_t sequence) const {
    return SequenceRows::of(inputs.query_start_loc, inputs.seq_lens, sequence, group);
  }
  __device__ float* slot(std::int32_t block, std::int32_t index) const {
    return slots + (std::int64_t{block} * plan.block_slots + index) *
                       plan.slot_floats(args.layout.head_dim);
  }
};

// All threads that walk go through the same places.
struct SplitWalk {
  std::int32_t sequence;
  std::int32_t tile_number;
  std::int32_t kv_head;
  std::int32_t range;
  std::int32_t left;  // units, this one included
  SequenceRows rows;
  RowTile tile;

  __device__ static SplitWalk of(const SplitTask& task, const SplitStart& start) {
    SplitWalk walk;
    walk.sequence = start.sequence;
    walk.tile_number = start.tile;
    walk.kv_head = start.kv_head;
    walk.left = start.units;
    walk.rows = task.rows_of(walk.sequence);
    walk.tile = RowTile::of(task.args, walk.rows, walk.tile_number, task.plan.tile_rows);
    walk.range = start.range;
    return walk;
  }
  __device__ bool begins_tile() const { return range == tile.range_begin(); }
  __device__ bool ends_tile() const { return range + 1 == tile.range_end(); }
  // False where there is no other unit.
  __device__ bool advance(const SplitTask& task) {
    if (--left == 0) return false;
    if (++range < tile.range_end()) return true;
    if (++kv_head == task.args.layout.num_kv_heads) {
      kv_head = 0;
      if (++tile_number == rows.tiles(task.plan.tile_rows)) {
        tile_number = 0;
        do {
          rows = task.rows_of(++sequence);
        } while (rows.rows() == 0 || rows.rows() > task.plan.max_rows);
      }
      tile = RowTile::of(task.args, rows, tile_number, task.plan.tile_rows);
    }
    range = tile.range_begin();
    return true;
  }
};

}  // namespace quire::cuda
