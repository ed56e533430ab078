// Per-layer embeddings of one decoder layer (Gemma 3n, Gemma Team 2025), residual included: a token
// has a small vector for each layer, of an embedding of its own and of what enters the first layer,
// and a layer ends by adding what a gate lets through of it:
//   hidden += norm(Wout(act(Wgate(hidden)) * inputs[layer]))
#pragma once

#include <cstdint>

#include "kernels/op_args.h"
#include "nn/forward_context.h"
#include "nn/norm.h"

namespace quire {

struct PerLayerWeights {
  PackedWeight gate;    // [width][hidden_size]
  PackedWeight output;  // [hidden_size][width]
  Norm norm;
};

class PerLayerBlock {
 public:
  PerLayerBlock(Activation activation, PerLayerWeights weights);

  // Bytes of arena that forward() needs for `rows` rows.
  static std::uint64_t arena_bytes(std::int64_t width, std::int64_t rows);

  // x, which the gate reads, and scratch: [num_tokens][hidden_size]. hidden: [copies][num_tokens]
  // [hidden_size]; each gets the same added. x and hidden may be the same. `layer`: whose part of
  // ctx.per_layer_inputs.
  void forward(ForwardContext& ctx, int layer, const float* x, float* hidden, std::int64_t copies,
               float* scratch) const;

 private:
  Activation activation_;
  PerLayerWeights weights_;
};

// What is made of each token before the first layer: its vectors for all layers.
struct PerLayerInputWeights {
  PackedWeight embedding;   // [vocab_size][num_layers * width]
  PackedWeight projection;  // [num_layers * width][hidden_size]
  Norm norm;                // of `width` numbers
};

class PerLayerInputs {
 public:
  // `embedding_scale` and `projection_scale`: of what the two matrices give.
  PerLayerInputs(std::int64_t num_layers, float embedding_scale, float projection_scale,
                 PerLayerInputWeights weights);

  // Bytes of arena for the vectors of `rows` tokens, and scratch.
  static std::uint64_t arena_bytes(std::int64_t num_layers, std::int64_t width, std::int64_t rows);

  // (norm(projection) + embedding) / sqrt(2), in ctx.arena: [num_tokens][num_layers][width].
  // hidden: [num_tokens][hidden_size], what enters the first layer.
  PerLayerVectors compute(ForwardContext& ctx, const float* hidden) const;

 private:
  std::int64_t num_layers_;
  float embedding_scale_;
  float projection_scale_;
  PerLayerInputWeights weights_;
};

}  // namespace quire
