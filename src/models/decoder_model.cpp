#include "models/decoder_model.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "models/load_blocks.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr Stage kForwardStage = {StageKind::kWhole, "forward"};
constexpr Stage kHostForwardStage = {StageKind::kWhole, "forward, the processor's layers"};
constexpr Stage kLogitsStage = {StageKind::kKernel, "logits"};

}  // namespace

Model::Model(DecoderSpec spec, Vocabulary vocabulary, Inputs inputs, DeviceFloats output_bias,
             Norm final_norm, DecoderStack stack, const SplitBytes& weight_bytes)
    : spec_(std::move(spec)),
      vocabulary_(std::move(vocabulary)),
      inputs_(std::move(inputs)),
      output_bias_(std::move(output_bias)),
      final_norm_(std::move(final_norm)),
      stack_(std::move(stack)),
      weight_bytes_(weight_bytes) {}

std::uint64_t Model::arena_bytes(const DecoderSpec& spec, std::int64_t rows) {
  const auto bytes = [&](const auto& block) {
    return block_arena_bytes(block, spec.hidden_size, rows);
  };
  std::uint64_t largest = 0;
  bool two_inputs = false;
  for (const LayerSpec& layer : spec.layers) {
    two_inputs = two_inputs || (layer.parallel && layer.two_norms);
    largest =
        std::max({largest, std::visit(bytes, layer.mixer), std::visit(bytes, layer.feed_forward)});
    if (layer.laurel_rank == 0) continue;
    largest =
        std::max(largest, LaurelBlock::arena_bytes(layer.laurel_rank, spec.hidden_size, rows));
  }
  const std::int64_t width = spec.per_layer.width;
  const std::int64_t streams = spec.altup.num_streams;
  largest = std::max(
      {largest, PerLayerBlock::arena_bytes(width, rows), AltUpBlock::arena_bytes(streams, rows)});
  const std::uint64_t joined =
      spec.state_input.present ? StateInput::arena_bytes(spec.hidden_size, rows) : 0;
  if (spec.state_input.size != 0) {
    const std::uint64_t scratch = Eagle3Input::scratch_bytes(spec.hidden_size, rows);
    return Eagle3Input::kept_bytes(spec.hidden_size, rows) +
           std::max(scratch, DecoderLayer::arena_bytes(largest, spec.hidden_size, rows));
  }
  const std::uint64_t layers =
      DecoderLayer::arena_bytes(largest, spec.hidden_size, rows, two_inputs) +
      PerLayerInputs::arena_bytes(spec.num_layers(), width, rows) +
      AltUpStreams::arena_bytes(streams, spec.hidden_size, rows);
  return std::max(layers, joined);
}

void Model::embed(ForwardContext& ctx, float* hidden) const {
  ctx.ops.embedding(vocabulary_.embedding, ctx.tokens.token_ids, ctx.tokens.num_tokens, hidden);
  if (spec_.embedding_scale != 1.0) {
    ctx.ops.scale_in_place(embedding_scale(ctx.activation_mode),
                           ctx.tokens.num_tokens * spec_.hidden_size, hidden);
  }
  if (!inputs_.positions.empty()) {
    ctx.ops.add_position_rows(inputs_.positions.data(), ctx.tokens.positions, ctx.tokens.num_tokens,
                              spec_.hidden_size, hidden);
  }
  if (inputs_.norm) inputs_.norm->apply(ctx.ops, hidden, ctx.tokens.num_tokens, hidden);
  if (inputs_.states) inputs_.states->join(ctx, hidden);
}

void Model::open(ForwardContext& ctx, float* hidden) const {
  if (inputs_.eagle3) inputs_.eagle3->join(ctx, hidden);
  if (inputs_.per_layer) ctx.per_layer_inputs = inputs_.per_layer->compute(ctx, hidden);
  if (inputs_.streams) ctx.streams = inputs_.streams->open(ctx, hidden);
}

void Model::merge_streams(ForwardContext& ctx, float* hidden) const {
  if (!inputs_.streams) return;
  float* const scratch = ctx.arena.floats(ctx.tokens.num_tokens * spec_.hidden_size);
  inputs_.streams->merge(ctx, hidden, scratch);
}

void Model::forward(ForwardContext& ctx, float* hidden) const {
  const ScopedSpan span(ctx.ops.spans(), kForwardStage);
  const Arena::Scope scope(ctx.arena);
  if (host_layers_ == 0) {
    embed(ctx, hidden);
    open(ctx, hidden);
  }
  stack_.forward(ctx, hidden, host_layers_, spec_.num_layers());
  merge_streams(ctx, hidden);
}

std::int64_t Model::crossing_numbers(const DecoderSpec& spec, std::int64_t rows) {
  return rows * ((1 + spec.altup.num_streams) * spec.hidden_size +
                 spec.num_layers() * spec.per_layer.width);
}

Status Model::forward_host_layers(ForwardContext& host, float* host_hidden, ForwardContext& ctx,
                                  float* hidden, Crossing& crossing) const {
  const ScopedSpan span(host.ops.spans(), kHostForwardStage);
  const std::int64_t rows = host.tokens.num_tokens;
  embed(host, host_hidden);
  const Arena::Scope scope(host.arena);
  open(host, host_hidden);
  stack_.forward(host, host_hidden, 0, host_layers_);
  crossing.add(host_hidden, rows * spec_.hidden_size, hidden);
  if (host.per_layer_inputs.data != nullptr) {
    const std::int64_t stride = host.per_layer_inputs.stride;
    float* const vectors = ctx.arena.floats(rows * stride);
    crossing.add(host.per_layer_inputs.data, rows * stride, vectors);
    ctx.per_layer_inputs = {.data = vectors, .stride = stride};
  }
  if (host.streams != nullptr) {
    const std::int64_t numbers = spec_.altup.num_streams * rows * spec_.hidden_size;
    ctx.streams = ctx.arena.floats(numbers);
    crossing.add(host.streams, numbers, ctx.streams);
  }
  return crossing.cross(host.ops, ctx.ops);
}

float Model::embedding_scale(ActivationMode mode) const {
  const auto scale = static_cast<float>(spec_.embedding_scale);
  const bool bf16 = spec_.round_embedding_scale && mode != ActivationMode::kFloat32 &&
                    vocabulary_.embedding.layout() == WeightLayout::kBF16;
  return bf16 ? bf16_to_float(float_to_bf16(scale)) : scale;
}

void Model::final_states(ForwardContext& ctx, const float* hidden, const std::int64_t* rows,
                         std::int64_t num_rows, float* states) const {
  ctx.ops.gather_rows(hidden, rows, num_rows, spec_.hidden_size, states);
  if (!final_norm_.empty()) final_norm_.apply(ctx.ops, states, num_rows, states);
}

void Model::logits(ForwardContext& ctx, const float* hidden, const std::int64_t* rows,
                   std::int64_t num_rows, float* normed, float* logits, RowBest* best) const {
  final_states(ctx, hidden, rows, num_rows, normed);
  if (spec_.logit_scale != 1.0) {
    ctx.ops.scale_in_place(static_cast<float>(spec_.logit_scale), num_rows * spec_.hidden_size,
                           normed);
  }
  const MatmulPart part = {
      .weight = vocabulary_.output.outputs() == 0 ? &vocabulary_.embedding : &vocabulary_.output,
      .out = logits,
      .out_stride = spec_.vocab_size,
      .bias = output_bias_.data_or_null()};
  const ActivationMode mode = ctx.last_product_mode();
  if (spec_.logit_soft_cap == 0.0) {
    ctx.ops.matmul_and_best(normed, spec_.hidden_size, num_rows, mode, part, best, kLogitsStage);
    return;
  }
  // What is largest is found of capped logits: some that differ are equal then.
  ctx.ops.matmul(normed, spec_.hidden_size, num_rows, mode, {&part, 1}, kLogitsStage);
  ctx.ops.soft_cap_and_best(static_cast<float>(spec_.logit_soft_cap), num_rows, spec_.vocab_size,
                            logits, best);
}

}  // namespace quire
