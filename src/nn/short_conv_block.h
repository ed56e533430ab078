// The gated short convolution of one decoder layer (Liquid AI 2025, LFM2), residual included: an
// input projection to a gate, an output gate and a value of each channel, the convolution over the
// latest tokens (ShortConvArgs), and an output projection. A sequence's state is what the
// convolution sees of the tokens before, in float32: no rounding tells recomputed tokens from
// others.
#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/state_runs.h"
#include "nn/forward_context.h"
#include "nn/residual.h"
#include "nn/rotary.h"

namespace quire {

// Biases are there where the checkpoint has them.
struct ShortConvWeights {
  PackedWeight input;  // [gate, output gate, value of hidden_size each][hidden_size]
  DeviceFloats input_bias;
  DeviceFloats conv;       // [hidden_size][taps]
  DeviceFloats conv_bias;  // [hidden_size]
  PackedWeight output;     // [hidden_size][hidden_size]
  DeviceFloats output_bias;
};

class ShortConvBlock {
 public:
  ShortConvBlock(std::int32_t taps, ShortConvWeights weights);

  // Bytes of arena that forward() needs for `rows` rows.
  static std::uint64_t arena_bytes(std::int64_t hidden_size, std::int64_t rows);
  // Of a sequence, in one layer.
  static std::uint64_t state_bytes(std::int64_t hidden_size, std::int32_t taps);

  // x: [num_tokens][hidden_size]. Takes up the states of the step's sequences and leaves them; it
  // has no positions.
  void forward(ForwardContext& ctx, const RotaryTable* rotary, int layer, const float* x,
               const Residual& residual) const;

 private:
  std::int32_t taps_;
  ShortConvWeights weights_;
};

}  // namespace quire
