#include "nn/short_conv_block.h"

#include <span>
#include <utility>

namespace quire {
namespace {

constexpr Stage kConvInputStage = {StageKind::kKernel, "convolution input"};
constexpr Stage kConvOutputStage = {StageKind::kKernel, "convolution output"};

}  // namespace

ShortConvBlock::ShortConvBlock(std::int32_t taps, ShortConvWeights weights)
    : taps_(taps), weights_(std::move(weights)) {}

std::uint64_t ShortConvBlock::arena_bytes(std::int64_t hidden_size, std::int64_t rows) {
  return Arena::float_bytes(rows * 3 * hidden_size) + Arena::float_bytes(rows * hidden_size);
}

std::uint64_t ShortConvBlock::state_bytes(std::int64_t hidden_size, std::int32_t taps) {
  return static_cast<std::uint64_t>(taps - 1) * static_cast<std::uint64_t>(hidden_size) *
         sizeof(float);
}

void ShortConvBlock::forward(ForwardContext& ctx, const RotaryTable* /*rotary*/, int layer,
                             const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t channels = weights_.output.inputs();
  const Arena::Scope scope(ctx.arena);
  float* const gated = ctx.arena.floats(rows * 3 * channels);
  float* const convolved = ctx.arena.floats(rows * channels);
  const MatmulPart input = {.weight = &weights_.input,
                            .out = gated,
                            .out_stride = 3 * channels,
                            .bias = weights_.input_bias.data_or_null()};
  ctx.ops.matmul(x, weights_.input.inputs(), rows, ctx.activation_mode, std::span(&input, 1),
                 kConvInputStage);
  ctx.ops.short_conv(rows, {.x = gated,
                            .channels = channels,
                            .taps = taps_,
                            .weight = weights_.conv.data(),
                            .bias = weights_.conv_bias.data_or_null(),
                            .states = ctx.states_of(layer),
                            .out = convolved});
  add_to_residual(ctx, convolved,
                  {.weight = &weights_.output,
                   .bias = &weights_.output_bias,
                   .mode = ctx.activation_mode,
                   .stage = &kConvOutputStage},
                  residual);
}

}  // namespace quire
