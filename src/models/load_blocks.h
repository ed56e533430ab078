// The blocks of a layer with their weights, one function for each kind.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "models/attention_spec.h"
#include "models/latent_attention_spec.h"
#include "models/mlp_spec.h"
#include "models/moe_spec.h"
#include "models/short_conv_spec.h"
#include "models/spec.h"
#include "models/tensor_loader.h"
#include "nn/altup_block.h"
#include "nn/attention_block.h"
#include "nn/latent_attention_block.h"
#include "nn/laurel_block.h"
#include "nn/mlp_block.h"
#include "nn/moe_block.h"
#include "nn/per_layer_block.h"
#include "nn/plain_mlp_block.h"
#include "nn/short_conv_block.h"
#include "nn/sparse_mlp_block.h"

namespace quire {

Result<AttentionBlock> load_block(const AttentionSpec& spec, TensorLoader& loader,
                                  std::int64_t layer);
Result<LatentAttentionBlock> load_block(const LatentAttentionSpec& spec, TensorLoader& loader,
                                        std::int64_t layer);
Result<ShortConvBlock> load_block(const ShortConvSpec& spec, TensorLoader& loader,
                                  std::int64_t layer);
Result<MlpBlock> load_block(const GatedMlpSpec& spec, TensorLoader& loader, std::int64_t layer);
Result<SparseMlpBlock> load_block(const SparseMlpSpec& spec, TensorLoader& loader,
                                  std::int64_t layer);
Result<PlainMlpBlock> load_block(const PlainMlpSpec& spec, TensorLoader& loader,
                                 std::int64_t layer);
Result<MoeBlock> load_block(const MoeSpec& spec, TensorLoader& loader, std::int64_t layer);

Result<PerLayerBlock> load_block(const PerLayerSpec& spec, TensorLoader& loader,
                                 std::int64_t layer);
Result<AltUpBlock> load_block(const AltUpSpec& spec, TensorLoader& loader, std::int64_t layer);
Result<LaurelBlock> load_laurel(TensorLoader& loader, std::int64_t layer);

// Bytes of arena that such a block of a model needs for a step of `rows` tokens.
std::uint64_t block_arena_bytes(const AttentionSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const LatentAttentionSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const ShortConvSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const GatedMlpSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const SparseMlpSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const PlainMlpSpec& spec, std::int64_t hidden_size,
                                std::int64_t rows);
std::uint64_t block_arena_bytes(const MoeSpec& spec, std::int64_t hidden_size, std::int64_t rows);

}  // namespace quire
