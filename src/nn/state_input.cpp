#include "nn/state_input.h"

#include <utility>

namespace quire {
namespace {

constexpr Stage kJoinStage = {StageKind::kKernel, "state input"};

}  // namespace

StateInput::StateInput(StateInputWeights weights) : weights_(std::move(weights)) {}

std::uint64_t StateInput::arena_bytes(std::int64_t hidden_size, std::int64_t rows) {
  return 2 * Arena::float_bytes(rows * 2 * hidden_size);
}

void StateInput::join(ForwardContext& ctx, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t size = weights_.projection.outputs();
  const Arena::Scope scope(ctx.arena);
  float* const apart = ctx.arena.floats(rows * 2 * size);  // all embeddings, then all states
  float* const joined = ctx.arena.floats(rows * 2 * size);
  const auto put = [&](const Norm& norm, const float* from, float* to) {
    if (norm.empty()) {
      const auto bytes = static_cast<std::uint64_t>(rows * size) * sizeof(float);
      ctx.ops.copy(reinterpret_cast<const std::byte*>(from), bytes,
                   reinterpret_cast<std::byte*>(to));
    } else {
      norm.apply(ctx.ops, from, rows, to);
    }
  };
  put(weights_.token_norm, hidden, apart);
  put(weights_.state_norm, ctx.states, apart + rows * size);
  ctx.ops.gather_rows(apart, ctx.pairs, 2 * rows, size, joined);
  const MatmulPart part = {.weight = &weights_.projection,
                           .out = hidden,
                           .out_stride = size,
                           .bias = weights_.bias.data_or_null()};
  ctx.ops.matmul(joined, 2 * size, rows, ctx.activation_mode, {&part, 1}, kJoinStage);
}

}  // namespace quire
