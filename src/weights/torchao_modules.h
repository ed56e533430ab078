// One matrix as torchao writes it where its tensors are plain ones.
#pragma once

#include <optional>

#include "weights/quantized_modules.h"

namespace quire {

// As read_quantized_module(); `codes` is MODULE._weight_qdata, bytes or e4m3.
Result<std::optional<QuantizedModule>> read_torchao_module(const WeightSource& source,
                                                           const QuantizationConfig& config,
                                                           const TensorInfo& codes);

}  // namespace quire
