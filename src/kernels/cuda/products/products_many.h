// Products of packed weights (kernels/packed_weight.h) with many rows: those of prefill. They have
// the bits of the kernels for few rows (products.h says in which order sums are added), so a row's
// result does not depend on how many others there are.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/op_args.h"

namespace quire::cuda {

// Inputs rounded to bfloat16, as rounded_rows.h writes them.
struct ManyRows {
  // [rows][padded_inputs], zeros behind the inputs; aligned to 16, in the order of inputs that the
  // weight's layout wants.
  const std::uint16_t* x = nullptr;
  std::int64_t padded_inputs = 0;  // a multiple of 16
  const float* sums = nullptr;     // as rounded_rows.h has them; of layouts with minima alone
  std::int64_t rows = 0;
};

// Whether there are kernels for weights of this layout.
bool multiplies_many(WeightLayout layout);

void product_of_many(const Launch& launch, const ManyRows& x, const MatmulPart& part);

// Of two weights of one layout. out: [rows][outputs].
void gated_product_of_many(const Launch& launch, const ManyRows& x, const GatedProducts& products,
                           float* out);

}  // namespace quire::cuda
