#include "models/spec.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "models/size_check.h"
#include "nn/rotary.h"

namespace quire {
namespace {

Status check_factors(std::string_view where, const std::vector<float>& factors,
                     std::int32_t rotary_dim) {
  const auto good = [](float f) { return std::isfinite(f) && f > 0; };
  if (std::ssize(factors) == rotary_dim / 2 && std::ranges::all_of(factors, good)) return {};
  return Status::bad_model(
      fmt::format("{}: rope scaling: expected {} factors above 0", where, rotary_dim / 2));
}

Status validate_rope(const RopeSpec& rope, std::string_view where) {
  if (!(rope.theta > 1 && rope.theta < 1e12)) {
    return Status::bad_model(
        fmt::format("{}: the rope base is {}; expected above 1, below 1e12", where, rope.theta));
  }
  const auto check = [&](std::string_view name, double value, double low) {
    if (value >= low && value <= 1e9) return Status();
    return Status::bad_model(
        fmt::format("{}: rope scaling: {} is {}; expected {} to 1e9", where, name, value, low));
  };
  switch (rope.scaling) {
    case RopeScaling::kNone:
      return {};
    case RopeScaling::kLinear:
    case RopeScaling::kProportional:
      return check("factor", rope.factor, 1e-3);
    case RopeScaling::kDynamic:
      QUIRE_RETURN_IF_ERROR(check("head_dim", static_cast<double>(rope.rotary_dim), 4));
      break;
    case RopeScaling::kLlama3:
      QUIRE_RETURN_IF_ERROR(check("low_freq_factor", rope.low_freq_factor, 1e-3));
      if (!(rope.high_freq_factor > rope.low_freq_factor)) {
        return Status::bad_model(
            fmt::format("{}: rope scaling: high_freq_factor {} is not above low_freq_factor {}",
                        where, rope.high_freq_factor, rope.low_freq_factor));
      }
      break;
    case RopeScaling::kYarn:
      QUIRE_RETURN_IF_ERROR(check("beta_slow", rope.beta_slow, 1e-3));
      QUIRE_RETURN_IF_ERROR(check("beta_fast", rope.beta_fast, rope.beta_slow));
      QUIRE_RETURN_IF_ERROR(check("attention_factor", rope.attention_factor, 1e-3));
      break;
    case RopeScaling::kFactors:
      return check_factors(where, rope.factors, rope.rotary_dim);
    case RopeScaling::kLongRope:
      QUIRE_RETURN_IF_ERROR(check_factors(where, rope.short_factors, rope.rotary_dim));
      QUIRE_RETURN_IF_ERROR(check_factors(where, rope.long_factors, rope.rotary_dim));
      QUIRE_RETURN_IF_ERROR(check("attention_factor", rope.attention_factor, 1e-3));
      break;
  }
  QUIRE_RETURN_IF_ERROR(check("factor", rope.factor, 1.0));
  return check("original_max_position_embeddings", rope.original_max_positions, 1.0);
}

Status check_scale(std::string_view where, std::string_view what, double scale) {
  if (scale > 0 && scale < 1e6) return {};
  return Status::bad_model(
      fmt::format("{}: the scale of {} is {}; expected above 0", where, what, scale));
}

// Whether what a layer reads of another is there, and as it reads it.
[[maybe_unused]] bool reads_like(const LayerSpec& layer, const std::vector<LayerSpec>& layers) {
  const LayerSpec& source = layers[static_cast<std::size_t>(layer.kv_layer())];
  return &source < &layer && source.kv_layer() == kOwnKeys &&
         source.kv_heads().num_kv_heads == layer.kv_heads().num_kv_heads &&
         source.kv_heads().head_dim == layer.kv_heads().head_dim &&
         source.kv_window() == layer.kv_window();
}

}  // namespace

std::int64_t LayerSpec::intermediate_size() const {
  return std::visit([](const auto& block) { return block.intermediate_size; }, feed_forward);
}

KvHeads LayerSpec::kv_heads() const {
  return std::visit([](const auto& block) { return block.kv_heads(); }, mixer);
}

KvHeads DecoderSpec::kv_heads() const {
  return std::ranges::find_if_not(layers, &LayerSpec::keeps_state)->kv_heads();
}

std::uint64_t DecoderSpec::state_bytes(std::int64_t layer) const {
  const ShortConvSpec* const conv = layers[static_cast<std::size_t>(layer)].short_conv();
  return conv == nullptr ? 0 : conv->state_bytes(hidden_size);
}

std::int32_t LayerSpec::rope() const {
  return std::visit([](const auto& block) { return block.rope; }, mixer);
}

std::int32_t LayerSpec::kv_window() const {
  return std::visit([](const auto& block) { return block.kept_tokens(); }, mixer);
}

std::int64_t DecoderSpec::max_product_inputs() const {
  std::int64_t inputs =
      std::max({(state_input.present ? 2 : 1) * hidden_size, state_input.size, per_layer.width});
  for (const LayerSpec& layer : layers) {
    inputs = std::max(inputs, layer.laurel_rank);
    const std::int64_t of_mixer =
        std::visit([](const auto& block) { return block.max_inputs(); }, layer.mixer);
    inputs = std::max({inputs, of_mixer, layer.intermediate_size()});
    if (layer.moe() != nullptr) inputs = std::max(inputs, layer.moe()->shared_intermediate_size);
  }
  return inputs;
}

ExpertSizes DecoderSpec::experts() const {
  ExpertSizes sizes;
  for (const LayerSpec& layer : layers) {
    const MoeSpec* const moe = layer.moe();
    if (moe == nullptr) continue;
    sizes = {.num_experts = std::max(sizes.num_experts, moe->num_experts),
             .experts_per_row = std::max(sizes.experts_per_row, moe->experts_per_token),
             .hidden_size = hidden_size,
             .intermediate_size = std::max(sizes.intermediate_size, moe->intermediate_size)};
  }
  return sizes;
}

HeadSizes DecoderSpec::head_products() const {
  HeadSizes sizes;
  for (const LayerSpec& layer : layers) {
    const LatentAttentionSpec* const latent = layer.latent_attention();
    if (latent == nullptr) continue;
    sizes = {.num_heads = std::max(sizes.num_heads, latent->num_heads),
             .max_inputs = std::max(sizes.max_inputs, latent->head_inputs())};
  }
  return sizes;
}

std::uint64_t DecoderSpec::idle_weights() const {
  // Unsigned: what a configuration says of sizes may be far from what there is.
  std::uint64_t weights = 0;
  for (const LayerSpec& layer : layers) {
    const MoeSpec* const moe = layer.moe();
    if (moe == nullptr) continue;
    const auto idle = static_cast<std::uint64_t>(moe->num_experts - moe->experts_per_token);
    weights += idle * 3 * static_cast<std::uint64_t>(hidden_size * moe->intermediate_size);
  }
  return weights;
}

bool DecoderSpec::is_unread(std::string_view name) const {
  return std::ranges::any_of(unread_tensors,
                             [&](const std::string& begin) { return name.starts_with(begin); });
}

std::vector<TensorShape> DecoderSpec::tensors() const {
  std::vector<TensorShape> tensors;
  if (state_input.present) {
    list_state_input(tensors);
  } else {
    tensors.push_back({TensorRole::kEmbedding, {vocab_size, hidden_size}});
  }
  if (positions.kind == PositionKind::kLearned) {
    tensors.push_back(
        {TensorRole::kPositions, {max_position_embeddings + positions.offset, hidden_size}});
  }
  if (embedding_norm) {
    tensors.push_back({TensorRole::kEmbeddingNorm, {hidden_size}});
    if (norm.bias) tensors.push_back({TensorRole::kEmbeddingNormBias, {hidden_size}});
  }
  if (norm.weight && final_norm) tensors.push_back({final_norm_role(), {hidden_size}});
  if (norm.bias) tensors.push_back({TensorRole::kFinalNormBias, {hidden_size}});
  if (has_output()) tensors.push_back({TensorRole::kOutput, {vocab_size, hidden_size}});
  if (output_bias) tensors.push_back({TensorRole::kOutputBias, {vocab_size}});
  if (per_layer.width != 0) {
    const std::int64_t all = num_layers() * per_layer.width;
    tensors.push_back({TensorRole::kPerLayerEmbedding, {per_layer.vocab_size, all}});
    tensors.push_back({TensorRole::kPerLayerProjection, {all, hidden_size}});
    tensors.push_back({TensorRole::kPerLayerProjectionNorm, {per_layer.width}});
  }
  using enum TensorRole;
  const std::int64_t others = altup.num_streams - 1;
  for (const TensorRole role : {kAltUpProjections, kAltUpUnembeddings}) {
    if (altup.num_streams == 0) break;
    if (altup.stacked) {
      tensors.push_back({role, {others, hidden_size, hidden_size}});
    } else {
      tensors.push_back({role, {hidden_size, hidden_size}, others});
    }
  }
  return tensors;
}

void DecoderSpec::list_state_input(std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  tensors.push_back({kStateProjection,
                     {hidden_size, state_input.size == 0 ? 2 * hidden_size : state_input.size}});
  if (state_input.bias) tensors.push_back({kStateProjectionBias, {hidden_size}});
  if (!state_input.norms) return;
  tensors.push_back({kStateTokenNorm, {hidden_size}});
  tensors.push_back({kStateNorm, {hidden_size}});
}

std::vector<TensorShape> DecoderSpec::layer_tensors(std::int64_t index) const {
  const LayerSpec& layer = layers[static_cast<std::size_t>(index)];
  std::vector<TensorShape> tensors;
  const auto list = [&](const auto& block) { block.list_tensors(hidden_size, tensors); };
  const auto list_norm = [&](TensorRole weight, TensorRole bias) {
    if (norm.weight) tensors.push_back({weight, {hidden_size}});
    if (norm.bias) tensors.push_back({bias, {hidden_size}});
  };
  std::visit(list, layer.mixer);
  std::visit(list, layer.feed_forward);
  for (TensorShape& tensor : tensors) {
    if (transposed_matrices && tensor.sizes.size() == 2)
      std::swap(tensor.sizes[0], tensor.sizes[1]);
  }
  if (layer.norms != NormPlacement::kAfter) {
    if (layer.input_norm) list_norm(TensorRole::kInputNorm, TensorRole::kInputNormBias);
    if (!layer.parallel || layer.two_norms)
      list_norm(TensorRole::kMlpNorm, TensorRole::kMlpNormBias);
  }
  if (layer.norms != NormPlacement::kBefore) {
    tensors.push_back({TensorRole::kAttentionOutputNorm, {hidden_size}});
    tensors.push_back({TensorRole::kMlpOutputNorm, {hidden_size}});
  }
  if (per_layer.width != 0) {
    tensors.push_back({TensorRole::kPerLayerGate, {per_layer.width, hidden_size}});
    tensors.push_back({TensorRole::kPerLayerOutput, {hidden_size, per_layer.width}});
    tensors.push_back({TensorRole::kPerLayerOutputNorm, {hidden_size}});
  }
  if (const std::int64_t streams = altup.num_streams; streams != 0) {
    tensors.push_back({TensorRole::kAltUpRouter, {streams, hidden_size}});
    tensors.push_back({TensorRole::kAltUpRouterNorm, {hidden_size}});
    tensors.push_back({TensorRole::kAltUpPredict, {streams * streams, streams}});
    tensors.push_back({TensorRole::kAltUpCorrect, {streams, streams}});
    if (altup.scaled) tensors.push_back({TensorRole::kAltUpScale, {hidden_size}});
  }
  if (layer.laurel_rank != 0) {
    tensors.push_back({TensorRole::kLaurelLeft, {layer.laurel_rank, hidden_size}});
    tensors.push_back({TensorRole::kLaurelRight, {hidden_size, layer.laurel_rank}});
    tensors.push_back({TensorRole::kLaurelNorm, {hidden_size}});
  }
  if (layer.output_scale) tensors.push_back({TensorRole::kLayerScale, {1}});
  return tensors;
}

std::int64_t DecoderSpec::kv_elements_per_token() const {
  std::int64_t elements = 0;
  for (const LayerSpec& layer : layers) {
    if (layer.kv_layer() == kOwnKeys) elements += layer.kv_width();
  }
  return elements;
}

SplitBytes DecoderSpec::computed_bytes(std::int64_t max_positions, const LayerSplit& split) const {
  SplitBytes bytes;
  for (const RopeSpec& rope : ropes)
    bytes.main += RotaryTable::bytes(max_positions, rope.rotary_dim);
  const bool host_inputs = split.host_layers > 0;
  if (host_inputs) bytes.host = bytes.main;  // both have the tables
  if (positions.kind != PositionKind::kNone) {
    (host_inputs ? bytes.host : bytes.main) +=
        static_cast<std::uint64_t>(max_positions * hidden_size) * sizeof(float);
  }
  for (std::int64_t index = 0; index < num_layers(); ++index) {
    const LayerSpec& layer = layers[static_cast<std::size_t>(index)];
    // What the streams' predictions and corrections are weighed with.
    std::int64_t numbers = altup.num_streams * altup.num_streams * (altup.num_streams + 1);
    if (layer.short_conv() != nullptr) numbers += hidden_size * layer.short_conv()->taps;
    if (const AttentionSpec* const attention = layer.plain_attention()) {
      numbers += std::ssize(attention->alibi_slopes);
      if (attention->has_normed_values()) numbers += attention->head_dim;
    }
    (split.on_host(index) ? bytes.host : bytes.main) +=
        static_cast<std::uint64_t>(numbers) * sizeof(float);
  }
  return bytes;
}

Status DecoderSpec::validate(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(check_scale(where, "the embeddings", embedding_scale));
  QUIRE_RETURN_IF_ERROR(check_scale(where, "the logits", logit_scale));
  QUIRE_RETURN_IF_ERROR(validate_per_layer(where));
  QUIRE_RETURN_IF_ERROR(validate_streams(where));
  if (!(logit_soft_cap >= 0 && logit_soft_cap < 1e6)) {
    return Status::bad_model(
        fmt::format("{}: the soft cap of the logits is {}; expected above 0, below 1e6", where,
                    logit_soft_cap));
  }
  if (positions.kind == PositionKind::kSinusoidal && (hidden_size % 2 != 0 || hidden_size < 4)) {
    return Status::bad_model(
        fmt::format("{}: hidden_size is {}; sinusoidal positions need an even number from 4 on",
                    where, hidden_size));
  }
  assert(!output_bias || logit_scale == 1.0);
  for (const RopeSpec& rope : ropes) QUIRE_RETURN_IF_ERROR(validate_rope(rope, where));
  if (std::ranges::all_of(layers, &LayerSpec::keeps_state)) {
    return Status::unimplemented(
        fmt::format("{}: no layer has attention, and models without any are not supported", where),
        "use a model of which some layers have attention");
  }
  for (const LayerSpec& layer : layers) {
    const auto validate_block = [&](const auto& block) { return block.validate(where); };
    QUIRE_RETURN_IF_ERROR(std::visit(validate_block, layer.mixer));
    QUIRE_RETURN_IF_ERROR(std::visit(validate_block, layer.feed_forward));
    QUIRE_RETURN_IF_ERROR(check_scale(where, "a layer's residuals", layer.residual_scale));
    // What no family has together, and no block computes.
    assert(layer.norms == NormPlacement::kBefore || norm.kind == NormKind::kRms);
    assert(layer.norms == NormPlacement::kBefore ||
           (!layer.parallel && layer.residual_scale == 1.0));
    assert(!layer.parallel || layer.residual_scale == 1.0);
    assert(norm.weight || (norm.kind == NormKind::kLayer && !norm.bias && !layer.parallel &&
                           layer.norms == NormPlacement::kBefore));
    assert(layer.laurel_rank == 0 || (!layer.parallel && norm.kind == NormKind::kRms));
    assert(layer.kv_layer() == kOwnKeys || reads_like(layer, layers));
  }
  return {};
}

Status DecoderSpec::validate_per_layer(std::string_view where) const {
  if (per_layer.width == 0) return {};
  QUIRE_RETURN_IF_ERROR(check_sizes(
      where, {{"the size of per-layer embeddings", per_layer.width},
              {"the vocabulary of per-layer embeddings", per_layer.vocab_size},
              {"the size of per-layer embeddings of all layers", num_layers() * per_layer.width}}));
  return {};
}

Status DecoderSpec::validate_streams(std::string_view where) const {
  if (altup.num_streams == 0) return {};
  assert(norm.kind == NormKind::kRms);
  if (altup.num_streams < 2 || altup.num_streams > kMaxStreams) {
    return Status::bad_model(fmt::format("{}: altup_num_inputs is {}; expected 2 to {}", where,
                                         altup.num_streams, kMaxStreams));
  }
  if (altup.active < 0 || altup.active >= altup.num_streams) {
    return Status::bad_model(fmt::format("{}: altup_active_idx is {}; expected 0 to {}", where,
                                         altup.active, altup.num_streams - 1));
  }
  return {};
}

Status DecoderDraft::validate_sizes(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"hidden_size", spec.hidden_size}}));
  QUIRE_RETURN_IF_ERROR(mlp.validate(where));
  QUIRE_RETURN_IF_ERROR(attention.validate_sizes(where));
  QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"vocab_size", spec.vocab_size},
                                            {"the context length", spec.max_position_embeddings}}));
  constexpr std::int64_t kMaxLayers = 1 << 14;
  if (num_layers <= 0 || num_layers > kMaxLayers) {
    return Status::bad_model(fmt::format("{}: the number of layers is {}; expected 1 to {}", where,
                                         num_layers, kMaxLayers));
  }
  if (!(spec.norm.epsilon > 0 && spec.norm.epsilon < 1)) {
    return Status::bad_model(fmt::format("{}: the norm's epsilon is {}; expected above 0, below 1",
                                         where, spec.norm.epsilon));
  }
  return {};
}

void DecoderDraft::make_layers(const LayerSpec& layer) {
  spec.layers.assign(static_cast<std::size_t>(num_layers), layer);
}

}  // namespace quire
