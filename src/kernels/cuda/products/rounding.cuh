// How inputs are rounded (rounded_rows.h), a warp at a time.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/products/rounded_rows.h"

namespace quire::cuda {

inline constexpr std::int32_t kPieceInputs = 128;  // that a warp rounds at once, four a lane

struct RoundArgs {
  const float* x;
  std::int64_t x_stride;
  std::int32_t rows;
  std::int32_t inputs;
  const std::int32_t* input_order;
  std::uint16_t* out;
  InputSums sums;
  bool aligned;  // four inputs of `x` can be loaded at once

  __host__ __device__ std::int32_t padded() const {
    return static_cast<std::int32_t>(padded_inputs(inputs));
  }
  // Rows that are rounded or, where sums are wanted, have zeros for sums.
  __host__ __device__ std::int32_t summed_rows() const {
    return sums.values == nullptr ? rows : static_cast<std::int32_t>(sum_stride(rows));
  }
  __host__ __device__ std::int32_t row_pieces() const {
    return (padded() + kPieceInputs - 1) / kPieceInputs;
  }
};

// Four inputs, zeros beyond the last.
__device__ inline float4 load_quad(const RoundArgs& args, std::int32_t row, std::int32_t k) {
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
__device__ PlacedPairs place_pairs(std::int32_t k, float4 quad) {
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
__device__ void store_rounded(const RoundArgs& args, std::int32_t row, std::int32_t k,
                              float4 quad) {
  quad = {
      __bfloat162float(__float2bfloat16_rn(quad.x)), __bfloat162float(__float2bfloat16_rn(quad.y)),
      __bfloat162float(__float2bfloat16_rn(quad.z)), __bfloat162float(__float2bfloat16_rn(quad.w))};
  const std::int32_t padded = args.padded();
  if (row < args.rows && k < padded) {
    const PlacedPairs pairs = place_pairs<kPlaces>(k, quad);
    if constexpr (kFragments) {
      const std::int32_t at = (k / 32 * args.rows + row) * 32 + k % 32 / 16 * 4;
      if constexpr (kPlaces == InputPlaces::kQuads) {  // both words stand side by side
        *reinterpret_cast<uint2*>(args.out + at + 8 * pairs.lanes[0]) = {pairs.words[0],
                                                                         pairs.words[1]};
      } else {
        for (int i = 0; i < 2; ++i) {
          *reinterpret_cast<std::uint32_t*>(args.out + at + 8 * pairs.lanes[i] +
                                            2 * pairs.upper[i]) = pairs.words[i];
        }
      }
    } else {
      for (int i = 0; i < 2; ++i) {
        const std::int64_t at =
            std::int64_t{row} * padded + k / 16 * 16 + 2 * pairs.lanes[i] + 8 * pairs.upper[i];
        *reinterpret_cast<std::uint32_t*>(args.out + at) = pairs.words[i];
      }
    }
  }
  if (args.sums.values == nullptr) return;
  const auto quads = static_cast<std::int32_t>(args.sums.sum_inputs) / 4;  // a power of two
  float sum = (quad.x + quad.y) + (quad.z + quad.w);
  for (int step = 1; step < quads; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if ((k / 4 & (quads - 1)) == 0 && k < args.inputs) {
    args.sums.values[std::int64_t{k / 4 >> (31 - __clz(quads))} * args.summed_rows() + row] = sum;
  }
}

// Rounds all pieces, by `warps` warps of which this is the `warp`th; each loads some before it
// stores the first. `load`: of a row and an input.
template <InputPlaces kPlaces, bool kFragments, typename Load>
__device__ void round_pieces(const RoundArgs& args, std::int32_t warp, std::int32_t warps, int lane,
                             const Load& load) {
  constexpr int kAtOnce = 8;
  const std::int32_t inputs = args.row_pieces() * kPieceInputs;
  for (std::int32_t row = 0; row < args.rows; ++row) {
    for (std::int32_t k = warp * kPieceInputs + 4 * lane; k < inputs;
         k += kAtOnce * warps * kPieceInputs) {
      float4 quads[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) quads[i] = load(row, k + i * warps * kPieceInputs);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int32_t at = k + i * warps * kPieceInputs;
        if (at >= inputs) break;
        store_rounded<kPlaces, kFragments>(args, row, at, quads[i]);
      }
    }
  }
}

// The usual case has code of its own, and little of it: it is read but once, and waited for.
template <InputPlaces kPlaces, bool kFragments>
__device__ void round_all(const RoundArgs& args, std::int32_t warp, std::int32_t warps, int lane) {
  if (args.aligned && args.inputs % 4 == 0) {
    round_pieces<kPlaces, kFragments>(
        args, warp, warps, lane, [&](std::int32_t row, std::int32_t k) {
          if (k >= args.inputs) return float4{};
          return *reinterpret_cast<const float4*>(args.x + row * args.x_stride + k);
        });
  } else {
    round_pieces<kPlaces, kFragments>(
        args, warp, warps, lane,
        [&](std::int32_t row, std::int32_t k) { return load_quad(args, row, k); });
  }
}

}  // namespace quire::cuda
