// Element types of tensors in memory (encodings of checkpoints are quant/encoding.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kI8, kU8, kI32, kF8E4M3 };

[[gnu::always_inline]] constexpr std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kF8E4M3:
      return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kI8:
      return "int8";
    case DType::kU8:
      return "uint8";
    case DType::kI32:
      return "int32";
    case DType::kF8E4M3:
      return "fp8_e4m3";
  }
  return "?";
}

}  // namespace quire
