// What an instruction-set level provides to measure the machine with (kernels/machine_limits.h).
#pragma once

#include <cstdint>

namespace quire {

// The kinds of arithmetic whose peak rate is measured, operands in registers.
enum class PeakKind : std::uint8_t {
  kF32,       // fused multiply-add of float32
  kInt16Dot,  // sums of two 16-bit products (vpmaddwd) and their addition in 32 bits
  kBf16Dot,   // sums of two bfloat16 products in float32 (vdpbf16ps)
  kInt8Dot,   // sums of four byte products in 32 bits (vpdpbusd)
  kBf16Tile,  // products of tiles of bfloat16 (tdpbf16ps)
  kInt8Tile   // products of tiles of bytes (tdpbssd)
};
inline constexpr int kNumPeakKinds = 6;

struct PeakKernel {
  // `rounds` times a set of independent instructions; returns a value that depends on them, so that
  // the compiler cannot leave them out. Null: the level has no such instruction.
  float (*run)(std::int64_t rounds) = nullptr;
  std::int64_t operations_per_round = 0;  // a multiplication and an addition are two
};

struct LimitKernels {
  // The sum of `count` floats, a multiple of 64; as fast as memory delivers them.
  float (*read)(const float* data, std::int64_t count) = nullptr;
  PeakKernel peaks[kNumPeakKinds];  // by PeakKind

  PeakKernel& peak(PeakKind kind) { return peaks[static_cast<int>(kind)]; }
  const PeakKernel& peak(PeakKind kind) const { return peaks[static_cast<int>(kind)]; }
};

}  // namespace quire
