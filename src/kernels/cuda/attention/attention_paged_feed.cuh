// The warpgroup of attention_paged_wide.h that computes nothing. One of its warps has pieces of
// turned ranges copied ahead of those that multiply them; the others bring the queries of the next
// item into shared memory as soon as those of the one before have been multiplied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_wide.cuh"

namespace quire::cuda {

inline constexpr int kQueryWarps = 3;

// Where things lie in shared memory, from an address that is a multiple of 1024.
template <int kDims>
struct WideMemory {
  static constexpr TurnedRange kRange = {kDims};
  static constexpr std::int32_t kColumns = kRange.columns();  // dims that values are multiplied for
  static constexpr std::int32_t kPieceBytes = kRange.piece_bytes();
  static constexpr std::int32_t kQueryBytes = kWideRows * kColumns * 2;  // of a warpgroup
  static constexpr std::int32_t kPieces = ((227 << 10) - 2048 - 2 * kQueryBytes) / kPieceBytes;
  // Queries of a warpgroup lie in rows of 64 dims, [dims / 64][64 rows], swizzled as keys are.
  static constexpr std::int32_t kQueries = 0;
  static constexpr std::int32_t kData = 2 * kQueryBytes;
  static constexpr std::int32_t kBarriers = kData + kPieces * kPieceBytes;
  static constexpr std::int32_t kQueryBarriers = kBarriers + 2 * kPieces * 8;
  static constexpr std::int32_t kBytes = kQueryBarriers + 4 * 8 + 1024;
  static_assert(kPieces >= 6 && kBytes <= 227 << 10);
};

// What was brought to a warpgroup and what it has done with.
template <int kDims>
struct QueryBarriers {
  std::uint32_t shared;

  __device__ std::uint32_t full(int number) const {
    return shared + WideMemory<kDims>::kQueryBarriers + number * 8;
  }
  __device__ std::uint32_t empty(int number) const { return full(number) + 16; }
};

__device__ inline void store_words(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

template <int kDims>
struct WideFeeder {
  using Memory = WideMemory<kDims>;
  static constexpr int kRowLanes = Memory::kColumns / 4;
  static constexpr int kRows = 32 / kRowLanes;  // that a warp loads at the same time
  static constexpr int kLoads = 6;              // of a lane that are on their way together

  const WideTask& task;
  std::uint32_t shared;
  RingPlace ring;
  int warp;
  int lane;

  __device__ void copy_pieces() {
    WideItem item;
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      const SeenRanges seen = SeenRanges::of(task.args, item.rows);
      const RowTile tile = item.row_tile(task);
      const std::int64_t first = task.first_ranges[item.index] + item.head * seen.count() +
                                 tile.range_begin() - seen.begin;
      const std::byte* from = task.turned + first * Memory::kRange.bytes();
      for (std::int32_t piece = kRangePieces * tile.ranges(); piece > 0; --piece) {
        ring.wait_empty();
        if (lane == 0) {
          barrier_expect(ring.full(), Memory::kPieceBytes);
          copy_bytes(from, Memory::kPieceBytes,
                     shared + Memory::kData + ring.index * Memory::kPieceBytes, ring.full());
        }
        from += Memory::kPieceBytes;
        ring.advance();
      }
    }
  }

  // Rows that there are not are read as the last one.
  __device__ const float* query_at(const WideItem& item, const RowTile& tile, int row) const {
    const std::int32_t known = tile.first_row + min(row, tile.num_rows - 1);
    const std::int32_t head = (task.first_head + item.head) * task.group + known % task.group;
    return task.args.q +
           std::int64_t{item.rows.query_begin + known / task.group} * task.args.q_stride +
           std::int64_t{head} * kDims + min(lane % kRowLanes * 4, kDims - 4);
  }
  __device__ int row_of(int load) const {
    return (load * kQueryWarps + warp - 1) * kRows + lane / kRowLanes;
  }

  __device__ void load_queries(const WideItem& item, int number) const {
    constexpr int kAll = (kWideRows + kQueryWarps * kRows - 1) / (kQueryWarps * kRows);
    const RowTile tile = RowTile::of(task.args, item.rows, item.tile * 2 + number, kWideRows);
    const int dim = lane % kRowLanes * 4;
    const float scale = task.args.scale * kLog2E;
    const std::uint32_t queries = shared + Memory::kQueries + number * Memory::kQueryBytes;
#pragma unroll 1
    for (int first = 0; first < kAll; first += kLoads) {
      float4 numbers[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        numbers[i] =
            *reinterpret_cast<const float4*>(query_at(item, tile, min(row_of(first + i), 63)));
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int row = row_of(first + i);
        if (row >= kWideRows || dim >= kDims) continue;
        if (row >= tile.num_rows) numbers[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        store_words(queries + dim / 64 * (kWideRows * 128) + row * 128 +
                        ((dim % 64 / 8 ^ row % 8) << 4) + dim % 8 * 2,
                    scaled_queries(make_float2(numbers[i].x, numbers[i].y), scale),
                    scaled_queries(make_float2(numbers[i].z, numbers[i].w), scale));
      }
    }
  }

  // Has them in the L2 cache by the time that there is room for them.
  __device__ void prefetch_queries(const WideItem& item) const {
    const RowTile tile = item.row_tile(task);
    for (int row = warp - 1; row < tile.num_rows; row += kQueryWarps) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(query_at(item, tile, row)));
    }
  }

  __device__ void bring_queries() const {
    const QueryBarriers<kDims> barriers = {shared};
    WideItem item;
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      prefetch_queries(item);
      for (int number = 0; number < 2; ++number) {
        barrier_wait(barriers.empty(number), (round & 1) ^ 1);
        load_queries(item, number);
        fence_shared_writes();
        __syncwarp();
        if (lane == 0) paged_arrive(barriers.full(number));
      }
    }
  }

  __device__ void run() {
    if (warp == 0) {
      copy_pieces();
    } else {
      bring_queries();
    }
  }
};

}  // namespace quire::cuda
