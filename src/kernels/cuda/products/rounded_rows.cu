#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/rounded_rows.h"
#include "kernels/cuda/products/rounding.cuh"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;

// A piece a warp.
template <InputPlaces kPlaces, bool kFragments>
__global__ void round_kernel(RoundArgs args) {
  let_next_start();
  const auto piece =
      static_cast<std::int32_t>((std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int32_t row = piece / args.row_pieces();
  if (row >= args.summed_rows()) return;
  wait_for_previous();
  const std::int32_t k = piece % args.row_pieces() * kPieceInputs + 4 * lane;
  float4 quad = {};
  if (row < args.rows) quad = load_quad(args, row, k);
  store_rounded<kPlaces, kFragments>(args, row, k, quad);
}

template <bool kFragments>
void launch_round(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                  std::int64_t inputs, const std::int32_t* input_order, InputPlaces places,
                  std::uint16_t* out, const InputSums& sums) {
  if (rows == 0) return;
  const bool aligned = input_order == nullptr && x_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(x) % sizeof(float4) == 0;
  const RoundArgs args = {x,
                          x_stride,
                          static_cast<std::int32_t>(rows),
                          static_cast<std::int32_t>(inputs),
                          input_order,
                          out,
                          sums,
                          aligned};
  const std::int64_t pieces = std::int64_t{args.summed_rows()} * args.row_pieces();
  const auto blocks = static_cast<unsigned>((pieces * 32 + kThreads - 1) / kThreads);
  const auto kernel = places == InputPlaces::kQuads
                          ? round_kernel<InputPlaces::kQuads, kFragments>
                          : round_kernel<InputPlaces::kNatural, kFragments>;
  launch_dependent(kernel, dim3(blocks), dim3(kThreads), 0, launch.stream, args);
}

}  // namespace

void round_rows(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                std::int64_t inputs, const std::int32_t* input_order, InputPlaces places,
                std::uint16_t* out, const InputSums& sums) {
  launch_round<false>(launch, x, x_stride, rows, inputs, input_order, places, out, sums);
}

void round_fragments(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                     std::int64_t inputs, const std::int32_t* input_order, InputPlaces places,
                     std::uint16_t* out, const InputSums& sums) {
  launch_round<true>(launch, x, x_stride, rows, inputs, input_order, places, out, sums);
}

}  // namespace quire::cuda
