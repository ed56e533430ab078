// What a model is and what it would need, for programs: of headers alone, nothing is loaded.
#pragma once

#include <array>
#include <cstdint>

#include "base/json.h"
#include "base/status.h"
#include "engine/engine_sizing.h"
#include "load/model_bundle.h"
#include "tensor/dtype.h"

namespace quire {

// What --kv-cache-dtype offers.
inline constexpr std::array kKvCacheTypes = {DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kI8};

// Bytes a token, scales included.
std::uint64_t kv_token_bytes(const ModelBundle& bundle, DType dtype);

// The one object of `quire inspect --json`, tensors included; where the memory does not suffice it
// says why.
json::object model_report(const ModelBundle& bundle, const Result<EngineSizes>& sizes);

}  // namespace quire
