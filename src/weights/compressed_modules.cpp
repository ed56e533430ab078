// What compressed-tensors writes of one matrix (compressors/quantized_compressors).
#include "weights/compressed_modules.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "quant/group_row.h"
#include "weights/module_parts.h"
#include "weights/quantized_modules.h"

namespace quire {
namespace {

// weight_shape: outputs and inputs, two integers.
Result<std::vector<std::int64_t>> read_weight_shape(const TensorInfo& tensor) {
  std::vector<std::int64_t> sizes(2);
  if (tensor.encoding == Encoding::kI32) {
    QUIRE_RETURN_IF_ERROR(expect_part(tensor, Encoding::kI32, {2}));
    std::int32_t values[2];
    std::memcpy(values, tensor.data.data(), sizeof(values));
    sizes = {values[0], values[1]};
  } else {
    QUIRE_RETURN_IF_ERROR(expect_part(tensor, Encoding::kI64, {2}));
    std::memcpy(sizes.data(), tensor.data.data(), tensor.data.size());
  }
  if (std::ranges::any_of(sizes,
                          [](std::int64_t size) { return size < 1 || size >= kMaxPartSize; })) {
    return wrong_part(tensor, fmt::format("a matrix of {} by {}", sizes[0], sizes[1]));
  }
  return sizes;
}

// weight_scale: [outputs][groups], [outputs][1], or one number for all.
Status read_scales(const TensorInfo& scales, GroupedTensor& matrix) {
  if (scales.shape.size() == 1 && scales.shape[0] == 1) {
    QUIRE_RETURN_IF_ERROR(expect_floats(scales, {1}));
    QUIRE_RETURN_IF_ERROR(set_span(scales, 1, matrix));
    set_scales(scales, 0, 0, matrix);
    return {};
  }
  const std::int64_t spans = scales.shape.size() == 2 ? scales.shape[1] : 1;
  QUIRE_RETURN_IF_ERROR(expect_floats(scales, {matrix.rows, spans}));
  QUIRE_RETURN_IF_ERROR(set_span(scales, spans, matrix));
  set_scales(scales, spans, 1, matrix);
  return {};
}

// nvfp4-pack-quantized and mxfp4-pack-quantized: weight_packed [outputs][inputs / 2] of bytes; of
// the former weight_scale [outputs][inputs / 16] of e4m3, which weight_global_scale divides, of the
// latter [outputs][inputs / 32] of exponents (compressors/nvfp4, compressors/mxfp4). Scales of
// inputs (input_global_scale) are for a rounding that is not ours.
Result<std::optional<QuantizedModule>> read_fp4(const WeightSource& source,
                                                const QuantizationConfig& config,
                                                const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kU8));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("weight_scale"));
  const TensorInfo* divisor = parts.find("weight_global_scale");
  parts.find("input_global_scale");
  QuantizedModule module;
  auto& matrix = module.matrix.emplace<Fp4Tensor>();
  matrix.rows = codes.shape[0];
  matrix.cols = codes.shape[1] * 2;
  matrix.codes = codes.data.data();
  matrix.scales = scales->data.data();
  matrix.has_divisor = divisor != nullptr;
  const std::int64_t unit = matrix.has_divisor ? 64 : 32;
  if (matrix.cols % unit != 0) {
    return Status::unimplemented(
        fmt::format("{}: tensor {}: {} inputs are not supported", codes.file, printable(codes.name),
                    matrix.cols),
        fmt::format("use a checkpoint whose matrices have a multiple of {} inputs", unit));
  }
  if (!matrix.has_divisor) {
    QUIRE_RETURN_IF_ERROR(expect_part(*scales, Encoding::kU8, {matrix.rows, matrix.cols / 32}));
    module.format = fmt::format("{} mxfp4, groups of 32", config.name);
  } else {
    QUIRE_RETURN_IF_ERROR(expect_part(*scales, Encoding::kF8E4M3, {matrix.rows, matrix.cols / 16}));
    QUIRE_RETURN_IF_ERROR(expect_part(*divisor, Encoding::kF32, {1}));
    std::memcpy(&matrix.divisor, divisor->data.data(), sizeof(matrix.divisor));
    // Beyond these a scale may be none that float32 can express.
    if (!(matrix.divisor >= 0x1p-100F && matrix.divisor <= 0x1p100F)) {
      return wrong_part(*divisor, fmt::format("{} divides no scale", matrix.divisor));
    }
    module.format = fmt::format("{} nvfp4, groups of 16", config.name);
  }
  module.parts = parts.take();
  return std::optional(std::move(module));
}

// pack-quantized: weight_packed [outputs][inputs / 32 * bits] of words, codes less half their
// range; weight_zero_point [outputs / 32 * bits][groups] of words in the same way.
Result<std::optional<QuantizedModule>> read_packed(const WeightSource& source,
                                                   const QuantizationConfig& config,
                                                   const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kI32));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("weight_scale"));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* shape, parts.get("weight_shape"));
  const TensorInfo* zeros = parts.find("weight_zero_point");
  const TensorInfo* index = parts.find("weight_g_idx");
  QUIRE_ASSIGN_OR_RETURN(const auto sizes, read_weight_shape(*shape));
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  matrix.rows = sizes[0];
  matrix.cols = sizes[1];
  const auto bits = static_cast<int>(std::min<std::int64_t>(codes.shape[1] * 32 / matrix.cols, 99));
  if ((bits != 2 && bits != 3 && bits != 4 && bits != 8) || matrix.cols % kGroupSize != 0 ||
      words_of(matrix.cols, bits) != codes.shape[1] || codes.shape[0] != matrix.rows) {
    return wrong_part(codes, fmt::format("[{}, {}] words do not hold a matrix of {} by {}",
                                         codes.shape[0], codes.shape[1], sizes[0], sizes[1]));
  }
  QUIRE_RETURN_IF_ERROR(read_scales(*scales, matrix));
  matrix.codes = {.data = codes.data.data(),
                  .bits = bits,
                  .along = PackedAlong::kSecond,
                  .stride = codes.shape[1]};
  matrix.codes_by_input = false;
  matrix.zero = 1 << (bits - 1);
  if (zeros != nullptr) {
    const std::int64_t spans = matrix.cols / matrix.span;
    QUIRE_RETURN_IF_ERROR(
        expect_part(*zeros, Encoding::kI32, {words_of(matrix.rows, bits), spans}));
    matrix.zeros = {.data = zeros->data.data(), .bits = bits, .stride = spans};
    matrix.zeros_by_span = false;
    matrix.has_zeros = true;
    matrix.zero = 0;
  }
  if (index != nullptr) QUIRE_RETURN_IF_ERROR(set_order(*index, matrix));
  module.format = fmt::format("{} int{}, {}", config.name, bits, groups_text(matrix));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

// The scales of e4m3: one, one for each output, or [outputs / 128][inputs / 128], rounded up.
Status read_float_scales(const TensorInfo& scales, GroupedTensor& matrix) {
  constexpr std::int64_t kBlock = 128;
  const std::vector<std::int64_t>& shape = scales.shape;
  if (shape.size() == 2 && shape[1] > 1) {
    if (matrix.cols % kBlock != 0) {
      return Status::unimplemented(
          fmt::format("{}: tensor {}: blocks of 128 do not divide {} inputs", scales.file,
                      printable(scales.name), matrix.cols),
          "use a checkpoint whose matrices have a multiple of 128 inputs");
    }
    QUIRE_RETURN_IF_ERROR(
        expect_floats(scales, {(matrix.rows + kBlock - 1) / kBlock, matrix.cols / kBlock}));
    matrix.span = kBlock;
    matrix.rows_per_scale = kBlock;
    set_scales(scales, shape[1], 1, matrix);
    return {};
  }
  matrix.span = matrix.cols;
  // One block is one scale for all; so is a tensor's.
  const bool one = shape.empty() || (shape[0] == 1 && (shape.size() == 1 || shape.size() == 2));
  if (one) {
    QUIRE_RETURN_IF_ERROR(expect_floats(scales, shape));
    set_scales(scales, 0, 0, matrix);
    return {};
  }
  if (shape.size() == 2 && shape[0] == (matrix.rows + kBlock - 1) / kBlock &&
      matrix.cols <= kBlock) {
    QUIRE_RETURN_IF_ERROR(expect_floats(scales, {shape[0], 1}));
    matrix.rows_per_scale = kBlock;
    set_scales(scales, 1, 1, matrix);
    return {};
  }
  std::vector<std::int64_t> expected = {matrix.rows};
  if (shape.size() == 2) expected.push_back(1);
  QUIRE_RETURN_IF_ERROR(expect_floats(scales, expected));
  set_scales(scales, 1, 1, matrix);
  return {};
}

}  // namespace

// int-quantized, and torchao's: codes [outputs][inputs] of signed bytes; weight_zero_point like
// weight_scale. The scales of inputs that a file may bring (input_scale) are for a rounding of
// activations that is not ours.
Result<std::optional<QuantizedModule>> read_byte_module(const WeightSource& source,
                                                        const QuantizationConfig& config,
                                                        const TensorInfo& codes,
                                                        std::string_view prefix) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kI8));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get(fmt::format("{}_scale", prefix)));
  const TensorInfo* zeros = parts.find(fmt::format("{}_zero_point", prefix));
  parts.find("input_scale");
  parts.find("input_zero_point");
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  QUIRE_RETURN_IF_ERROR(set_byte_codes(codes, matrix));
  QUIRE_RETURN_IF_ERROR(read_scales(*scales, matrix));
  if (zeros != nullptr) {
    QUIRE_RETURN_IF_ERROR(expect_part(*zeros, Encoding::kI8, scales->shape));
    // Some write them where all are zero.
    matrix.has_zeros =
        std::ranges::any_of(zeros->data, [](std::uint8_t zero) { return zero != 0; });
    matrix.zeros = {.data = zeros->data.data(),
                    .bits = 8,
                    .along = PackedAlong::kBytes,
                    .stride = matrix.scale_row_stride};
    matrix.zeros_by_span = false;
  }
  module.format = fmt::format("{} int8, {}", config.name, groups_text(matrix));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

Result<std::optional<QuantizedModule>> read_float_module(const WeightSource& source,
                                                         const QuantizationConfig& config,
                                                         const TensorInfo& codes,
                                                         std::string_view prefix) {
  if (codes.encoding != Encoding::kF8E4M3) return std::optional<QuantizedModule>();
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kF8E4M3));
  const TensorInfo* scales = parts.find(fmt::format("{}_scale_inv", prefix));
  if (scales == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(scales, parts.get(fmt::format("{}_scale", prefix)));
  }
  parts.find("input_scale");
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  matrix.rows = codes.shape[0];
  matrix.cols = codes.shape[1];
  if (matrix.cols % kGroupSize != 0) {
    return wrong_part(codes, fmt::format("{} inputs are not a multiple of 32", matrix.cols));
  }
  QUIRE_RETURN_IF_ERROR(read_float_scales(*scales, matrix));
  matrix.is_float = true;
  matrix.codes = {.data = codes.data.data(), .along = PackedAlong::kBytes, .stride = matrix.cols};
  module.format = fmt::format("{} e4m3, {}", config.name,
                              matrix.span < matrix.cols ? "blocks of 128 by 128"
                              : scales->data.size() > 4 ? "one scale a row"
                                                        : "one scale");
  module.parts = parts.take();
  return std::optional(std::move(module));
}

Result<std::optional<QuantizedModule>> read_compressed_module(const WeightSource& source,
                                                              const QuantizationConfig& config,
                                                              const TensorInfo& codes) {
  if (codes.name.ends_with(".weight_packed")) {
    return codes.encoding == Encoding::kU8 ? read_fp4(source, config, codes)
                                           : read_packed(source, config, codes);
  }
  if (codes.name.ends_with(".weight") && codes.encoding == Encoding::kI8) {
    return read_byte_module(source, config, codes);
  }
  if (codes.name.ends_with(".weight")) return read_float_module(source, config, codes);
  return std::optional<QuantizedModule>();
}

}  // namespace quire
