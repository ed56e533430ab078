// Products with inputs in float32 (float_panel.cuh): of float32 weights, and of weights of any
// layout in ActivationMode::kFloat32.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/op_args.h"

namespace quire::cuda {

// x: [rows][x_stride]. Needs no workspace.
void float_product(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                   const MatmulPart& part);

}  // namespace quire::cuda
