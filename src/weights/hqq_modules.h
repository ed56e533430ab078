// One matrix as HQQ writes it.
#pragma once

#include <optional>

#include "weights/quantized_modules.h"

namespace quire {

// As read_quantized_module(); `codes` is MODULE.W_q.
Result<std::optional<QuantizedModule>> read_hqq_module(const WeightSource& source,
                                                       const QuantizationConfig& config,
                                                       const TensorInfo& codes);

}  // namespace quire
