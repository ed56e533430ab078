// One matrix as compressed-tensors writes it, or in floats of eight bits.
#pragma once

#include <optional>

#include "weights/quantized_modules.h"

namespace quire {

// As read_quantized_module().
Result<std::optional<QuantizedModule>> read_compressed_module(const WeightSource& source,
                                                              const QuantizationConfig& config,
                                                              const TensorInfo& codes);

// As read_quantized_module(), of e4m3: MODULE.weight, and weight_scale or, with the same meaning,
// weight_scale_inv (DeepSeek-V3).
Result<std::optional<QuantizedModule>> read_float_module(const WeightSource& source,
                                                         const QuantizationConfig& config,
                                                         const TensorInfo& codes);

}  // namespace quire
