#include "nn/latent_attention_block.h"

#include <array>
#include <span>
#include <utility>

#include "nn/repeat_in_cache.h"

namespace quire {
namespace {

constexpr Stage kQueriesAndLatentsStage = {StageKind::kKernel, "queries and latents"};
constexpr Stage kQueryUpStage = {StageKind::kKernel, "queries"};
constexpr Stage kAbsorbStage = {StageKind::kKernel, "queries to latents"};
constexpr Stage kValueStage = {StageKind::kKernel, "latents to values"};
constexpr Stage kLatentOutputStage = {StageKind::kKernel, "attention output"};

}  // namespace

LatentAttentionBlock::LatentAttentionBlock(const LatentAttentionShape& shape,
                                           LatentAttentionWeights weights)
    : shape_(shape), weights_(std::move(weights)) {}

std::uint64_t LatentAttentionBlock::arena_bytes(const LatentAttentionShape& shape,
                                                std::int64_t rows) {
  return Arena::float_bytes(shape.heads_width()) + Arena::float_bytes(rows * shape.query_width()) +
         Arena::float_bytes(rows * shape.query_rank) +
         Arena::float_bytes(rows * shape.heads_width()) +
         Arena::float_bytes(rows * shape.num_heads * shape.latent_dims) +
         Arena::float_bytes(rows * shape.num_heads * shape.value_dims);
}

void LatentAttentionBlock::project(ForwardContext& ctx, const float* x, float* queries,
                                   float* latents) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t rank = shape_.query_rank;
  const std::int64_t stride = shape_.heads_width();
  const Arena::Scope scope(ctx.arena);
  float* const down = ctx.arena.floats(rows * rank);
  const PackedWeight& first = rank == 0 ? weights_.query : weights_.query_down;
  const std::array<MatmulPart, 2> parts = {{{.weight = &first,
                                             .out = rank == 0 ? queries : down,
                                             .out_stride = first.outputs(),
                                             .bias = weights_.query_down_bias.data_or_null()},
                                            {.weight = &weights_.latent,
                                             .out = latents,
                                             .out_stride = stride,
                                             .bias = weights_.latent_bias.data_or_null()}}};
  ctx.ops.matmul(x, first.inputs(), rows, ctx.activation_mode, parts, kQueriesAndLatentsStage);
  ctx.ops.rms_norm_in_place(weights_.latent_norm.data(), shape_.norm_epsilon, rows,
                            shape_.latent_dims, stride, latents + shape_.rope_dims);
  if (rank == 0) return;
  ctx.ops.rms_norm_in_place(weights_.query_down_norm.data(), shape_.norm_epsilon, rows, rank, rank,
                            down);
  const MatmulPart up = {
      .weight = &weights_.query, .out = queries, .out_stride = shape_.query_width()};
  ctx.ops.matmul(down, rank, rows, ctx.activation_mode, std::span(&up, 1), kQueryUpStage);
}

void LatentAttentionBlock::forward(ForwardContext& ctx, const RotaryTable* rotary, int layer,
                                   const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t num_heads = shape_.num_heads;
  const std::int64_t width = shape_.latent_width();
  const std::int64_t stride = shape_.heads_width();
  const Arena::Scope scope(ctx.arena);
  float* const queries = ctx.arena.floats(rows * shape_.query_width());
  float* const heads = ctx.arena.floats(rows * stride);
  float* const attended = ctx.arena.floats(rows * num_heads * shape_.latent_dims);
  float* const values = ctx.arena.floats(rows * num_heads * shape_.value_dims);

  project(ctx, x, queries, heads + num_heads * width);
  ctx.ops.matmul_by_head(rows, ctx.activation_mode,
                         {.weights = weights_.keys,
                          .x = queries,
                          .x_stride = shape_.query_width(),
                          .x_head_stride = shape_.key_dims + shape_.rope_dims,
                          .copied = shape_.rope_dims,
                          .out = heads,
                          .out_stride = stride,
                          .out_head_stride = width},
                         kAbsorbStage);

  std::byte* const kv = ctx.kv_layers[layer];
  LayerTables tables = {.slot_mapping = ctx.tokens.slot_mapping,
                        .repeated_slots = ctx.tokens.repeated_slots};
  if (ctx.layer_tables != nullptr) tables = ctx.layer_tables[layer];
  const KvLayout layout = ctx.layout_of(layer);
  const RopeAndCacheArgs cached = {.qkv = heads,
                                   .num_tokens = rows,
                                   .num_heads = shape_.num_heads,
                                   .positions = ctx.tokens.positions,
                                   .slot_mapping = tables.slot_mapping,
                                   .rope_table = rotary->data(),
                                   .rotary_dim = rotary->rotary_dim(),
                                   .style = rotary->style(),
                                   .layout = layout,
                                   .kv = kv};
  ctx.ops.rope_and_cache(cached);
  if (ctx.tokens.num_repeated > 0) {
    repeat_in_cache(ctx, cached, tables.repeated_slots, ctx.arena.floats(stride), stride);
  }
  ctx.ops.attention(ctx.plan_of(layer), {.q = heads,
                                         .q_stride = stride,
                                         .num_heads = shape_.num_heads,
                                         .scale = shape_.scale,
                                         .layout = layout,
                                         .kv = kv,
                                         .block_tables = tables.block_tables,
                                         .out = attended});
  ctx.ops.matmul_by_head(rows, ctx.activation_mode,
                         {.weights = weights_.values,
                          .x = attended,
                          .x_stride = num_heads * shape_.latent_dims,
                          .x_head_stride = shape_.latent_dims,
                          .out = values,
                          .out_stride = num_heads * shape_.value_dims,
                          .out_head_stride = shape_.value_dims},
                         kValueStage);
  add_to_residual(ctx, values,
                  {.weight = &weights_.output,
                   .bias = &weights_.output_bias,
                   .mode = ctx.activation_mode,
                   .stage = &kLatentOutputStage},
                  residual);
}

}  // namespace quire
