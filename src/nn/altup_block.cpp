#include "nn/altup_block.h"

#include <cstddef>
#include <iterator>
#include <span>

namespace quire {
namespace {

constexpr Stage kStreamRouterStage = {StageKind::kKernel, "stream router"};
constexpr Stage kProjectStage = {StageKind::kKernel, "stream projections"};
constexpr Stage kUnembedStage = {StageKind::kKernel, "stream unembeddings"};

constexpr float kLeastMeanSquare = 1e-5F;  // of a projection, as far as its size is matched

void copy_floats(OpStream& ops, const float* from, std::int64_t count, float* to) {
  ops.copy(reinterpret_cast<const std::byte*>(from),
           static_cast<std::uint64_t>(count) * sizeof(float), reinterpret_cast<std::byte*>(to));
}

}  // namespace

AltUpBlock::AltUpBlock(std::int64_t active, AltUpWeights weights)
    : active_(active), weights_(std::move(weights)) {}

std::uint64_t AltUpBlock::arena_bytes(std::int64_t num_streams, std::int64_t rows) {
  return Arena::float_bytes(rows * num_streams);
}

AltUpArgs AltUpBlock::route(ForwardContext& ctx, const float* hidden, float* scratch) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t hidden_size = weights_.router.inputs();
  float* const router = ctx.arena.floats(rows * num_streams());
  weights_.router_norm.apply(ctx.ops, hidden, rows, scratch);
  const MatmulPart part = {.weight = &weights_.router, .out = router, .out_stride = num_streams()};
  ctx.ops.matmul(scratch, hidden_size, rows, ActivationMode::kFloat32, std::span(&part, 1),
                 kStreamRouterStage);
  return {.num_streams = num_streams(),
          .active = active_,
          .streams = ctx.streams,
          .router = router,
          .router_scale = 1.0F / static_cast<float>(hidden_size)};
}

void AltUpBlock::predict(ForwardContext& ctx, float* hidden, float* scratch) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t hidden_size = weights_.router.inputs();
  const Arena::Scope scope(ctx.arena);
  AltUpArgs args = route(ctx, ctx.streams + active_ * rows * hidden_size, scratch);
  args.weight = weights_.predict.data();
  ctx.ops.predict_streams(rows, hidden_size, args, hidden);
}

void AltUpBlock::correct(ForwardContext& ctx, float* hidden, float* scratch) const {
  const Arena::Scope scope(ctx.arena);
  AltUpArgs args = route(ctx, hidden, scratch);
  args.weight = weights_.correct.data();
  ctx.ops.correct_streams(ctx.tokens.num_tokens, weights_.router.inputs(), args,
                          weights_.scale.data_or_null(), hidden);
}

std::uint64_t AltUpStreams::arena_bytes(std::int64_t num_streams, std::int64_t hidden_size,
                                        std::int64_t rows) {
  return Arena::float_bytes(num_streams * rows * hidden_size);
}

float* AltUpStreams::open(ForwardContext& ctx, const float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t hidden_size = weights_.projections[0].inputs();
  const std::int64_t others = std::ssize(weights_.projections);
  float* const streams = ctx.arena.floats((others + 1) * rows * hidden_size);
  copy_floats(ctx.ops, hidden, rows * hidden_size, streams);
  for (std::int64_t i = 0; i < others; ++i) {
    float* const stream = streams + (i + 1) * rows * hidden_size;
    const MatmulPart part = {.weight = &weights_.projections[static_cast<std::size_t>(i)],
                             .out = stream,
                             .out_stride = hidden_size};
    ctx.ops.matmul(hidden, hidden_size, rows, ctx.activation_mode, std::span(&part, 1),
                   kProjectStage);
    ctx.ops.match_rms(hidden, kLeastMeanSquare, rows, hidden_size, stream);
  }
  return streams;
}

void AltUpStreams::merge(ForwardContext& ctx, float* hidden, float* scratch) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t hidden_size = weights_.unembeddings[0].inputs();
  const std::int64_t count = rows * hidden_size;
  const std::int64_t others = std::ssize(weights_.unembeddings);
  copy_floats(ctx.ops, ctx.streams, count, hidden);
  for (std::int64_t i = 0; i < others; ++i) {
    const MatmulPart part = {.weight = &weights_.unembeddings[static_cast<std::size_t>(i)],
                             .out = scratch,
                             .out_stride = hidden_size};
    ctx.ops.matmul(ctx.streams + (i + 1) * count, hidden_size, rows, ctx.activation_mode,
                   std::span(&part, 1), kUnembedStage);
    ctx.ops.match_rms(ctx.streams, kLeastMeanSquare, rows, hidden_size, scratch);
    ctx.ops.scale_and_add(scratch, 1.0F, count, hidden);
  }
  ctx.ops.scale_in_place(1.0F / static_cast<float>(others + 1), count, hidden);
}

}  // namespace quire
