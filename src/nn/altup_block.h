// Alternating updates (Baykal et al. 2023, "Alternating Updates for Efficient Transformers"): each
// token has several hidden states, its streams. A layer predicts all of them from each other,
// computes one, the active one, and corrects the others by what that has become. All streams begin
// as projections of the token's embedding and end as one hidden state again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/norm.h"

namespace quire {

struct AltUpWeights {
  PackedWeight router;   // [num_streams][hidden_size]
  Norm router_norm;      // of hidden states, before the router
  DeviceFloats predict;  // AltUpArgs::weight, of predictions
  DeviceFloats correct;  // the same of corrections
  DeviceFloats scale;    // [hidden_size], of the corrected stream that is handed on; or empty
};

// A layer's predictions and corrections. `hidden` and `scratch`: [num_tokens][hidden_size].
class AltUpBlock {
 public:
  // `active`: the stream that layers compute.
  AltUpBlock(std::int64_t active, AltUpWeights weights);

  // Bytes of arena that either call needs for `rows` rows.
  static std::uint64_t arena_bytes(std::int64_t num_streams, std::int64_t rows);

  std::int64_t num_streams() const { return weights_.router.outputs(); }

  // Replaces ctx.streams by what they predict; hidden = the active one.
  void predict(ForwardContext& ctx, float* hidden, float* scratch) const;

  // hidden: what the layer has made of its prediction. Corrects ctx.streams; hidden = the active
  // one, scaled.
  void correct(ForwardContext& ctx, float* hidden, float* scratch) const;

 private:
  AltUpArgs route(ForwardContext& ctx, const float* hidden, float* scratch) const;

  std::int64_t active_;
  AltUpWeights weights_;
};

// Matrices of all streams but the first: [hidden_size][hidden_size].
struct AltUpStreamWeights {
  std::vector<PackedWeight> projections;
  std::vector<PackedWeight> unembeddings;
};

class AltUpStreams {
 public:
  explicit AltUpStreams(AltUpStreamWeights weights) : weights_(std::move(weights)) {}

  // Bytes of arena for the streams of `rows` tokens.
  static std::uint64_t arena_bytes(std::int64_t num_streams, std::int64_t hidden_size,
                                   std::int64_t rows);

  // The streams of tokens whose embeddings are `hidden`, in ctx.arena: [num_streams][num_tokens]
  // [hidden_size], the first of them `hidden` itself, the others projections as large as that.
  float* open(ForwardContext& ctx, const float* hidden) const;

  // hidden = the mean of the first stream and of the others' projections, which are made as large.
  // scratch: [num_tokens][hidden_size].
  void merge(ForwardContext& ctx, float* hidden, float* scratch) const;

 private:
  AltUpStreamWeights weights_;
};

}  // namespace quire
