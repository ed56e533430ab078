// The parts of the kernel of attention_paged_split.h. Eight warps compute, and four copy keys and
// values ahead of them into a ring of buffers: of each range four buffers of 64 keys, then four of
// their values.
//
// Of a range, each warp computes the scores of a group of 32 keys; then, when all know the largest
// scores of all groups, the weights of its group, which all share; then the weighted sums of some
// of the dimensions over all keys.
//
// How a buffer lies in shared memory is a matter of the cache's type (attention_paged_numbers.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_numbers.cuh"
#include "kernels/cuda/attention/attention_paged_walk.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {

inline constexpr int kSplitWarps = kRangeGroups;
inline constexpr int kSplitCopiers = 4;  // warps
inline constexpr int kSplitThreads = 32 * (kSplitWarps + kSplitCopiers);
inline constexpr std::int32_t kRangeBuffers = kRangeKeys / kBufferKeys;  // of keys, or of values
inline constexpr std::int32_t kMostBuffers = 16;

// Where things lie in shared memory.
template <DType kDType>
struct SplitMemory {
  using Numbers = PagedNumbers<kDType>;
  std::int32_t dims;
  std::int32_t tiles;   // of 16 rows
  std::int32_t blocks;  // of a multiprocessor

  // Where there is room, two blocks at a time do not wait for the same.
  static constexpr int blocks_each(int tiles, int columns) {
    return tiles == 1 && columns <= 2 && Numbers::kPairBytes == 2 ? kSmallSplitBlocks : 1;
  }
  constexpr std::int32_t buffer_bytes() const { return Numbers::buffer_bytes(dims); }
  static constexpr std::int32_t barriers() { return 0; }
  // Queries as operand A: [dims / 16][tiles][32 lanes].
  static constexpr std::int32_t queries() { return 2 * kMostBuffers * 8; }
  // Weights as operand A: [kRangeKeys / 16][tiles][32 lanes].
  constexpr std::int32_t weights() const { return queries() + dims / 16 * tiles * 512; }
  // Largest scores: [16 tiles][kRangeGroups].
  constexpr std::int32_t maxima() const { return weights() + kRangeKeys / 16 * tiles * 512; }
  // Sums of weights of lanes with t = lane % 4: [16 tiles][kRangeGroups][4].
  constexpr std::int32_t totals() const { return maxima() + 16 * tiles * kRangeGroups * 4; }
  constexpr std::int32_t buffers() const {
    return (totals() + 16 * tiles * kRangeGroups * 16 + 127) / 128 * 128;
  }
  constexpr std::int32_t num_buffers() const {
    const std::int32_t fit = ((228 << 10) / blocks - (1 << 10) - buffers()) / buffer_bytes();
    return fit < kMostBuffers ? fit : kMostBuffers;
  }
  constexpr std::int32_t bytes() const { return buffers() + num_buffers() * buffer_bytes(); }
};

// A warp that copies: 16 keys of each buffer.
template <DType kDType>
struct SplitCopier {
  using Numbers = PagedNumbers<kDType>;
  const SplitTask& task;
  const SplitMemory<kDType>& memory;
  std::uint32_t buffers;
  RingPlace ring;
  int warp;
  int lane;

  // Of 16 keys of a range a lane; negative where no row of the tile sees any of them.
  __device__ BlockId block_of(const SplitWalk& walk) const {
    const std::int32_t first = walk.range * kRangeKeys + lane % 16 * 16;
    if (!walk.tile.sees_any(first, 16)) return kNullBlock;
    return task.inputs.block_tables[walk.sequence * task.inputs.table_stride +
                                    first / task.args.layout.block_size];
  }

  // The first range's keys and values on their way to the L2 cache, while kernels before this one
  // may still run: what they write is seen there all the same.
  __device__ void prefetch(std::int32_t kv_head, BlockId block) const {
    if (task.args.layout.block_size != 16 || warp != 0 || lane >= 16 || block < 0) return;
    const std::int32_t bytes = memory.dims * 16 * Numbers::kPairBytes / 2;
    prefetch_bytes(task.kv.keys_of(block, kv_head), bytes);
    prefetch_bytes(task.kv.values_of(block, kv_head), bytes);
  }

  __device__ void copy_range(std::int32_t kv_head, std::int32_t range, BlockId own_block) {
    for (int buffer = 0; buffer < 2 * kRangeBuffers; ++buffer) {
      const std::int32_t first = range * kRangeKeys + (buffer % kRangeBuffers * 4 + warp) * 16;
      const std::int32_t slot = first % task.args.layout.block_size;
      const BlockId block = __shfl_sync(~0U, own_block, buffer % kRangeBuffers * 4 + warp);
      const std::uint32_t to = buffers + ring.index * memory.buffer_bytes();
      ring.wait_empty();
      if (block >= 0) {
        if (buffer < kRangeBuffers) {
          Numbers::copy_keys(task.kv.keys_of(block, kv_head) + slot * Numbers::kPairBytes,
                             task.args.layout.block_size, memory.dims, warp, lane, to);
          Numbers::copy_scales(task.args, block, kv_head, slot, memory.dims, warp, lane, to);
        } else {
          Numbers::copy_values(
              task.kv.values_of(block, kv_head) + slot * memory.dims * Numbers::kPairBytes / 2,
              memory.dims, warp, lane, to);
        }
      }
      arrive_when_copied(ring.full());
      ring.advance();
    }
  }

  __device__ void run() {
    SplitWalk walk = SplitWalk::of(task, task.plan->starts[blockIdx.x]);
    BlockId block = block_of(walk);
    prefetch(walk.kv_head, block);
    wait_for_previous();
    while (true) {
      // Ids are fetched a range ahead.
      const std::int32_t kv_head = walk.kv_head;
      const std::int32_t range = walk.range;
      const bool more = walk.advance(task);
      const BlockId next = more ? block_of(walk) : kNullBlock;
      copy_range(kv_head, range, block);
      if (!more) break;
      block = next;
    }
    wait_copied<0>();
  }
};

// A warp's part of the results of a tile's rows: rows lane / 4 and lane / 4 + 8 of each 16, and
// some dimensions, 2 kColumns a lane.
template <int kTiles, int kColumns>
struct SplitResults {
  float largest[kTiles][2];
  float totals[kTiles][2];
  float sums[kTiles][kColumns][4];

  __device__ void clear() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        largest[tile][half] = -INFINITY;
        totals[tile][half] = 0.0F;
      }
#pragma unroll
      for (int i = 0; i < 4 * kColumns; ++i) sums[tile][i / 4][i % 4] = 0.0F;
    }
  }
  __device__ void join(const SplitResults& part) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const PagedJoin both = PagedJoin::of(largest[tile][half], part.largest[tile][half]);
        totals[tile][half] = both(totals[tile][half], part.totals[tile][half]);
#pragma unroll
        for (int i = 0; i < 2 * kColumns; ++i) {
          float& sum = sums[tile][i / 2][2 * half + i % 2];
          sum = both(sum, part.sums[tile][i / 2][2 * half + i % 2]);
        }
      }
    }
  }
  // Sums of a row times `factor`: neighbouring dimensions.
  __device__ void store(int tile, int half, float factor, float* to) const {
    float values[2 * kColumns];
#pragma unroll
    for (int i = 0; i < 2 * kColumns; ++i) {
      values[i] = __fmul_rn(sums[tile][i % kColumns][2 * half + i / kColumns], factor);
    }
    if constexpr (kColumns == 1) {
      *reinterpret_cast<float2*>(to) = make_float2(values[0], values[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 2 * kColumns; i += 4) {
        *reinterpret_cast<float4*>(to + i) =
            make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
      }
    }
  }
};

}  // namespace quire::cuda
