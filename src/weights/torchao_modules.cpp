// What torchao writes of a matrix (prototype/safetensors/safetensors_support.py): each tensor of
// what it makes of MODULE.weight as MODULE._weight_NAME. Of Int8Tensor and IntxUnpackedToInt8Tensor
// qdata [outputs][inputs] of signed bytes, scale and zero_point [outputs][groups]; of Float8Tensor
// qdata of e4m3 and scale [outputs][1].
#include "weights/torchao_modules.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "weights/compressed_modules.h"

namespace quire {

Result<std::optional<QuantizedModule>> read_torchao_module(const WeightSource& source,
                                                           const QuantizationConfig& config,
                                                           const TensorInfo& codes) {
  constexpr std::string_view kPrefix = "_weight";
  const std::string factors = fmt::format("{}._weight_act_pre_scale", module_name(codes));
  if (const TensorInfo* found = source.find(factors); found != nullptr) {
    return Status::unimplemented(fmt::format("{}: tensor {}: factors of inputs are not supported",
                                             found->file, printable(found->name)),
                                 "use a checkpoint without act_pre_scale");
  }
  if (codes.encoding == Encoding::kF8E4M3) {
    return read_float_module(source, config, codes, kPrefix);
  }
  return read_byte_module(source, config, codes, kPrefix);
}

}  // namespace quire
