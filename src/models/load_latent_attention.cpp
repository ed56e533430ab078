// Latent attention with its weights, whose matrices are turned to where the absorbed form wants
// them (nn/latent_attention_block.h).
#include <utility>

#include "models/load_blocks.h"

namespace quire {
namespace {

LatentAttentionShape latent_shape(const LatentAttentionSpec& spec) {
  return {.num_heads = static_cast<std::int32_t>(spec.num_heads),
          .query_rank = static_cast<std::int32_t>(spec.query_rank),
          .latent_dims = static_cast<std::int32_t>(spec.latent_dims),
          .rope_dims = static_cast<std::int32_t>(spec.rope_dims),
          .key_dims = static_cast<std::int32_t>(spec.key_dims),
          .value_dims = static_cast<std::int32_t>(spec.value_dims),
          .scale = static_cast<float>(spec.scale),
          .norm_epsilon = static_cast<float>(spec.norm_epsilon)};
}

}  // namespace

Result<LatentAttentionBlock> load_block(const LatentAttentionSpec& spec, TensorLoader& loader,
                                        std::int64_t layer) {
  using enum TensorRole;
  LatentAttentionWeights weights;
  if (spec.query_rank == 0) {
    QUIRE_ASSIGN_OR_RETURN(weights.query, loader.matrix(kQuery, layer));
  } else {
    QUIRE_ASSIGN_OR_RETURN(weights.query_down, loader.matrix(kQueryDown, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.query_down_bias, loader.vector({kQueryDownBias}, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.query_down_norm, loader.norm_weight(kQueryDownNorm, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.query, loader.matrix(kQueryUp, layer));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.latent, loader.turned_matrix(kLatent, spec.latent_dims, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.latent_bias,
                         loader.turned_vector(kLatentBias, spec.latent_dims, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.latent_norm, loader.norm_weight(kLatentNorm, layer));
  if (spec.split_up) {
    QUIRE_ASSIGN_OR_RETURN(weights.keys, loader.experts(kLatentKeys, spec.num_heads, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.values, loader.experts(kLatentValues, spec.num_heads, layer));
  } else {
    QUIRE_ASSIGN_OR_RETURN(HeadMatrices heads, loader.matrices_of_heads(kLatentUp, spec.num_heads,
                                                                        spec.key_dims, layer));
    weights.keys = std::move(heads.transposed);
    weights.values = std::move(heads.others);
  }
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(kAttentionOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_bias, loader.vector({kAttentionBias}, layer));
  return LatentAttentionBlock(latent_shape(spec), std::move(weights));
}

std::uint64_t block_arena_bytes(const LatentAttentionSpec& spec, std::int64_t /*hidden_size*/,
                                std::int64_t rows) {
  return LatentAttentionBlock::arena_bytes(latent_shape(spec), rows);
}

}  // namespace quire
