// One layer of a decoder-only transformer: a mixer and a feed-forward, each with a norm before it,
// or one around it, and added to the residual stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "nn/attention_block.h"
#include "nn/forward_context.h"
#include "nn/mlp_block.h"
#include "nn/norm.h"
#include "nn/rotary.h"

namespace quire {

struct LayerNorms {
  Norm mixer_input;
  Norm mixer_output;  // before the residual is added; empty: none
  Norm feed_forward_input;
  Norm feed_forward_output;  // as mixer_output
};

class DecoderLayer {
 public:
  using Mixer = std::variant<AttentionBlock>;
  using FeedForward = std::variant<MlpBlock>;

  // `rotary`: which of the stack's tables.
  DecoderLayer(std::int64_t hidden_size, LayerNorms norms, Mixer mixer, FeedForward feed_forward,
               std::size_t rotary);

  // Bytes of arena that forward() takes for `rows` rows, where its blocks take `block_bytes` each
  // at most.
  static std::uint64_t arena_bytes(std::uint64_t block_bytes, std::int64_t hidden_size,
                                   std::int64_t rows);

  std::size_t rotary() const { return rotary_; }

  // hidden: [num_tokens][hidden_size], updated in place. `index`: of this layer.
  void forward(ForwardContext& ctx, const RotaryTable& rotary, int index, float* hidden) const;

 private:
  std::int64_t hidden_size_;
  LayerNorms norms_;
  Mixer mixer_;
  FeedForward feed_forward_;
  std::size_t rotary_;
};

}  // namespace quire
