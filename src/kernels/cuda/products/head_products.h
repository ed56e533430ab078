// matmul_by_head() of products.h.
#pragma once

#include <cstdint>

#include "kernels/sizing.h"

namespace quire::cuda {

// Scratch of matmul_by_head() for steps of at most limits.max_rows rows.
std::uint64_t head_products_workspace_bytes(const StreamLimits& limits);

}  // namespace quire::cuda
