#include "nn/attention_block.h"

#include <array>
#include <utility>

#include "nn/repeat_in_cache.h"

namespace quire {
namespace {

constexpr Stage kQkvStage = {StageKind::kKernel, "qkv projection, rope, cache write"};
constexpr Stage kProductStage = {StageKind::kKernel, "qkv projection"};
constexpr Stage kOutputStage = {StageKind::kKernel, "attention output projection"};

}  // namespace

AttentionBlock::AttentionBlock(AttentionShape shape, float epsilon, AttentionWeights weights)
    : shape_(shape), epsilon_(epsilon), weights_(std::move(weights)) {}

std::uint64_t AttentionBlock::arena_bytes(const AttentionShape& shape, std::int64_t rows) {
  return Arena::float_bytes(rows * shape.qkv_width()) +
         Arena::float_bytes(rows * shape.out_width());
}

void AttentionBlock::project_qkv(ForwardContext& ctx, const float* x,
                                 const RopeAndCacheArgs& heads) const {
  std::array<MatmulPart, 3> parts;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < weights_.qkv.size(); ++i) {
    parts[i] = {.weight = &weights_.qkv[i],
                .out = heads.qkv + column,
                .out_stride = shape_.qkv_width(),
                .bias = weights_.qkv_bias.data_or_null(column)};
    column += weights_.qkv[i].outputs();
  }
  const std::span<const MatmulPart> products(parts.data(), weights_.qkv.size());
  if (!shape_.whole_norms && !shape_.value_norm && shape_.qkv_limit == 0.0F) {
    ctx.ops.qkv_matmul(x, ctx.activation_mode, products, heads, kQkvStage);
    return;
  }
  // A norm over all heads waits for all of them, heads are taken on with no norm of values, and a
  // limit is that of what is turned.
  const std::int64_t rows = heads.num_tokens;
  const std::int64_t q_width = shape_.out_width();
  const std::int64_t k_width = std::int64_t{shape_.num_kv_heads} * shape_.head_dim;
  ctx.ops.matmul(x, weights_.qkv[0].inputs(), rows, ctx.activation_mode, products, kProductStage);
  const std::int64_t stride = shape_.qkv_width();
  if (shape_.whole_norms) {
    ctx.ops.rms_norm_in_place(weights_.q_norm.data(), epsilon_, rows, q_width, stride, heads.qkv);
  }
  if (shape_.whole_norms && shape_.own_keys) {
    ctx.ops.rms_norm_in_place(weights_.k_norm.data(), epsilon_, rows, k_width, stride,
                              heads.qkv + q_width);
  }
  const std::int32_t normed_values = shape_.value_norm && shape_.own_keys ? shape_.num_kv_heads : 0;
  for (std::int32_t head = 0; head < normed_values; ++head) {
    ctx.ops.rms_norm_in_place(weights_.v_norm.data(), epsilon_, rows, shape_.head_dim, stride,
                              heads.qkv + q_width + k_width + std::int64_t{head} * shape_.head_dim);
  }
  if (shape_.qkv_limit > 0.0F) {
    ctx.ops.clamp_in_place(shape_.qkv_limit, rows * stride, heads.qkv);
  }
  ctx.ops.rope_and_cache(heads);
}

void AttentionBlock::forward(ForwardContext& ctx, const RotaryTable* rotary, int layer,
                             const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t qkv_width = shape_.qkv_width();
  const Arena::Scope scope(ctx.arena);
  float* qkv = ctx.arena.floats(rows * qkv_width);
  float* attended = ctx.arena.floats(rows * shape_.out_width());

  std::byte* kv = ctx.kv_layers[layer];
  LayerTables tables = {.slot_mapping = ctx.tokens.slot_mapping,
                        .repeated_slots = ctx.tokens.repeated_slots};
  if (ctx.layer_tables != nullptr) tables = ctx.layer_tables[layer];
  const KvLayout layout = ctx.layout_of(layer);
  KvLayout written = layout;
  if (!shape_.own_keys) written.num_kv_heads = 0;
  const RopeAndCacheArgs heads = {
      .qkv = qkv,
      .num_tokens = rows,
      .num_heads = shape_.num_heads,
      .positions = ctx.tokens.positions,
      .slot_mapping = tables.slot_mapping,
      .rope_table = rotary == nullptr ? nullptr : rotary->data(),
      .rotary_dim = rotary == nullptr ? 0 : rotary->rotary_dim(),
      .style = rotary == nullptr ? RopeStyle::kHalves : rotary->style(),
      .q_norm = shape_.whole_norms ? nullptr : weights_.q_norm.data_or_null(),
      .k_norm = shape_.whole_norms ? nullptr : weights_.k_norm.data_or_null(),
      .norm_epsilon = epsilon_,
      .norms_after_rope = shape_.norms_after_rope,
      .layout = written,
      .kv = kv};
  project_qkv(ctx, x, heads);
  if (ctx.tokens.num_repeated > 0 && shape_.own_keys) {
    repeat_in_cache(ctx, heads, tables.repeated_slots, attended, rows * shape_.out_width());
  }
  if (shape_.query_scale) {
    ctx.ops.scale_by_position(*shape_.query_scale, ctx.tokens.positions, rows, shape_.out_width(),
                              qkv_width, qkv);
  }
  ctx.ops.attention(ctx.plan_of(layer), {.q = qkv,
                                         .q_stride = qkv_width,
                                         .num_heads = shape_.num_heads,
                                         .scale = shape_.scale,
                                         .window = shape_.window,
                                         .chunk = shape_.chunk,
                                         .soft_cap = shape_.soft_cap,
                                         .alibi_slopes = weights_.alibi_slopes.data_or_null(),
                                         .sinks = weights_.sinks.data_or_null(),
                                         .layout = layout,
                                         .kv = kv,
                                         .block_tables = tables.block_tables,
                                         .out = attended});

  add_to_residual(ctx, attended,
                  {.weight = &weights_.output,
                   .bias = &weights_.output_bias,
                   .mode = ctx.activation_mode,
                   .stage = &kOutputStage},
                  residual);
}

}  // namespace quire
