// expert_mlp() of products.h.
#pragma once

#include <cstdint>

#include "kernels/sizing.h"

namespace quire::cuda {

// Scratch of expert_mlp() for steps of at most limits.max_rows rows.
std::uint64_t experts_workspace_bytes(const StreamLimits& limits);

}  // namespace quire::cuda
