#include "plan/number_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 5> kArithmeticNames = {"fp32", "bf16", "fp8", "int8", "fp4"};

// Scales as published formats have them: compressed-tensors' FP8 and INT8 a float for each output
// (of some thousand inputs: 0.01 bits), AWQ and GPTQ one of 16 bits and a zero point of 4 for 128
// inputs, MXFP4 one of 8 bits for 32.
constexpr std::array<NumberFormat, 6> kFormats = {{
    {"fp32", 32, 0, 32, Arithmetic::kF32, "no scales"},
    {"bf16", 16, 0, 16, Arithmetic::kBF16, "no scales"},
    {"fp8", 8, 0.01, 16, Arithmetic::kF8, "a 32-bit scale for an output"},
    {"int8", 8, 0.01, 16, Arithmetic::kI8, "a 32-bit scale for an output"},
    {"int4", 4, 20.0 / 128, 16, Arithmetic::kBF16,
     "a 16-bit scale and a 4-bit zero point for 128 weights"},
    {"fp4", 4, 8.0 / 32, 16, Arithmetic::kF4, "an 8-bit scale for 32 weights"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOtherNames = {{
    {"float32", "fp32"},
    {"f32", "fp32"},
    {"float16", "bf16"},
    {"bfloat16", "bf16"},
    {"fp16", "bf16"},
    {"f16", "bf16"},
    {"half", "bf16"},
    {"fp8_e4m3", "fp8"},
    {"float8_e4m3fn", "fp8"},
    {"mxfp4", "fp4"},
    {"nvfp4", "fp4"},
    {"w4a16", "int4"},
}};

}  // namespace

std::string_view arithmetic_name(Arithmetic arithmetic) {
  return kArithmeticNames[static_cast<std::size_t>(arithmetic)];
}

Result<Arithmetic> parse_arithmetic(std::string_view name) {
  const auto* const found = std::ranges::find(kArithmeticNames, name);
  if (found != kArithmeticNames.end()) {
    return static_cast<Arithmetic>(found - kArithmeticNames.begin());
  }
  return Status::invalid_argument(fmt::format("expected a type of {}, found \"{}\"",
                                              fmt::join(kArithmeticNames, ", "), printable(name)));
}

std::span<const NumberFormat> number_formats() { return kFormats; }

Result<NumberFormat> find_number_format(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::string_view wanted = lower;
  for (const auto& [other, own] : kOtherNames) {
    if (wanted == other) wanted = own;
  }
  for (const NumberFormat& format : kFormats) {
    if (format.name == wanted) return format;
  }
  std::vector<std::string_view> names;
  for (const NumberFormat& format : kFormats) names.push_back(format.name);
  return Status::invalid_argument(
      fmt::format("no weights of type \"{}\" are known", printable(name)),
      fmt::format("use one of {}", fmt::join(names, ", ")));
}

}  // namespace quire
