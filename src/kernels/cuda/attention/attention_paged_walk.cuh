// The units of work of one block, in their order (attention_paged_split.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_paged_rows.cuh"
#include "kernels/cuda/attention/attention_paged_split.h"

namespace quire::cuda {

struct SplitTask {
  AttentionArgs args;
  AttentionInputs inputs;
  SplitForm form;
  const SplitPlan* plan = nullptr;
  KvPlaces kv;
  std::int32_t group = 1;
  float* slots = nullptr;

  __device__ SequenceRows rows_of(std::int32_t sequence) const {
    return SequenceRows::of(inputs.query_start_loc, inputs.seq_lens, sequence, group);
  }
  __device__ float* slot(std::int32_t block, std::int32_t index) const {
    return slots + (std::int64_t{block} * plan->block_slots + index) *
                       form.slot_floats(args.layout.value_dims());
  }
};

// The kernels of attention_paged_worker.cuh, of caches whose types these are.
void split_attention_of_fp8(const Launch& launch, const SplitTask& task);
void split_attention_of_int8(const Launch& launch, const SplitTask& task);

// Where several blocks have a tile in common (attention_paged_join.cu).
void join_split_results(const Launch& launch, const SplitTask& task);

// All threads that walk go through the same places.
struct SplitWalk {
  std::int32_t sequence;
  std::int32_t tile_number;
  std::int32_t kv_head;
  std::int32_t range;
  std::int32_t left;  // units, this one included
  SequenceRows rows;
  SequenceRows next_rows;  // of the next sequence, fetched long before they are used
  RowTile tile;

  __device__ static SplitWalk of(const SplitTask& task, const SplitStart& start) {
    SplitWalk walk;
    walk.sequence = start.sequence;
    walk.tile_number = start.tile;
    walk.kv_head = start.kv_head;
    walk.left = start.units;
    walk.rows = task.rows_of(walk.sequence);
    walk.next_rows = task.rows_of(min(walk.sequence + 1, task.inputs.num_seqs - 1));
    walk.tile = RowTile::of(task.args, walk.rows, walk.tile_number, task.form.tile_rows);
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
      if (++tile_number == rows.tiles(task.form.tile_rows)) {
        tile_number = 0;
        rows = next_rows;
        ++sequence;
        while (rows.rows() == 0 || rows.rows() > task.form.max_rows) {
          rows = task.rows_of(++sequence);
        }
        next_rows = task.rows_of(min(sequence + 1, task.inputs.num_seqs - 1));
      }
      tile = RowTile::of(task.args, rows, tile_number, task.form.tile_rows);
    }
    range = tile.range_begin();
    return true;
  }
};

}  // namespace quire::cuda
