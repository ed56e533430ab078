// Products with packed weights (kernels/packed_weight.h), as OpStream (kernels/device.h) defines
// them.
//
// Sums. Of weights of bfloat16, float16 and quantized layouts, unless the mode is kFloat32, inputs
// are rounded to bfloat16 (float16 weights are two bfloat16 numbers, exactly), and tensor cores add
// 16 products at a time to a float32 sum, in the order of K: mma.sync and wgmma of any shape give
// the same bits on sm_90 (measured), so kernels for few and for many rows agree. Codes of quantized
// layouts are integers, or floats of 8 bits, that bfloat16 has exactly; the sum of the products of
// a group of 32 inputs, or of half a group where halves have scales, begins with zero, and total =
// fma(scale, sum, total), then fma(minimum, sum of the group's inputs, total), in the order of the
// groups; fragment_form.h has the others. In mode kFloat32, and of float32 weights, the products of
// each 64 inputs are added to a sum that begins with zero, in their order by fma, and these sums
// are added in their order.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/op_args.h"
#include "kernels/sizing.h"

namespace quire::cuda {

// Scratch of the functions below.
std::uint64_t products_workspace_bytes(const StreamLimits& limits);

void matmul(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts);
void gated_matmul(const Launch& launch, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out);
void matmul_by_head(const Launch& launch, std::int64_t rows, ActivationMode mode,
                    const HeadProducts& products);
void expert_mlp(const Launch& launch, const float* x, std::int64_t rows,
                const ExpertProducts& products, float* out);
void embedding(const Launch& launch, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out);

}  // namespace quire::cuda
