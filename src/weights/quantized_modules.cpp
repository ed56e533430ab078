#include "weights/quantized_modules.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "quant/group_row.h"
#include "weights/bits_and_bytes_modules.h"
#include "weights/compressed_modules.h"
#include "weights/hqq_modules.h"
#include "weights/module_parts.h"
#include "weights/torchao_modules.h"

namespace quire {
namespace {

// auto_gptq's format: qweight [inputs / 32 * bits][outputs] and qzeros [groups][outputs / 32 *
// bits] of words, scales [groups][outputs], g_idx [inputs] (AutoGPTQ, nn_modules/qlinear).
Result<std::optional<QuantizedModule>> read_gptq_module(const WeightSource& source,
                                                        const QuantizationConfig& config,
                                                        const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kI32));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("scales"));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* zeros, parts.get("qzeros"));
  const TensorInfo* index = parts.find("g_idx");
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  matrix.rows = codes.shape[1];
  const std::int64_t words = codes.shape[0];
  int bits = config.bits;
  if (index != nullptr && index->shape.size() == 1 && index->shape[0] > 0) {
    // Modules may have bits of their own.
    matrix.cols = index->shape[0];
    bits = static_cast<int>(std::min<std::int64_t>(words * 32 / matrix.cols, 99));
  } else {
    matrix.cols = words * 32 / bits;
  }
  const bool known = bits == 2 || bits == 3 || bits == 4 || bits == 8;
  if (!known || words_of(matrix.cols, bits) != words || matrix.cols % kGroupSize != 0 ||
      (bits != config.bits && !config.per_module)) {
    return wrong_part(codes, fmt::format("{} rows of words do not hold {} inputs of {} bits", words,
                                         matrix.cols, config.bits));
  }
  if (scales->shape.size() != 2) return expect_floats(*scales, {1, matrix.rows});
  QUIRE_RETURN_IF_ERROR(expect_floats(*scales, {scales->shape[0], matrix.rows}));
  QUIRE_RETURN_IF_ERROR(set_span(*scales, scales->shape[0], matrix));
  const std::int64_t expected =
      config.group_size == -1 ? matrix.cols : std::min(config.group_size, matrix.cols);
  if (matrix.span != expected && !config.per_module) {
    return wrong_part(
        *scales, fmt::format("{} groups for {} inputs; {} says group_size = {}", scales->shape[0],
                             matrix.cols, config.where, config.group_size));
  }
  const std::int64_t zero_words = words_of(matrix.rows, bits);
  QUIRE_RETURN_IF_ERROR(expect_part(*zeros, Encoding::kI32, {scales->shape[0], zero_words}));
  if (index != nullptr) QUIRE_RETURN_IF_ERROR(set_order(*index, matrix));
  matrix.codes = {.data = codes.data.data(), .bits = bits, .stride = matrix.rows};
  matrix.zeros = {.data = zeros->data.data(),
                  .bits = bits,
                  .along = PackedAlong::kSecond,
                  .stride = zero_words};
  matrix.has_zeros = true;
  matrix.zero = config.zeros_minus_one ? 1 : 0;
  set_scales(*scales, 1, matrix.rows, matrix);
  module.format = fmt::format("{} int{}, {}", config.name, bits, groups_text(matrix));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

// AutoAWQ's formats. For its GEMM kernel qweight [inputs][outputs / 8] and qzeros [groups][outputs
// / 8], the eight of a word in AWQ's places, scales [groups][outputs]. For GEMV qweight [outputs]
// [inputs / 8], qzeros [outputs][words] and scales [outputs][8 * words], groups padded
// (AutoAWQ, awq/modules/linear).
Result<std::optional<QuantizedModule>> read_awq_module(const WeightSource& source,
                                                       const QuantizationConfig& config,
                                                       const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kI32));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("scales"));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* zeros, parts.get("qzeros"));
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  const bool by_output = config.by_output;
  matrix.rows = by_output ? codes.shape[0] : codes.shape[1] * 8;
  matrix.cols = by_output ? codes.shape[1] * 8 : codes.shape[0];
  const std::int64_t span = config.group_size == -1 ? matrix.cols : config.group_size;
  if (matrix.cols % span != 0) {
    return wrong_part(codes,
                      fmt::format("{} inputs are not whole groups of {}", matrix.cols, span));
  }
  const std::int64_t spans = matrix.cols / span;
  QUIRE_RETURN_IF_ERROR(set_span(*scales, spans, matrix));
  matrix.codes = {.data = codes.data.data(),
                  .along = PackedAlong::kSecond,
                  .stride = codes.shape[1],
                  .awq_places = !by_output};
  matrix.codes_by_input = !by_output;
  matrix.zeros = {.data = zeros->data.data(),
                  .along = PackedAlong::kSecond,
                  .stride = codes.shape[1],
                  .awq_places = !by_output};
  matrix.zeros_by_span = !by_output;
  matrix.has_zeros = true;
  if (by_output) {
    QUIRE_RETURN_IF_ERROR(expect_matrix(*zeros, Encoding::kI32));
    const std::int64_t zero_words = zeros->shape[1];
    if (zero_words * 8 < spans) return wrong_part(*zeros, fmt::format("expected {} groups", spans));
    QUIRE_RETURN_IF_ERROR(expect_part(*zeros, Encoding::kI32, {matrix.rows, zero_words}));
    QUIRE_RETURN_IF_ERROR(expect_floats(*scales, {matrix.rows, zero_words * 8}));
    matrix.zeros.stride = zero_words;
    set_scales(*scales, zero_words * 8, 1, matrix);
  } else {
    QUIRE_RETURN_IF_ERROR(expect_part(*zeros, Encoding::kI32, {spans, codes.shape[1]}));
    QUIRE_RETURN_IF_ERROR(expect_floats(*scales, {spans, matrix.rows}));
    set_scales(*scales, 1, matrix.rows, matrix);
  }
  module.format = fmt::format("{} int4, {}", config.name, groups_text(matrix));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

}  // namespace

std::string_view module_name(const TensorInfo& codes) {
  return std::string_view(codes.name).substr(0, codes.name.rfind('.'));
}

Result<std::optional<QuantizedModule>> read_quantized_module(const WeightSource& source,
                                                             const QuantizationConfig& config,
                                                             const TensorInfo& codes) {
  const std::size_t dot = codes.name.rfind('.');
  if (dot == std::string::npos) return std::optional<QuantizedModule>();
  const std::string_view part = std::string_view(codes.name).substr(dot + 1);
  const bool packed_words = part == "qweight";
  switch (config.method) {
    case QuantizationMethod::kGptq:
      if (packed_words) return read_gptq_module(source, config, codes);
      break;
    case QuantizationMethod::kAwq:
      if (packed_words) return read_awq_module(source, config, codes);
      break;
    case QuantizationMethod::kCompressedTensors:
      return read_compressed_module(source, config, codes);
    case QuantizationMethod::kBitsAndBytes:
      if (part == "weight") return read_bits_and_bytes_module(source, config, codes);
      break;
    case QuantizationMethod::kFp8:
      if (part == "weight") return read_float_module(source, config, codes);
      break;
    case QuantizationMethod::kTorchao:
      if (part == "_weight_qdata") return read_torchao_module(source, config, codes);
      break;
    case QuantizationMethod::kHqq:
      if (part == "W_q") return read_hqq_module(source, config, codes);
      break;
    case QuantizationMethod::kMxfp4:  // mxfp4_source.h
    case QuantizationMethod::kNone:
      break;
  }
  return std::optional<QuantizedModule>();
}

}  // namespace quire
