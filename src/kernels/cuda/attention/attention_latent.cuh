// What blocks of attention over latents share (attention_latent.h): shared memory, and the warps
// that copy keys ahead of the others into a ring of buffers of 16 keys.
//
// Of each tile of 64 keys, four warps compute the scores of 16 keys each and make weights of them
// (latent_scores.cuh), while eight sum the values of the tile before, 64 of their numbers each
// (latent_values.cuh). A buffer has pairs of numbers of its keys, as the cache has them:
// [dims / 2][16 keys], so that a block of 16 keys is one copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_walk.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {

inline constexpr int kLatentKeyDims = 576;
inline constexpr int kLatentValueDims = 512;  // the last ones of a key
inline constexpr int kLatentSteps = kLatentKeyDims / 16;
inline constexpr int kBufferKeys16 = 16;
inline constexpr int kLatentBufferBytes = kLatentKeyDims * kBufferKeys16 * 2;
inline constexpr int kTileBuffers = 4;
inline constexpr int kLatentTileKeys = kTileBuffers * kBufferKeys16;
inline constexpr int kWeightStages = 2;
// Warpgroups: one copies, one computes scores, two sum values.
inline constexpr int kCopyWarps = 4;
inline constexpr int kScoreWarps = kTileBuffers;
inline constexpr int kValueWarps = 8;
inline constexpr int kLatentThreads = 32 * (kCopyWarps + kScoreWarps + kValueWarps);

template <int kTiles>
struct LatentShared {
  static constexpr int kRows = 16 * kTiles;
  static constexpr int kBuffers = kTiles == 1 ? 11 : 10;

  std::byte keys[kBuffers][kLatentBufferBytes];
  uint4 queries[kLatentSteps][kTiles][32];                 // as operand A
  uint4 weights[kWeightStages][kTileBuffers][kTiles][32];  // as operand A
  float maxima[2][kRows][kScoreWarps];  // of the scores of a tile, and of the tile before
  float totals[kRows][kScoreWarps];     // of the weights of a range
  float largest[kRows];                 // of a range
  // Of sums of the range so far, for a tile; of those of the ranges so far and of the range's, at
  // its end; and at the end of the rows' last range.
  float factors[kWeightStages][kRows];
  PagedJoin joins[kWeightStages][kRows];
  float finals[kWeightStages][kRows];
  std::uint64_t full[kBuffers];
  std::uint64_t empty[kBuffers];
  std::uint64_t ready[kWeightStages];
  std::uint64_t taken[kWeightStages];

  __device__ RingPlace key_ring() const {
    return {.barriers = shared_address(full), .distance = sizeof(full), .size = kBuffers};
  }
  __device__ RingPlace weight_ring() const {
    return {.barriers = shared_address(ready), .distance = sizeof(ready), .size = kWeightStages};
  }
};

static_assert(sizeof(LatentShared<1>) <= 227 * 1024);
static_assert(sizeof(LatentShared<2>) <= 227 * 1024);

// Keys of the present range that some row of the tile sees, from its first one on.
__device__ inline std::int32_t keys_of_range(const SplitWalk& walk) {
  return min(walk.tile.key_end - walk.range * kRangeKeys, kRangeKeys);
}
__device__ inline std::int32_t buffers_of(std::int32_t keys) {
  return (keys + kBufferKeys16 - 1) / kBufferKeys16;
}
// Of 64 keys, from `tile` on in the range.
__device__ inline std::int32_t buffers_of_tile(std::int32_t keys, std::int32_t tile) {
  return min(buffers_of(keys) - tile * kTileBuffers, kTileBuffers);
}

// Whether a block of the cache is one copy.
inline bool copies_blocks(const AttentionArgs& args) {
  return args.layout.block_size == kBufferKeys16 && args.layout.block_stride() % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(args.kv) % 16 == 0;
}

template <int kTiles>
struct LatentCopier {
  const SplitTask& task;
  LatentShared<kTiles>& shared;
  int thread;

  __device__ std::uint32_t buffer(const RingPlace& ring) const {
    return shared_address(shared.keys[ring.index]);
  }

  // Of 16 keys of the range a lane; a range has as many blocks as half a warp lanes.
  __device__ BlockId block_of(const SplitWalk& walk, int lane) const {
    const std::int32_t number = min(walk.range * (kRangeKeys / kBufferKeys16) + lane % 16,
                                    (walk.tile.key_end - 1) / kBufferKeys16);
    return task.inputs.block_tables[walk.sequence * task.inputs.table_stride + number];
  }

  // One warp, where copies_blocks().
  __device__ void copy_whole_blocks() const {
    RingPlace ring = shared.key_ring();
    const int lane = thread % 32;
    SplitWalk walk = SplitWalk::of(task, task.plan->starts[blockIdx.x]);
    BlockId block = block_of(walk, lane);
    wait_for_previous();
    while (true) {
      // Ids are fetched a range ahead.
      const std::int32_t buffers = buffers_of(keys_of_range(walk));
      const bool more = walk.advance(task);
      const BlockId next = more ? block_of(walk, lane) : kNullBlock;
      for (int i = 0; i < buffers; ++i) {
        const BlockId id = __shfl_sync(~0U, block, i);
        ring.wait_empty();
        if (lane == 0) {
          barrier_expect(ring.full(), kLatentBufferBytes);
          copy_bytes(task.kv.keys_of(id, 0), kLatentBufferBytes, buffer(ring), ring.full());
        }
        ring.advance();
      }
      if (!more) return;
      block = next;
    }
  }

  // All threads, each pairs of numbers of one of 16 keys.
  __device__ void copy_any_blocks() const {
    RingPlace ring = shared.key_ring();
    const std::int32_t block_size = task.args.layout.block_size;
    const int key = thread % kBufferKeys16;
    wait_for_previous();
    SplitWalk walk = SplitWalk::of(task, task.plan->starts[blockIdx.x]);
    do {
      const std::int32_t buffers = buffers_of(keys_of_range(walk));
      for (int i = 0; i < buffers; ++i) {
        const std::int32_t position = walk.range * kRangeKeys + i * kBufferKeys16 + key;
        ring.wait_empty();
        if (position < walk.tile.key_end) {
          const BlockId block =
              task.inputs
                  .block_tables[walk.sequence * task.inputs.table_stride + position / block_size];
          const std::byte* const from = task.kv.keys_of(block, 0) + position % block_size * 4;
          for (int pair = thread / kBufferKeys16; pair < kLatentKeyDims / 2;
               pair += 32 * kCopyWarps / kBufferKeys16) {
            copy_word(from + std::int64_t{pair} * block_size * 4,
                      buffer(ring) + (pair * kBufferKeys16 + key) * 4);
          }
        }
        arrive_when_copied(ring.full());
        ring.advance();
      }
    } while (walk.advance(task));
    wait_copied<0>();
  }
};

}  // namespace quire::cuda
