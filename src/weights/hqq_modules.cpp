// What HQQ writes of one matrix (HQQLinear.state_dict() in hqq/core/quantize.py): codes, scales and
// zero points, and each of its settings as a tensor: a text as its bytes, a number as an I32, yes
// or no as a byte.
#include "weights/hqq_modules.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "weights/module_parts.h"

namespace quire {
namespace {

struct HqqPacking {
  std::string_view name;
  int bits;
};

constexpr HqqPacking kHqqPackings[] = {
    {"8bit_u8", 8}, {"4bit_u8", 4}, {"3bit_32", 3}, {"2bit_u8", 2}, {"1bit_u8", 1}};

// Settings that change nothing of what the weights are: how they were found, and of what type
// products with them were.
constexpr std::string_view kOtherSettings[] = {
    "nbits",        "group_size",   "unpack_view_dtype",  "compute_dtype",
    "offload_meta", "channel_wise", "encoded_state_dict", "stores_quant_config",
    "optimize",     "round_zero",   "quant_scale",        "quant_zero"};

constexpr std::int64_t kSpanUnit = 32;

Status not_read(const TensorInfo& tensor, std::string_view what, std::string_view known) {
  return Status::unimplemented(
      fmt::format("{}: tensor {}: {}", tensor.file, printable(tensor.name), what),
      fmt::format("use a checkpoint with {}", known));
}

// A setting that must have one value; where it is not there, it has it.
Status expect_setting(ModuleParts& parts, std::string_view part, Encoding encoding, int value,
                      std::string_view meaning) {
  const TensorInfo* tensor = parts.find(part);
  if (tensor == nullptr) return {};
  QUIRE_RETURN_IF_ERROR(expect_part(*tensor, encoding, tensor->shape));
  if (tensor->data.size() != static_cast<std::size_t>(encoding_traits(encoding).block_bytes)) {
    return wrong_part(*tensor, "expected one number");
  }
  std::int32_t found = 0;
  std::memcpy(&found, tensor->data.data(), tensor->data.size());
  if (found == value) return {};
  return not_read(*tensor, fmt::format("{} = {} is not supported", part, found),
                  fmt::format("{} = {}, {}", part, value, meaning));
}

// What is not read at all, by name.
Status check_settings(ModuleParts& parts) {
  for (const std::string_view setting : kOtherSettings) parts.find(setting);
  QUIRE_RETURN_IF_ERROR(
      expect_setting(parts, "axis", Encoding::kI32, 1,
                     "groups of the inputs of an output: with 0 every input of an "
                     "output has a scale of its own"));
  QUIRE_RETURN_IF_ERROR(
      expect_setting(parts, "view_as_float", Encoding::kU8, 0, "codes as integers"));
  for (const std::string_view part : {"scale_q", "zero_q", "zero_scale"}) {
    const TensorInfo* found = parts.find(part);
    if (found == nullptr) continue;
    return not_read(*found, "quantized or offloaded scales and zero points are not supported",
                    "quant_scale, quant_zero and offload_meta = false");
  }
  return {};
}

// Their packing says how many bits the codes have.
Result<int> read_packing(ModuleParts& parts) {
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* packing, parts.get("packing"));
  QUIRE_RETURN_IF_ERROR(expect_part(*packing, Encoding::kU8, packing->shape));
  const std::string name(packing->data.begin(), packing->data.end());
  for (const HqqPacking& known : kHqqPackings) {
    if (name == known.name) return known.bits;
  }
  return not_read(*packing, fmt::format("packing = {} is not supported", printable(name, 40)),
                  "packing 8bit_u8, 4bit_u8, 3bit_32, 2bit_u8 or 1bit_u8");
}

// Outputs and inputs.
Status read_sizes(ModuleParts& parts, HqqTensor& matrix) {
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* shape, parts.get("shape"));
  QUIRE_RETURN_IF_ERROR(expect_part(*shape, Encoding::kI64, {2}));
  std::int64_t sizes[2];
  std::memcpy(sizes, shape->data.data(), sizeof(sizes));
  if (std::ranges::any_of(sizes, [](auto size) { return size < 1 || size >= kMaxPartSize; })) {
    return wrong_part(*shape, fmt::format("a matrix of {} by {}", sizes[0], sizes[1]));
  }
  matrix.rows = sizes[0];
  matrix.cols = sizes[1];
  return {};
}

Status read_codes(const TensorInfo& codes, HqqTensor& matrix) {
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, matrix.bits == 3 ? Encoding::kI32 : Encoding::kU8));
  matrix.span = codes.shape[1];
  if (matrix.cols % matrix.span != 0) {
    return not_read(codes,
                    fmt::format("groups of {} inputs that go on from one row of {} into the next "
                                "are not supported",
                                matrix.span, matrix.cols),
                    "groups that divide the inputs");
  }
  if (matrix.span % kSpanUnit != 0) {
    return not_read(codes, fmt::format("groups of {} inputs are not supported", matrix.span),
                    "groups of a multiple of 32 inputs");
  }
  const bool whole = matrix.bits == 3 || matrix.groups() % matrix.codes_together() == 0;
  if (codes.shape[0] != matrix.packed_rows() || !whole) {
    return wrong_part(codes, fmt::format("{} rows do not hold {} groups of codes of {} bits",
                                         codes.shape[0], matrix.groups(), matrix.bits));
  }
  matrix.codes = codes.data.data();
  return {};
}

Status read_numbers(ModuleParts& parts, HqqTensor& matrix) {
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("scale"));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* zeros, parts.get("zero"));
  QUIRE_RETURN_IF_ERROR(expect_floats(*scales, {matrix.groups(), 1}));
  QUIRE_RETURN_IF_ERROR(expect_part(*zeros, scales->encoding, {matrix.groups(), 1}));
  matrix.numbers = scales->encoding;
  matrix.scales = scales->data.data();
  matrix.zeros = zeros->data.data();
  return {};
}

}  // namespace

Result<std::optional<QuantizedModule>> read_hqq_module(const WeightSource& source,
                                                       const QuantizationConfig& config,
                                                       const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(check_settings(parts));
  QuantizedModule module;
  auto& matrix = module.matrix.emplace<HqqTensor>();
  QUIRE_ASSIGN_OR_RETURN(matrix.bits, read_packing(parts));
  QUIRE_RETURN_IF_ERROR(read_sizes(parts, matrix));
  QUIRE_RETURN_IF_ERROR(read_codes(codes, matrix));
  QUIRE_RETURN_IF_ERROR(read_numbers(parts, matrix));
  module.format =
      fmt::format("{} int{}, {}", config.name, matrix.bits, groups_text(matrix.span, matrix.cols));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

}  // namespace quire
