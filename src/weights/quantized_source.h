// A checkpoint whose matrices are quantized by GPTQ, AWQ or their like, as if each of them were one
// tensor: what lies in `MODULE.qweight`, `MODULE.qzeros`, `MODULE.scales` and `MODULE.g_idx` is
// found as `MODULE.weight`, of outputs by inputs, and read row by row.
#pragma once

#include <memory>

#include "base/status.h"
#include "weights/quantization_config.h"
#include "weights/weight_source.h"

namespace quire {

// Tensors that belong to no quantized matrix are as in `source`, in its order. Every shape and type
// is checked here; rows() of the result reads values. Errors name file, tensor, expected and found:
// kBadModel for parts that are missing or do not fit each other, kUnimplemented for what no layout
// holds.
Result<std::unique_ptr<WeightSource>> open_quantized(std::unique_ptr<WeightSource> source,
                                                     const QuantizationConfig& config);

}  // namespace quire
