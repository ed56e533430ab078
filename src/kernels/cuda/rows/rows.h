// Ops on rows, as OpStream (kernels/device.h) defines them.
//
// Weights of rms_norm() and choice_bias of route() are read while the kernel before may still run:
// no kernel of the stream writes them.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/op_args.h"
#include "kernels/row_args.h"
#include "kernels/sizing.h"
#include "kernels/state_runs.h"

namespace quire::cuda {

std::uint64_t rows_workspace_bytes(const StreamLimits& limits);

void gather_rows(const Launch& launch, const float* x, const std::int64_t* rows,
                 std::int64_t num_rows, std::int64_t cols, float* out);
void rms_norm(const Launch& launch, const float* x, const float* weight, float epsilon,
              std::int64_t rows, std::int64_t cols, float* out);
void rms_norm_and_add(const Launch& launch, const float* x, const float* weight, float epsilon,
                      std::int64_t rows, std::int64_t cols, float* out);
void rms_norm_in_place(const Launch& launch, const float* weight, float epsilon, std::int64_t rows,
                       std::int64_t cols, std::int64_t stride, float* x);
void layer_norm(const Launch& launch, const float* x, const float* weight, const float* bias,
                float epsilon, std::int64_t rows, std::int64_t cols, float* out);
void activate_in_place(const Launch& launch, Activation activation, std::int64_t count, float* x);
void xielu_in_place(const Launch& launch, const Xielu& curve, std::int64_t count, float* x);
void scale_by_position(const Launch& launch, const PositionScale& scale,
                       const std::int32_t* positions, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, float* x);
void scale_in_place(const Launch& launch, float factor, std::int64_t count, float* x);
void clamp_in_place(const Launch& launch, float limit, std::int64_t count, float* x);
void add_position_rows(const Launch& launch, const float* table, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, float* x);
void soft_cap_in_place(const Launch& launch, float cap, std::int64_t count, float* x);
// best[r]: the largest of row r, the first among equals; NaN, wherever, where the row has one.
void find_best(const Launch& launch, const float* x, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, RowBest* best);
void scale_and_add(const Launch& launch, const float* x, float factor, std::int64_t count,
                   float* out);
void add_gated(const Launch& launch, const float* x, const float* gates, std::int64_t rows,
               std::int64_t cols, float* out);
void multiply_rows(const Launch& launch, const float* by, std::int64_t by_stride, std::int64_t rows,
                   std::int64_t cols, float* x);
void keep_largest(const Launch& launch, float deviations, std::int64_t rows, std::int64_t cols,
                  float* x);
void match_rms(const Launch& launch, const float* like, float floor, std::int64_t rows,
               std::int64_t cols, float* x);
void predict_streams(const Launch& launch, std::int64_t rows, std::int64_t cols,
                     const AltUpArgs& args, float* out);
void correct_streams(const Launch& launch, std::int64_t rows, std::int64_t cols,
                     const AltUpArgs& args, const float* scale, float* x);
// x stays as it is: its values do not become g.
void short_conv(const Launch& launch, std::int64_t rows, const ShortConvArgs& args);
// At most 2048 experts in at most 32 groups. args.logits stay as they are.
inline constexpr std::int64_t kMostRoutedExperts = 2048;  // and 32 groups of them
void route(const Launch& launch, const RouteArgs& args);

}  // namespace quire::cuda
