#include "weights/bits_and_bytes_modules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "quant/group_row.h"
#include "weights/module_parts.h"

namespace quire {
namespace {

// bitsandbytes' LLM.int8(): weight [outputs][inputs] of signed bytes, SCB [outputs], the largest
// magnitude of each output, of which a code of 127 is the whole; weight_format says how the bytes
// lie (0: by rows).
Result<std::optional<QuantizedModule>> read_llm_int8_module(const WeightSource& source,
                                                            const QuantizationConfig& config,
                                                            const TensorInfo& codes) {
  ModuleParts parts(source, codes);
  QUIRE_RETURN_IF_ERROR(expect_matrix(codes, Encoding::kI8));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("SCB"));
  const TensorInfo* format = parts.find("weight_format");
  QuantizedModule module;
  GroupedTensor& matrix = module.matrix.emplace<GroupedTensor>();
  QUIRE_RETURN_IF_ERROR(set_byte_codes(codes, matrix));
  QUIRE_RETURN_IF_ERROR(expect_floats(*scales, {matrix.rows}));
  if (format != nullptr) {
    QUIRE_RETURN_IF_ERROR(expect_part(*format, Encoding::kU8, format->shape));
    if (std::ranges::any_of(format->data, [](std::uint8_t byte) { return byte != 0; })) {
      return Status::unimplemented(
          fmt::format("{}: tensor {}: weights that do not lie by rows are not supported",
                      format->file, printable(format->name)),
          "save the model again with a newer bitsandbytes");
    }
  }
  QUIRE_RETURN_IF_ERROR(set_span(*scales, 1, matrix));
  set_scales(*scales, 1, 1, matrix);
  matrix.scale_unit = 1.0F / 127.0F;
  module.format = fmt::format("{} int8, {}", config.name, groups_text(matrix));
  module.parts = parts.take();
  return std::optional(std::move(module));
}

// What MODULE.weight.quant_state.bitsandbytes__nf4 (or fp4) says, a JSON text
// (QuantState.as_dict() of bitsandbytes/functional.py).
struct QuantState {
  Codebook codebook = Codebook::kNF4;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t block = 0;
  bool nested = false;
  double offset = 0;
};

Status read_shape(const JsonReader& json, QuantState& state) {
  const json::value* shape = json.find("shape");
  const bool two =
      shape != nullptr && shape->is_array() && shape->get_array().size() == 2 &&
      std::ranges::all_of(shape->get_array(), [](const json::value& size) {
        return size.is_int64() && size.get_int64() > 0 && size.get_int64() < kMaxPartSize;
      });
  if (!two) return json.type_error("shape", "outputs and inputs");
  state.rows = shape->get_array()[0].get_int64();
  state.cols = shape->get_array()[1].get_int64();
  return {};
}

Result<QuantState> read_quant_state(const TensorInfo& tensor) {
  constexpr std::size_t kLongest = 4096;
  if (tensor.encoding != Encoding::kU8 || tensor.data.size() > kLongest) {
    return wrong_part(tensor, "expected a JSON text of at most 4096 bytes of U8");
  }
  const std::string where = fmt::format("{}: tensor {}", tensor.file, printable(tensor.name));
  const std::string_view text(reinterpret_cast<const char*>(tensor.data.data()),
                              tensor.data.size());
  const auto value = parse_json(text, where);
  if (!value.ok() || !value->is_object()) return wrong_part(tensor, "expected a JSON object");
  const JsonReader json(value->get_object(), where);
  QuantState state;
  QUIRE_ASSIGN_OR_RETURN(const auto type, json.get_string("quant_type"));
  if (type != "nf4" && type != "fp4") {
    return Status::unimplemented(
        fmt::format("{}: quant_type = {} is not supported", where, printable(type)),
        "use a checkpoint of nf4 or fp4");
  }
  state.codebook = type == "nf4" ? Codebook::kNF4 : Codebook::kFP4;
  QUIRE_RETURN_IF_ERROR(read_shape(json, state));
  QUIRE_ASSIGN_OR_RETURN(state.block, json.get_int("blocksize"));
  constexpr std::int64_t kLargestBlock = 1 << 20;
  if (state.block < 64 || state.block > kLargestBlock ||
      !std::has_single_bit(static_cast<std::uint64_t>(state.block))) {
    return Status::unimplemented(
        fmt::format("{}: blocksize = {} is not supported", where, state.block),
        "use a checkpoint with blocks of 64, 128, 256, ... weights");
  }
  state.nested = json.contains("nested_blocksize") || json.contains("nested_offset");
  if (!state.nested) return state;
  QUIRE_ASSIGN_OR_RETURN(const auto run, json.get_int("nested_blocksize"));
  if (run != kMinNestedRun) {
    return Status::unimplemented(
        fmt::format("{}: nested_blocksize = {} is not supported", where, run),
        "use a checkpoint whose nested scales have blocks of 256");
  }
  QUIRE_ASSIGN_OR_RETURN(state.offset, json.get_double("nested_offset"));
  return state;
}

// The values of codes are those that the format's name means.
Status check_table(const TensorInfo& map, Codebook codebook) {
  QUIRE_RETURN_IF_ERROR(expect_part(map, Encoding::kF32, {16}));
  float values[16];
  std::memcpy(values, map.data.data(), sizeof(values));
  if (std::equal(values, values + 16, codebook_table(codebook))) return {};
  return Status::unimplemented(
      fmt::format("{}: tensor {}: another table than that of {}", map.file, printable(map.name),
                  codebook == Codebook::kNF4 ? "nf4" : "fp4"),
      "use a checkpoint that bitsandbytes has written");
}

// weight: codes, two in a byte, in any type of storage; weight.absmax: a scale for each block, of
// floats, or, nested, bytes; then weight.nested_absmax and weight.nested_quant_map are there, too.
Result<std::optional<QuantizedModule>> read_four_bit_module(const WeightSource& source,
                                                            const QuantizationConfig& config,
                                                            const TensorInfo& codes,
                                                            std::string_view state_part) {
  ModuleParts parts(source, codes);
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* state_text, parts.get(state_part));
  QUIRE_ASSIGN_OR_RETURN(const QuantState state, read_quant_state(*state_text));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* scales, parts.get("weight.absmax"));
  QUIRE_ASSIGN_OR_RETURN(const TensorInfo* table, parts.get("weight.quant_map"));
  QUIRE_RETURN_IF_ERROR(check_table(*table, state.codebook));
  const std::int64_t weights = state.rows * state.cols;
  if (static_cast<std::int64_t>(codes.data.size()) * 2 != weights) {
    return wrong_part(codes, fmt::format("{} bytes do not hold a matrix of {} by {} in four bits",
                                         codes.data.size(), state.rows, state.cols));
  }
  if (state.cols % 64 != 0) {
    return Status::unimplemented(fmt::format("{}: tensor {}: {} inputs are not supported",
                                             codes.file, printable(codes.name), state.cols),
                                 "use a checkpoint whose matrices have a multiple of 64 inputs");
  }
  const std::int64_t blocks = (weights + state.block - 1) / state.block;
  const Encoding scale = state.nested ? Encoding::kU8 : Encoding::kF32;
  QUIRE_RETURN_IF_ERROR(expect_part(*scales, scale, {blocks}));
  QuantizedModule module;
  auto& matrix = module.matrix.emplace<CodebookTensor>();
  matrix = {.rows = state.rows,
            .cols = state.cols,
            .codebook = state.codebook,
            .block = state.block,
            .codes = codes.data.data(),
            .scales = scales->data.data()};
  if (state.nested) {
    QUIRE_ASSIGN_OR_RETURN(const TensorInfo* units, parts.get("weight.nested_absmax"));
    QUIRE_ASSIGN_OR_RETURN(const TensorInfo* map, parts.get("weight.nested_quant_map"));
    QUIRE_RETURN_IF_ERROR(
        expect_part(*units, Encoding::kF32, {(blocks + kMinNestedRun - 1) / kMinNestedRun}));
    QUIRE_RETURN_IF_ERROR(expect_part(*map, Encoding::kF32, {256}));
    matrix.nested = true;
    matrix.units = units->data.data();
    matrix.map = map->data.data();
    matrix.offset = static_cast<float>(state.offset);
  }
  module.format = fmt::format("{} {}, blocks of {}{}", config.name,
                              state.codebook == Codebook::kNF4 ? "nf4" : "fp4", state.block,
                              state.nested ? ", double quantization" : "");
  module.parts = parts.take();
  return std::optional(std::move(module));
}

}  // namespace

Result<std::optional<QuantizedModule>> read_bits_and_bytes_module(const WeightSource& source,
                                                                  const QuantizationConfig& config,
                                                                  const TensorInfo& codes) {
  if (codes.encoding == Encoding::kI8) return read_llm_int8_module(source, config, codes);
  for (const std::string_view part :
       {"weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"}) {
    if (source.find(fmt::format("{}.{}", module_name(codes), part)) != nullptr) {
      return read_four_bit_module(source, config, codes, part);
    }
  }
  return std::optional<QuantizedModule>();
}

}  // namespace quire
