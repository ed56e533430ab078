// One matrix as bitsandbytes writes it: LLM.int8(), or NF4 and FP4.
#pragma once

#include <optional>

#include "weights/quantized_modules.h"

namespace quire {

// As read_quantized_module(); `codes` is a MODULE.weight.
Result<std::optional<QuantizedModule>> read_bits_and_bytes_module(const WeightSource& source,
                                                                  const QuantizationConfig& config,
                                                                  const TensorInfo& codes);

}  // namespace quire
