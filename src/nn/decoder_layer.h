// One layer of a decoder-only transformer: a mixer and a feed-forward, each between norms, added to
// the residual stream one after the other or side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "nn/altup_block.h"
#include "nn/attention_block.h"
#include "nn/forward_context.h"
#include "nn/latent_attention_block.h"
#include "nn/laurel_block.h"
#include "nn/mlp_block.h"
#include "nn/moe_block.h"
#include "nn/norm.h"
#include "nn/per_layer_block.h"
#include "nn/plain_mlp_block.h"
#include "nn/rotary.h"
#include "nn/short_conv_block.h"
#include "nn/sparse_mlp_block.h"

namespace quire {

// Norms of what goes into a block, and of what comes out before it is added; each may be empty.
struct LayerNorms {
  Norm mixer_input;
  Norm mixer_output;
  Norm feed_forward_input;
  Norm feed_forward_output;
};

// What few layers have besides a mixer and a feed-forward.
struct LayerExtras {
  std::optional<AltUpBlock> altup;
  std::optional<LaurelBlock> laurel;  // of layers without parallel blocks
  std::optional<PerLayerBlock> per_layer;
};

struct LayerShape {
  std::int64_t hidden_size = 0;
  // Both blocks read the residual stream before either is added to it: what mixer_input makes of
  // it, or, where there is a feed_forward_input, each what its own norm does. No outputs are
  // normed.
  bool parallel = false;
  bool joined_input = false;               // the mixer reads ForwardContext::joined
  float residual_scale = 1.0F;             // of what the blocks add
  float output_scale = 1.0F;               // of what the layer gives
  std::optional<std::size_t> rotary = {};  // which of the stack's tables; none: no positions
};

class DecoderLayer {
 public:
  using Mixer = std::variant<AttentionBlock, LatentAttentionBlock, ShortConvBlock>;
  using FeedForward = std::variant<MlpBlock, SparseMlpBlock, PlainMlpBlock, MoeBlock>;

  DecoderLayer(LayerShape shape, LayerNorms norms, Mixer mixer, FeedForward feed_forward,
               LayerExtras extras = {});

  // Bytes of arena that forward() needs for `rows` rows, where its blocks need `block_bytes` each
  // at most. `two_inputs`: side by side, with a norm each.
  static std::uint64_t arena_bytes(std::uint64_t block_bytes, std::int64_t hidden_size,
                                   std::int64_t rows, bool two_inputs = false);

  std::optional<std::size_t> rotary() const { return shape_.rotary; }

  // hidden: [num_tokens][hidden_size], updated in place; where tokens have streams, they are, and
  // hidden is scratch. `rotary`: the table, or null. `index`: of this layer.
  void forward(ForwardContext& ctx, const RotaryTable* rotary, int index, float* hidden) const;

 private:
  void add_per_layer(ForwardContext& ctx, int index, float* hidden, float* scratch) const;

  LayerShape shape_;
  LayerNorms norms_;
  Mixer mixer_;
  FeedForward feed_forward_;
  LayerExtras extras_;
};

}  // namespace quire
