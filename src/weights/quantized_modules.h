// The tensors of one quantized matrix, checked against each other and described as one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "quant/codebook_tensor.h"
#include "quant/fp4_tensor.h"
#include "quant/grouped_tensor.h"
#include "quant/hqq_tensor.h"
#include "weights/quantization_config.h"
#include "weights/weight_source.h"

namespace quire {

using QuantizedMatrix = std::variant<GroupedTensor, CodebookTensor, Fp4Tensor, HqqTensor>;

struct QuantizedModule {
  QuantizedMatrix matrix;
  std::string format;                    // in words: "gptq int4, groups of 128"
  std::vector<const TensorInfo*> parts;  // all of its tensors
};

// The module whose codes are the tensor `codes`; nullopt if it has no codes under `config`.
Result<std::optional<QuantizedModule>> read_quantized_module(const WeightSource& source,
                                                             const QuantizationConfig& config,
                                                             const TensorInfo& codes);

// The module's name: that of `codes` without its last part.
std::string_view module_name(const TensorInfo& codes);

}  // namespace quire
