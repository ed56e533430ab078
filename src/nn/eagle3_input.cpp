#include "nn/eagle3_input.h"

#include <cstddef>
#include <utility>

namespace quire {
namespace {

constexpr Stage kEagle3InputStage = {StageKind::kKernel, "states of several layers"};

}  // namespace

Eagle3Input::Eagle3Input(Eagle3InputWeights weights, bool add_to_normed)
    : weights_(std::move(weights)), add_to_normed_(add_to_normed) {}

std::uint64_t Eagle3Input::kept_bytes(std::int64_t hidden_size, std::int64_t rows) {
  return Arena::float_bytes(rows * 2 * hidden_size);
}

std::uint64_t Eagle3Input::scratch_bytes(std::int64_t hidden_size, std::int64_t rows) {
  return Arena::float_bytes(rows * 2 * hidden_size);
}

void Eagle3Input::join(ForwardContext& ctx, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t size = weights_.projection.outputs();
  float* const joined = ctx.arena.floats(rows * 2 * size);
  const Arena::Scope scope(ctx.arena);
  float* const apart = ctx.arena.floats(rows * 2 * size);  // all embeddings, then all states
  float* const states = apart + rows * size;
  const auto copy = [&](const float* from) {
    ctx.ops.copy(reinterpret_cast<const std::byte*>(from),
                 static_cast<std::uint64_t>(rows * size) * sizeof(float),
                 reinterpret_cast<std::byte*>(hidden));
  };
  weights_.token_norm.apply(ctx.ops, hidden, rows, apart);
  if (ctx.state_size == size) {
    copy(ctx.states);
  } else {
    const MatmulPart part = {.weight = &weights_.projection, .out = hidden, .out_stride = size};
    ctx.ops.matmul(ctx.states, ctx.state_size, rows, ctx.activation_mode, {&part, 1},
                   kEagle3InputStage);
  }
  weights_.state_norm.apply(ctx.ops, hidden, rows, states);
  if (add_to_normed_) copy(states);
  ctx.ops.gather_rows(apart, ctx.pairs, 2 * rows, size, joined);
  ctx.joined = joined;
}

}  // namespace quire
