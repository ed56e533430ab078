// From the sums of a tile, as wgmma leaves them in registers, to the results of a product.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/products/gated_activation.cuh"
#include "kernels/cuda/products/many_tiles.cuh"

namespace quire::cuda {

// Of a thread's sums, which are for two adjacent outputs and for two adjacent rows of every eight:
// sums[4 j + 2 o + r] is of row 8 j + r and of output o, from this row and output on.
struct ResultPlace {
  std::int32_t output = 0;
  std::int32_t row = 0;
};

// Two adjacent outputs of a row; the second may be beyond the last.
struct OutputPair {
  float first = 0.0F;
  float second = 0.0F;
};

template <int kSums>
__device__ void add_bias(const float* bias, std::int64_t outputs, std::int32_t output,
                         float (&sums)[kSums]) {
  if (bias == nullptr || output >= outputs) return;
  const float first = bias[output];
  const float second = output + 1 < outputs ? bias[output + 1] : 0.0F;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] += i / 2 % 2 == 0 ? first : second;
}

template <bool kPaired>
__device__ OutputPair load_pair(const float* from, bool has_second) {
  if constexpr (kPaired) {
    const float2 both = *reinterpret_cast<const float2*>(from);
    return {both.x, both.y};
  }
  return {from[0], has_second ? from[1] : 0.0F};
}

template <bool kPaired>
__device__ void store_pair(float* to, OutputPair pair, bool has_second) {
  if constexpr (kPaired) {
    *reinterpret_cast<float2*>(to) = {pair.first, pair.second};
    return;
  }
  to[0] = pair.first;
  if (has_second) to[1] = pair.second;
}

template <int kBlocks, int kFirst, bool kPaired, int kSums>
__device__ void store_pairs(const ManyOutput& to, ResultPlace place, const float (&sums)[kSums]) {
  // So many are loaded before the first is stored, where there is something to add to.
  constexpr int kAtOnce = kBlocks < 8 ? kBlocks : 8;
  const bool has_second = kPaired || place.output + 1 < to.outputs;
  float* const out = to.out + place.row * to.stride + place.output;
  const auto rows = static_cast<std::int32_t>(to.rows - place.row);
#pragma unroll
  for (int first = 0; first < kBlocks; first += kAtOnce) {
    OutputPair before[2 * kAtOnce];
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) {
      const int own = 8 * (first + i / 2) + i % 2;
      before[i] = {};
      if (to.accumulate && own < rows) {
        before[i] = load_pair<kPaired>(out + own * to.stride, has_second);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) {
      const int own = 8 * (first + i / 2) + i % 2;
      const int at = 4 * (kFirst + first + i / 2) + i % 2;
      OutputPair sum = {sums[at], sums[at + 2]};
      if (to.accumulate) sum = {sum.first + before[i].first, sum.second + before[i].second};
      if (own < rows) store_pair<kPaired>(out + own * to.stride, sum, has_second);
    }
  }
}

// Stores blocks [kFirst, kFirst + kBlocks) of eight rows, of which the first is at `place`.
template <int kBlocks, int kFirst, int kSums>
__device__ void store_sums(const ManyOutput& to, ResultPlace place, const float (&sums)[kSums]) {
  if (place.output >= to.outputs) return;
  if (to.is_paired && place.output + 1 < to.outputs) {
    store_pairs<kBlocks, kFirst, true>(to, place, sums);
  } else {
    store_pairs<kBlocks, kFirst, false>(to, place, sums);
  }
}

__device__ inline void synchronize_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
}

// The warpgroups of a gated product.
__device__ inline void synchronize_two_warpgroups() {
  asm volatile("bar.sync 8, 256;" ::: "memory");
}

// Where a thread's numbers are in a box of 32 rows and 32 outputs, in the 128-byte swizzle: the
// pair of row 8 j + r of its rows.
__device__ inline std::int32_t box_offset(int j, int r) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t row = 8 * j + thread % 4 * 2 + r;
  const std::int32_t column = thread / 32 % 2 * 64 + thread % 32 / 4 * 8;  // in bytes
  return row * 128 + (column ^ row % 8 * 16);
}

// Adds the results in a box to those of the sums that are of its rows: the `index`th 32 of the
// tile.
template <int kSums>
__device__ void add_box(const std::uint8_t* box, int index, float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto before = *reinterpret_cast<const float2*>(box + box_offset(i / 2, i % 2));
    const int at = 16 * index + 4 * (i / 2) + i % 2;
    sums[at] += before.x;
    sums[at + 2] += before.y;
  }
}

// As store_sums(), by boxes of 32 rows and 32 outputs, which are copied to memory while the
// warpgroup goes on. `output` and `row`: the first of the warpgroup; results: its shared memory,
// kSets times two boxes.
template <int kSets, int kBlocks, int kFirst, int kSums>
__device__ void store_boxes(const CUtensorMap& out, std::int32_t output, std::int32_t row,
                            std::uint8_t* results, const float (&sums)[kSums]) {
  constexpr int kBoxBytes = 32 * 32 * 4;
  const auto thread = static_cast<std::int32_t>(threadIdx.x % 128);
#pragma unroll
  for (int first = 0; first < kBlocks; first += 4) {
    std::uint8_t* const boxes = results + first / 4 % kSets * 2 * kBoxBytes;
    if (thread == 0) wait_for_store_reads<kSets - 1>();
    synchronize_warpgroup();
    std::uint8_t* const own = boxes + thread / 64 * kBoxBytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = 4 * (kFirst + first + i / 2) + i % 2;
      *reinterpret_cast<float2*>(own + box_offset(i / 2, i % 2)) = {sums[at], sums[at + 2]};
    }
    fence_shared_writes();
    synchronize_warpgroup();
    if (thread == 0) {
      const std::uint32_t from = shared_address(boxes);
      store_box(out, output, row + first * 8, from);
      store_box(out, output + 32, row + first * 8, from + kBoxBytes);
      commit_stores();
    }
  }
}

// Of a gated product: this thread has sums of one of the two products, and the thread at the same
// place of the other warpgroup those of the other. Each gives the other half of its sums, and makes
// results of those that it keeps: the gate's warpgroup of those of the first half of the rows.
// of_gate, of_up: shared memory of either warpgroup, as store_boxes() has it.
template <bool kIsUp, int kSums>
__device__ void gate_sums(const GateFunction& gate, std::uint8_t* of_gate, std::uint8_t* of_up,
                          float (&sums)[kSums]) {
  constexpr int kAtOnce = kSums / 2 < 32 ? kSums / 2 : 32;
  constexpr int kKept = kIsUp ? kSums / 2 : 0;
  constexpr int kGiven = kIsUp ? 0 : kSums / 2;
  const auto thread = static_cast<std::int32_t>(threadIdx.x % 128);
  auto* const given = reinterpret_cast<float*>(kIsUp ? of_up : of_gate) + thread;
  auto* const taken = reinterpret_cast<float*>(kIsUp ? of_gate : of_up) + thread;
  if (thread == 0) wait_for_store_reads<0>();
#pragma unroll
  for (int first = 0; first < kSums / 2; first += kAtOnce) {
    synchronize_two_warpgroups();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) given[i * 128] = sums[kGiven + first + i];
    synchronize_two_warpgroups();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float& own = sums[kKept + first + i];
      own = kIsUp ? gate(taken[i * 128], own) : gate(own, taken[i * 128]);
    }
  }
  synchronize_two_warpgroups();
}

}  // namespace quire::cuda
