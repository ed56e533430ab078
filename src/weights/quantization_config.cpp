#include "weights/quantization_config.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"

namespace quire {
namespace {

// GPTQ, AWQ and AutoRound call the same parameters by different names.
constexpr std::string_view kBitsKeys[] = {"bits", "w_bit", "wbits"};
constexpr std::string_view kGroupSizeKeys[] = {"group_size", "q_group_size"};

Status not_computed(const JsonReader& config, std::string_view key, std::string_view value,
                    std::string_view known) {
  return Status::unimplemented(
      fmt::format("{}: {} = {} is not supported", config.where(), key, printable(value)),
      fmt::format("use a checkpoint with {}", known));
}

Result<std::int64_t> integer_of(const JsonReader& config, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_int(key));
    if (value) return *value;
  }
  return config.get_int(keys[0]);  // says that it is missing
}

Status read_bits(const JsonReader& config, std::initializer_list<int> known,
                 QuantizationConfig& read) {
  QUIRE_ASSIGN_OR_RETURN(const auto bits, integer_of(config, kBitsKeys));
  if (std::ranges::find(known, bits) == known.end()) {
    return not_computed(config, "bits", fmt::format("{}", bits),
                        fmt::format("{} bits", fmt::join(known, ", ")));
  }
  read.bits = static_cast<int>(bits);
  QUIRE_ASSIGN_OR_RETURN(read.group_size, integer_of(config, kGroupSizeKeys));
  if (read.group_size != -1 && (read.group_size < 32 || read.group_size % 32 != 0)) {
    return not_computed(config, "group_size", fmt::format("{}", read.group_size),
                        "groups of a multiple of 32, or of all inputs (-1)");
  }
  return {};
}

// `value` is one of `known`, or the key is absent.
Status one_of(const JsonReader& config, std::string_view key,
              std::initializer_list<std::string_view> known) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_string(key));
  if (!value || std::ranges::find(known, *value) != known.end()) return {};
  return not_computed(config, key, *value, fmt::format("{} {}", key, fmt::join(known, ", ")));
}

Status read_gptq(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kGptq;
  QUIRE_RETURN_IF_ERROR(read_bits(config, {2, 3, 4, 8}, read));
  QUIRE_RETURN_IF_ERROR(one_of(config, "checkpoint_format", {"gptq", "gptq_v2"}));
  QUIRE_ASSIGN_OR_RETURN(const auto format, config.find_string("checkpoint_format"));
  read.zeros_minus_one = format.value_or("gptq") == "gptq";
  const json::value* dynamic = config.find("dynamic");
  read.per_module = dynamic != nullptr && dynamic->is_object() && !dynamic->get_object().empty();
  return {};
}

Status read_awq(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kAwq;
  QUIRE_RETURN_IF_ERROR(read_bits(config, {4}, read));
  QUIRE_RETURN_IF_ERROR(one_of(config, "version", {"gemm", "GEMM", "gemv", "GEMV"}));
  QUIRE_ASSIGN_OR_RETURN(const auto version, config.find_string("version"));
  read.by_output = version.value_or("gemm") == "gemv" || version.value_or("gemm") == "GEMV";
  QUIRE_ASSIGN_OR_RETURN(const auto zero_point, config.find_bool("zero_point"));
  if (zero_point && !*zero_point) {
    return not_computed(config, "zero_point", "false", "zero points, as AWQ writes them");
  }
  return {};
}

// auto-round's own format names say whose layout it has: GPTQ's, with zero points as gptq_v2 has
// them unless it is auto_gptq's, or AWQ's; what is rounded to floats has compressed-tensors' names.
Status read_auto_round(const JsonReader& config, QuantizationConfig& read) {
  QUIRE_RETURN_IF_ERROR(
      one_of(config, "packing_format",
             {"auto_round", "auto_round:auto_gptq", "auto_round:gptqmodel", "auto_round:auto_awq",
              "auto_round:llm_compressor", "auto_round:fp8_static"}));
  QUIRE_ASSIGN_OR_RETURN(const auto format, config.find_string("packing_format"));
  QUIRE_ASSIGN_OR_RETURN(const auto data_type, config.find_string("data_type"));
  const std::string type = data_type.value_or("int");
  if (type.starts_with("mx_fp") || type.starts_with("nv_fp") || type.starts_with("fp8")) {
    read.method = QuantizationMethod::kCompressedTensors;
    return {};
  }
  QUIRE_RETURN_IF_ERROR(one_of(config, "data_type", {"int", "mx_fp", "nv_fp", "fp8"}));
  if (format.value_or("auto_round:auto_gptq") == "auto_round:auto_awq") {
    return read_awq(config, read);
  }
  QUIRE_RETURN_IF_ERROR(read_gptq(config, read));
  read.zeros_minus_one = format.value_or("auto_round:auto_gptq") == "auto_round:auto_gptq";
  read.per_module = config.contains("extra_config");
  return {};
}

// What else a file of compressed-tensors may say that changes results.
Status read_compressed_tensors(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kCompressedTensors;
  QUIRE_RETURN_IF_ERROR(
      one_of(config, "format",
             {"pack-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized",
              "mxfp4-pack-quantized", "naive-quantized", "mixed-precision", "dense"}));
  for (const std::string_view key : {"kv_cache_scheme", "transform_config"}) {
    const json::value* value = config.find(key);
    if (value == nullptr || (value->is_object() && value->get_object().empty())) continue;
    return not_computed(config, key, json::serialize(*value), fmt::format("no {}", key));
  }
  const json::value* sparsity = config.find("sparsity_config");
  if (sparsity != nullptr && sparsity->is_object() && !sparsity->get_object().empty()) {
    const JsonReader reader(sparsity->get_object(), config.where() + ": sparsity_config");
    QUIRE_RETURN_IF_ERROR(one_of(reader, "format", {"dense"}));
  }
  return {};
}

// Which modules are left as they are, and the type of four-bit codes, the tensors say themselves
// (bits_and_bytes_modules.cpp). LLM.int8() (Dettmers et al. 2022): which inputs are outliers is
// decided for each row of activations, and is about their rounding to 8 bits, which is not ours.
Status read_bits_and_bytes(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kBitsAndBytes;
  QUIRE_ASSIGN_OR_RETURN(const auto eight, config.find_bool("load_in_8bit"));
  QUIRE_ASSIGN_OR_RETURN(const auto four, config.find_bool("load_in_4bit"));
  if (!eight.value_or(false) && !four.value_or(false)) {
    return not_computed(config, "load_in_8bit", "false",
                        "load_in_8bit, which is LLM.int8(), or load_in_4bit");
  }
  return one_of(config, "bnb_4bit_quant_type", {"nf4", "fp4"});
}

// How activations are scaled (activation_scheme) is left aside: weights are computed with as they
// are, activations are rounded by nobody.
Status read_fp8(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kFp8;
  QUIRE_RETURN_IF_ERROR(one_of(config, "fmt", {"e4m3"}));
  QUIRE_RETURN_IF_ERROR(one_of(config, "activation_scheme", {"dynamic", "static"}));
  const json::value* block = config.find("weight_block_size");
  if (block == nullptr) return {};
  if (*block != json::value{128, 128}) {
    return not_computed(config, "weight_block_size", json::serialize(*block),
                        "blocks of 128 by 128, or none");
  }
  return {};
}

// Bits, groups and which modules are not converted the tensors say themselves (hqq_modules.cpp).
Status read_hqq(const JsonReader& /*config*/, QuantizationConfig& read) {
  read.method = QuantizationMethod::kHqq;
  return {};
}

// What torchao writes as plain tensors since its version 0.15 (torchao_modules.cpp). How
// activations are rounded is left aside.
Status read_torchao(const JsonReader& config, QuantizationConfig& read) {
  read.method = QuantizationMethod::kTorchao;
  const json::value* type = config.find("quant_type");
  if (type == nullptr || !type->is_object()) {
    return not_computed(config, "quant_type", type == nullptr ? "null" : json::serialize(*type),
                        "a quant_type that is an object, as torchao 0.15 writes it");
  }
  QUIRE_ASSIGN_OR_RETURN(const JsonReader types, config.get_object("quant_type"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader one, types.get_object("default"));
  QUIRE_ASSIGN_OR_RETURN(const std::string name, one.get_string("_type"));
  if (name.starts_with("Int4")) {
    return not_computed(one, "_type", name,
                        "weights of eight bits: torchao's four lie in the order of one kernel of a "
                        "GPU, or have minima that are no whole numbers of steps");
  }
  return one_of(one, "_type",
                {"Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig",
                 "Float8WeightOnlyConfig", "Float8DynamicActivationFloat8WeightConfig",
                 "IntxWeightOnlyConfig", "Int8DynamicActivationIntxWeightConfig"});
}

// Which modules are not converted the tensors say themselves.
Status read_mxfp4(const JsonReader& /*config*/, QuantizationConfig& read) {
  read.method = QuantizationMethod::kMxfp4;
  return {};
}

struct QuantizationReader {
  std::string_view method;
  Status (*read)(const JsonReader& config, QuantizationConfig& read);
};

constexpr QuantizationReader kQuantizationReaders[] = {
    {"gptq", read_gptq},
    {"awq", read_awq},
    {"auto-round", read_auto_round},
    {"compressed-tensors", read_compressed_tensors},
    {"bitsandbytes", read_bits_and_bytes},
    {"fp8", read_fp8},
    {"hqq", read_hqq},
    {"torchao", read_torchao},
    {"mxfp4", read_mxfp4},
};

Result<QuantizationConfig> read_method(const JsonReader& config, std::string method) {
  std::vector<std::string_view> known;
  for (const QuantizationReader& reader : kQuantizationReaders) {
    known.push_back(reader.method);
    if (reader.method != method) continue;
    QuantizationConfig read;
    read.name = std::move(method);
    read.where = config.where();
    QUIRE_RETURN_IF_ERROR(reader.read(config, read));
    return read;
  }
  return Status::unimplemented(
      fmt::format("{}: quant_method = {} is not supported", config.where(), printable(method)),
      fmt::format("use a checkpoint of {}, or one that is not quantized", fmt::join(known, ", ")));
}

}  // namespace

Result<QuantizationConfig> read_quantization_config(const JsonReader& config) {
  for (const std::string_view key : {"quantization_config", "compression_config"}) {
    if (!config.contains(key)) continue;
    QUIRE_ASSIGN_OR_RETURN(const JsonReader quantization, config.get_object(key));
    if (key == "compression_config") return read_method(quantization, "compressed-tensors");
    QUIRE_ASSIGN_OR_RETURN(auto method, quantization.get_string("quant_method"));
    return read_method(quantization, std::move(method));
  }
  return QuantizationConfig{};
}

}  // namespace quire
