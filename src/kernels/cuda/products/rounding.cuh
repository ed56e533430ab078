// How inputs are rounded (rounded_rows.h), a warp at a time.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/products/rounded_rows.h"

namespace quire::cuda {

inline constexpr std::int64_t kPieceInputs = 128;  // that a warp rounds at once, four a lane

struct RoundArgs {
  const float* x;
  std::int64_t x_stride;
  std::int64_t rows;
  std::int64_t inputs;
  const std::int32_t* input_order;
  std::uint16_t* out;
  InputSums sums;
  bool aligned;  // four inputs of `x` can be loaded at once

  // Rows that are rounded or, where sums are wanted, have zeros for sums.
  __host__ __device__ std::int64_t summed_rows() const {
    return sums.values == nullptr ? rows : sum_stride(rows);
  }
  __host__ __device__ std::int64_t row_pieces() const {
    return (padded_inputs(inputs) + kPieceInputs - 1) / kPieceInputs;
  }
  // Of all of them.
  __host__ __device__ std::int64_t pieces() const { return summed_rows() * row_pieces(); }
};

// Four inputs, zeros beyond the last.
__device__ inline float4 load_quad(const RoundArgs& args, std::int64_t row, std::int64_t k) {
  const float* x = args.x + row * args.x_stride;
  if (args.aligned && k + 4 <= args.inputs) return *reinterpret_cast<const float4*>(x + k);
  float quad[4];
  for (int i = 0; i < 4; ++i) {
    quad[i] = 0.0F;
    if (k + i >= args.inputs) continue;
    quad[i] = x[args.input_order == nullptr ? k + i : args.input_order[k + i]];
  }
  return {quad[0], quad[1], quad[2], quad[3]};
}

__device__ inline std::uint32_t bits_of(__nv_bfloat162 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// Of inputs k to k + 3, the words of two inputs that stand beside each other.
struct PlacedPairs {
  std::uint32_t words[2];
  int lanes[2];  // lane t of the fragment that reads a word
  int upper[2];  // whether it is at places 2t + 8 and 2t + 9, else at 2t and 2t + 1
};

template <InputPlaces kPlaces>
__device__ PlacedPairs place_pairs(std::int64_t k, float4 quad) {
  const int t = static_cast<int>(k % 16) / 4;
  if constexpr (kPlaces == InputPlaces::kQuads) {
    return {{bits_of(__floats2bfloat162_rn(quad.x, quad.z)),
             bits_of(__floats2bfloat162_rn(quad.y, quad.w))},
            {t, t},
            {0, 1}};
  } else {
    return {{bits_of(__floats2bfloat162_rn(quad.x, quad.y)),
             bits_of(__floats2bfloat162_rn(quad.z, quad.w))},
            {2 * t % 4, 2 * t % 4 + 1},
            {t / 2, t / 2}};
  }
}

// Stores a lane's four inputs from input `k` of a row on. Whole warps call it.
template <InputPlaces kPlaces, bool kFragments>
__device__ void store_rounded(const RoundArgs& args, std::int64_t row, std::int64_t k,
                              float4 quad) {
  quad = {
      __bfloat162float(__float2bfloat16_rn(quad.x)), __bfloat162float(__float2bfloat16_rn(quad.y)),
      __bfloat162float(__float2bfloat16_rn(quad.z)), __bfloat162float(__float2bfloat16_rn(quad.w))};
  const std::int64_t padded = padded_inputs(args.inputs);
  if (row < args.rows && k < padded) {
    const PlacedPairs pairs = place_pairs<kPlaces>(k, quad);
    for (int i = 0; i < 2; ++i) {
      std::int64_t at = row * padded + k / 16 * 16 + 2 * pairs.lanes[i] + 8 * pairs.upper[i];
      if constexpr (kFragments) {
        at = (k / 32 * args.rows + row) * 32 + 8 * pairs.lanes[i] + k % 32 / 16 * 4 +
             2 * pairs.upper[i];
      }
      *reinterpret_cast<std::uint32_t*>(args.out + at) = pairs.words[i];
    }
  }
  if (args.sums.values == nullptr) return;
  const int quads = static_cast<int>(args.sums.sum_inputs) / 4;
  float sum = (quad.x + quad.y) + (quad.z + quad.w);
  for (int step = 1; step < quads; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if (k / 4 % quads == 0 && k < args.inputs) {
    args.sums.values[k / args.sums.sum_inputs * args.summed_rows() + row] = sum;
  }
}

// Rounds every `step`th piece from `first` on; some are loaded before the first is stored.
template <InputPlaces kPlaces, bool kFragments>
__device__ void round_pieces(const RoundArgs& args, std::int64_t first, std::int64_t step,
                             int lane) {
  constexpr int kAtOnce = 4;
  const std::int64_t pieces = args.pieces();
  const std::int64_t of_row = args.row_pieces();
  for (; first < pieces; first += kAtOnce * step) {
    float4 quads[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t piece = first + i * step;
      if (piece >= pieces || piece / of_row >= args.rows) continue;
      quads[i] = load_quad(args, piece / of_row, piece % of_row * kPieceInputs + 4 * lane);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t piece = first + i * step;
      if (piece >= pieces) continue;
      store_rounded<kPlaces, kFragments>(args, piece / of_row,
                                         piece % of_row * kPieceInputs + 4 * lane, quads[i]);
    }
  }
}

// Of weights that have their inputs in this order or, where it is null, as they are.
inline RoundArgs round_args(const float* x, std::int64_t x_stride, std::int64_t rows,
                            std::int64_t inputs, const std::int32_t* input_order,
                            std::uint16_t* out, const InputSums& sums) {
  const bool aligned = input_order == nullptr && x_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(x) % sizeof(float4) == 0;
  return {x, x_stride, rows, inputs, input_order, out, sums, aligned};
}

}  // namespace quire::cuda
