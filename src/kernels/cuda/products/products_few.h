// Products of packed weights on tensor cores with few rows: those of decoding, which wait for
// weights alone. fragment_form.h says in which order sums are added.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/op_args.h"
#include "kernels/sizing.h"

namespace quire::cuda {

inline constexpr std::int64_t kMaxFewRows = 64;

// Scratch of the functions below.
std::uint64_t few_workspace_bytes(const StreamLimits& limits);

// Of at most kMaxFewRows rows; weights are of layouts that multiplies_on_tensor_cores().
void product_of_few(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                    std::span<const MatmulPart> parts);
// Both weights are of one layout. x: [rows][inputs]; out: [rows][outputs].
void gated_product_of_few(const Launch& launch, const float* x, std::int64_t rows,
                          const GatedProducts& products, float* out);

}  // namespace quire::cuda
