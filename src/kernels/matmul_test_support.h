// Random checkpoint matrices of every encoding, for tests and benchmarks of matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/packed_weight.h"
#include "tensor/float_convert.h"

namespace quire {

inline constexpr Encoding kAllEncodings[] = {Encoding::kF32,  Encoding::kF16,  Encoding::kBF16,
                                             Encoding::kQ8_0, Encoding::kQ4_0, Encoding::kQ4_1};

// A matrix as a checkpoint would hold it; weights are roughly normal with deviation 1/sqrt(cols).
struct TestMatrix {
  Encoding encoding;
  std::int64_t rows;
  std::int64_t cols;
  std::vector<std::uint8_t> data;

  TestMatrix(Encoding e, std::int64_t r, std::int64_t c, unsigned seed)
      : encoding(e), rows(r), cols(c) {
    std::mt19937 random(seed);
    const EncodingTraits& traits = encoding_traits(encoding);
    data.resize(static_cast<std::size_t>(rows) * encoded_row_bytes(encoding, cols).value());
    // Blocks: every code is likely, and scales of both signs.
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    const float deviation = 1.0F / std::sqrt(static_cast<float>(cols));
    std::normal_distribution<float> normal(0.0F, deviation);
    const auto step = static_cast<std::size_t>(traits.block_bytes);
    for (std::size_t at = 0; at < data.size(); at += step) {
      const float value = normal(random);
      std::uint16_t bits = float_to_f16(value);
      switch (encoding) {
        case Encoding::kF32:
          std::memcpy(&data[at], &value, sizeof(value));
          continue;
        case Encoding::kBF16:
          bits = float_to_bf16(value);
          break;
        case Encoding::kF16:
          break;
        case Encoding::kQ8_0:
          bits = float_to_f16(value / 100.0F);
          break;
        case Encoding::kQ4_1: {
          const std::uint16_t minimum = float_to_f16(normal(random));
          std::memcpy(&data[at + 2], &minimum, sizeof(minimum));
          [[fallthrough]];
        }
        case Encoding::kQ4_0:
          bits = float_to_f16(value / 8.0F);
          break;
      }
      std::memcpy(&data[at], &bits, sizeof(bits));
    }
  }

  EncodedMatrix view() const { return {encoding, rows, cols, data.data()}; }

  // All weights as floats, [rows][cols].
  std::vector<float> decode() const {
    std::vector<float> weights(static_cast<std::size_t>(rows * cols));
    decode_row(encoding, data.data(), rows * cols, weights.data());
    return weights;
  }
};

inline PackedWeight pack_or_die(ThreadPool& pool, const TestMatrix& matrix) {
  const EncodedMatrix view = matrix.view();
  return std::move(PackedWeight::pack(pool, &view, 1)).value();
}

}  // namespace quire
