// The warpgroup of attention_paged_wide.h that computes nothing. One of its warps has a ring of
// buffers filled ahead of those that multiply: with the queries of an item, a piece for each
// warpgroup, and then with the pieces of its ranges. The others turn queries into operands as soon
// as those of the item before have been multiplied.
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
  static_assert(kWideRows * kDims * 4 <= kPieceBytes);
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

__device__ inline float4 load_numbers(std::uint32_t from) {
  float4 numbers;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(numbers.x), "=f"(numbers.y), "=f"(numbers.z), "=f"(numbers.w)
               : "r"(from)
               : "memory");
  return numbers;
}

template <int kDims>
struct WideFeeder {
  using Memory = WideMemory<kDims>;

  const WideTask& task;
  std::uint32_t shared;
  RingPlace ring;
  int warp;
  int lane;

  __device__ std::uint32_t piece() const {
    return shared + Memory::kData + ring.index * Memory::kPieceBytes;
  }
  __device__ RowTile tile_of(const WideItem& item, int number) const {
    return RowTile::of(task.args, item.rows, item.tile * 2 + number, kWideRows);
  }

  // Of a warpgroup, as they are.
  __device__ void copy_queries(const WideItem& item, int number) {
    constexpr std::int32_t kRowBytes = kDims * 4;
    const AttentionArgs& args = task.args;
    const RowTile tile = tile_of(item, number);
    const std::int32_t first_head = (task.first_head + item.head) * task.group;
    ring.wait_empty();
    if (lane == 0) barrier_expect(ring.full(), max(tile.num_rows, 0) * kRowBytes);
    __syncwarp();
    for (int row = lane; row < tile.num_rows; row += 32) {
      const std::int32_t query = (tile.first_row + row) / task.group;
      const std::int32_t head = first_head + (tile.first_row + row) % task.group;
      copy_bytes(args.q + std::int64_t{item.rows.query_begin + query} * args.q_stride +
                     std::int64_t{head} * kDims,
                 kRowBytes, piece() + row * kRowBytes, ring.full());
    }
    ring.advance();
  }

  __device__ void copy_piece(const std::byte* from) {
    ring.wait_empty();
    if (lane == 0) {
      barrier_expect(ring.full(), Memory::kPieceBytes);
      copy_bytes(from, Memory::kPieceBytes, piece(), ring.full());
    }
    ring.advance();
  }

  __device__ void copy_all() {
    WideItem item;
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      copy_queries(item, 0);
      copy_queries(item, 1);
      const SeenRanges seen = SeenRanges::of(task.args, item.rows);
      const RowTile tile = item.row_tile(task);
      const std::int64_t first = task.first_ranges[item.index] + item.head * seen.count() +
                                 tile.range_begin() - seen.begin;
      const std::byte* from = task.turned + first * Memory::kRange.bytes();
      for (std::int32_t range = tile.range_begin(); range < tile.range_end(); ++range) {
        const bool whole = has_second_half(range, tile.key_end);
        for (int i = 0; i < kRangePieces; ++i) {
          if (whole || i % 2 == 0) copy_piece(from);
          from += Memory::kPieceBytes;
        }
      }
    }
  }

  // Rows that there are not are zero.
  __device__ void turn_queries(int number, std::int32_t num_rows) const {
    constexpr int kRowLoads = kDims / 4;
    const float scale = task.args.scale * kLog2E;
    const std::uint32_t queries = shared + Memory::kQueries + number * Memory::kQueryBytes;
#pragma unroll 4
    for (int i = (warp - 1) * 32 + lane; i < kWideRows * kRowLoads; i += kQueryWarps * 32) {
      const int row = i / kRowLoads;
      const int dim = i % kRowLoads * 4;
      float4 numbers = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      if (row < num_rows) numbers = load_numbers(piece() + i * 16);
      store_words(queries + dim / 64 * (kWideRows * 128) + row * 128 +
                      ((dim % 64 / 8 ^ row % 8) << 4) + dim % 8 * 2,
                  scaled_queries(make_float2(numbers.x, numbers.y), scale),
                  scaled_queries(make_float2(numbers.z, numbers.w), scale));
    }
  }

  __device__ void turn_all() {
    const QueryBarriers<kDims> barriers = {shared};
    WideItem item;
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      for (int number = 0; number < 2; ++number) {
        // In this order: a barrier tells the phase before from the present one alone, and before
        // the item's predecessor is done with its keys this one may be further ahead.
        barrier_wait(barriers.empty(number), (round & 1) ^ 1);
        ring.wait_full();
        turn_queries(number, tile_of(item, number).num_rows);
        fence_shared_writes();
        __syncwarp();
        if (lane == 0) {
          paged_arrive(barriers.full(number));
          // A piece is free when as many have arrived as there are warps that multiply.
          for (int i = warp - 1; i < 8; i += kQueryWarps) paged_arrive(ring.empty());
        }
        ring.advance();
      }
      const RowTile tile = item.row_tile(task);
      skip(kRangePieces * tile.ranges() -
           (has_second_half(tile.range_end() - 1, tile.key_end) ? 0 : 2));
    }
  }
  __device__ void skip(std::uint32_t pieces) {
    const std::uint32_t index = ring.index + pieces;
    ring.parity ^= index / ring.size & 1U;
    ring.index = index % ring.size;
  }

  __device__ void run() {
    if (warp == 0) {
      copy_all();
    } else {
      turn_all();
    }
  }
};

}  // namespace quire::cuda
