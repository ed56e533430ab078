// One matrix as compressed-tensors writes it, or in floats of eight bits.
#pragma once

#include <optional>
#include <string_view>

#include "weights/quantized_modules.h"

namespace quire {

// As read_quantized_module().
Result<std::optional<QuantizedModule>> read_compressed_module(const WeightSource& source,
                                                              const QuantizationConfig& config,
                                                              const TensorInfo& codes);

// As read_quantized_module(), of e4m3: `codes`, and PREFIX_scale or, with the same meaning,
// PREFIX_scale_inv (DeepSeek-V3).
Result<std::optional<QuantizedModule>> read_float_module(const WeightSource& source,
                                                         const QuantizationConfig& config,
                                                         const TensorInfo& codes,
                                                         std::string_view prefix = "weight");

// As read_quantized_module(), of signed bytes: `codes`, PREFIX_scale and maybe PREFIX_zero_point.
Result<std::optional<QuantizedModule>> read_byte_module(const WeightSource& source,
                                                        const QuantizationConfig& config,
                                                        const TensorInfo& codes,
                                                        std::string_view prefix = "weight");

}  // namespace quire
