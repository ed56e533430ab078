// CUDA's errors as the project's.
#pragma once

#include <cuda_runtime_api.h>
#include <string_view>

#include "base/status.h"

namespace quire::cuda {

// `doing`: what was refused, "allocate 12 bytes". kResourceExhausted where memory is what is
// missing; kUnavailable where there is no driver or no device; kInternal for every other error.
Status to_status(cudaError_t error, std::string_view doing);

}  // namespace quire::cuda
