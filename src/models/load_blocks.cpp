#include "models/load_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); }

AttentionShape shape_of(const AttentionSpec& spec) {
  return {.num_heads = static_cast<std::int32_t>(spec.num_heads),
          .num_kv_heads = static_cast<std::int32_t>(spec.num_kv_heads),
          .head_dim = static_cast<std::int32_t>(spec.head_dim),
          .scale = static_cast<float>(spec.scale),
          .window = spec.window,
          .chunk = spec.chunk,
          .soft_cap = static_cast<float>(spec.soft_cap),
          .qkv_limit = static_cast<float>(spec.qkv_limit),
          .query_scale = spec.query_scale,
          .whole_norms = spec.query_key_norm == QueryKeyNorm::kWhole,
          .norms_after_rope = spec.query_key_norm == QueryKeyNorm::kRotatedHeads,
          .value_norm = spec.value_norm,
          .own_keys = spec.kv_layer == kOwnKeys};
}

// Where the two are in a tensor that has the outputs of both.
TensorLoader::Columns gate_columns(const MoeSpec& spec) {
  return {.begin = 0, .step = spec.in_pairs() ? 2 : 1, .count = spec.intermediate_size};
}

TensorLoader::Columns up_columns(const MoeSpec& spec) {
  const bool pairs = spec.in_pairs();
  return {.begin = pairs ? 1 : spec.intermediate_size,
          .step = pairs ? 2 : 1,
          .count = spec.intermediate_size};
}

MoeShape shape_of(const MoeSpec& spec, std::int64_t hidden_size) {
  return {.hidden_size = hidden_size,
          .num_experts = spec.num_experts,
          .experts_per_token = spec.experts_per_token,
          .shared_size = spec.shared_intermediate_size,
          .shared_gate = spec.shared_gate,
          .activation = spec.activation,
          .routing = spec.routing,
          .clamped = spec.clamped,
          .weigh_inputs = spec.weigh_inputs};
}

// Of experts whose matrices have a row for each input.
Result<std::vector<ExpertWeights>> load_turned_experts(const MoeSpec& spec, TensorLoader& loader,
                                                       std::int64_t layer) {
  using enum TensorRole;
  const std::int64_t count = spec.num_experts;
  QUIRE_ASSIGN_OR_RETURN(auto gates,
                         loader.turned_experts(kExpertGateUps, count, layer, gate_columns(spec)));
  QUIRE_ASSIGN_OR_RETURN(auto ups,
                         loader.turned_experts(kExpertGateUps, count, layer, up_columns(spec)));
  QUIRE_ASSIGN_OR_RETURN(auto downs, loader.turned_experts(kExpertDowns, count, layer,
                                                           {.count = loader.spec().hidden_size}));
  std::vector<ExpertWeights> experts(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < experts.size(); ++i) {
    experts[i] = {
        .gate = std::move(gates[i]), .up = std::move(ups[i]), .down = std::move(downs[i])};
  }
  return experts;
}

Result<std::vector<ExpertWeights>> load_experts(const MoeSpec& spec, TensorLoader& loader,
                                                std::int64_t layer) {
  using enum TensorRole;
  const std::int64_t count = spec.num_experts;
  const bool each = spec.tensors == ExpertTensors::kEach;
  if (spec.turned()) return load_turned_experts(spec, loader, layer);
  std::vector<ExpertWeights> experts(static_cast<std::size_t>(count));
  if (spec.tensors == ExpertTensors::kStackedGateUp) {
    QUIRE_ASSIGN_OR_RETURN(auto both, loader.experts(kExpertGateUps, 2 * count, layer));
    for (std::size_t i = 0; i < experts.size(); ++i) {
      experts[i].gate = std::move(both[2 * i]);
      experts[i].up = std::move(both[2 * i + 1]);
    }
  } else if (spec.tensors == ExpertTensors::kStackedPairs) {
    QUIRE_ASSIGN_OR_RETURN(auto gates,
                           loader.picked_experts(kExpertGateUps, count, layer, gate_columns(spec)));
    QUIRE_ASSIGN_OR_RETURN(auto ups,
                           loader.picked_experts(kExpertGateUps, count, layer, up_columns(spec)));
    for (std::size_t i = 0; i < experts.size(); ++i) {
      experts[i].gate = std::move(gates[i]);
      experts[i].up = std::move(ups[i]);
    }
  } else {
    for (std::int64_t i = 0; each && i < count; ++i) {
      QUIRE_RETURN_IF_ERROR(loader.check_shared_inputs({kExpertGate, kExpertUp}, layer, i));
    }
    QUIRE_ASSIGN_OR_RETURN(auto gates,
                           loader.experts(each ? kExpertGate : kExpertGates, count, layer));
    QUIRE_ASSIGN_OR_RETURN(auto ups, loader.experts(each ? kExpertUp : kExpertUps, count, layer));
    for (std::size_t i = 0; i < experts.size(); ++i) {
      experts[i].gate = std::move(gates[i]);
      experts[i].up = std::move(ups[i]);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(auto downs,
                         loader.experts(each ? kExpertDown : kExpertDowns, count, layer));
  for (std::size_t i = 0; i < experts.size(); ++i) experts[i].down = std::move(downs[i]);
  return experts;
}

Result<MlpWeights> load_mlp(const GatedMlpSpec& spec, TensorLoader& loader, std::int64_t layer) {
  using enum TensorRole;
  MlpWeights weights;
  if (spec.fused_gate_up) {
    QUIRE_ASSIGN_OR_RETURN(auto both, loader.stacked_matrices(kGateUp, 2, layer));
    weights.gate = std::move(both[0]);
    weights.up = std::move(both[1]);
  } else {
    QUIRE_RETURN_IF_ERROR(loader.check_shared_inputs({kGate, kUp}, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.gate, loader.matrix(kGate, layer));
    QUIRE_ASSIGN_OR_RETURN(weights.up, loader.matrix(kUp, layer));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.down, loader.matrix(kDown, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.gate_bias, loader.vector({kGateBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.up_bias, loader.vector({kUpBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.down_bias, loader.vector({kDownBias}, layer));
  return weights;
}

// Of a checkpoint's numbers.
Xielu xielu_of(const Xielu& numbers) {
  return {.alpha_p = softplus(numbers.alpha_p),
          .alpha_n = numbers.beta + softplus(numbers.alpha_n),
          .beta = numbers.beta,
          .epsilon = numbers.epsilon};
}

}  // namespace

Result<AttentionBlock> load_block(const AttentionSpec& spec, TensorLoader& loader,
                                  std::int64_t layer) {
  using enum TensorRole;
  AttentionWeights weights;
  if (spec.fused_by_head) {
    QUIRE_ASSIGN_OR_RETURN(weights.qkv, loader.matrix_by_head(kQueryKeyValue, spec, layer));
  } else if (spec.kv_layer != kOwnKeys) {
    QUIRE_ASSIGN_OR_RETURN(weights.qkv, loader.matrices({kQuery}, layer));
  } else if (spec.fused_projections) {
    QUIRE_ASSIGN_OR_RETURN(weights.qkv, loader.matrices({kQueryKeyValue}, layer));
  } else {
    // The keys' matrix serves twice: there is no op that copies heads.
    const TensorRole value = spec.values_are_keys ? kKey : kValue;
    QUIRE_ASSIGN_OR_RETURN(weights.qkv, loader.matrices({kQuery, kKey, value}, layer));
  }
  if (spec.fused_by_head) {
    QUIRE_ASSIGN_OR_RETURN(weights.qkv_bias,
                           loader.vector_by_head(kQueryKeyValueBias, spec, layer));
  } else {
    const TensorRole value = spec.values_are_keys ? kKeyBias : kValueBias;
    QUIRE_ASSIGN_OR_RETURN(weights.qkv_bias,
                           loader.vector({kQueryKeyValueBias, kQueryBias, kKeyBias, value}, layer));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.q_norm, loader.norm_weight(kQueryNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.k_norm, loader.norm_weight(kKeyNorm, layer));
  if (spec.query_key_norm != QueryKeyNorm::kNone && !spec.query_key_norm_weights) {
    const std::vector<float> ones(static_cast<std::size_t>(spec.head_dim), 1.0F);
    QUIRE_ASSIGN_OR_RETURN(weights.q_norm, loader.upload(ones));
    QUIRE_ASSIGN_OR_RETURN(weights.k_norm, loader.upload(ones));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.alibi_slopes, loader.upload(spec.alibi_slopes));
  QUIRE_ASSIGN_OR_RETURN(weights.sinks, loader.vector({kAttentionSinks}, layer));
  const auto ones = static_cast<std::size_t>(spec.has_normed_values() ? spec.head_dim : 0);
  QUIRE_ASSIGN_OR_RETURN(weights.v_norm, loader.upload(std::vector<float>(ones, 1.0F)));
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(kAttentionOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_bias, loader.vector({kAttentionBias}, layer));
  const auto epsilon = static_cast<float>(loader.spec().norm.epsilon);
  return AttentionBlock(shape_of(spec), epsilon, std::move(weights));
}

std::uint64_t block_arena_bytes(const AttentionSpec& spec, std::int64_t /*hidden_size*/,
                                std::int64_t rows) {
  return AttentionBlock::arena_bytes(shape_of(spec), rows);
}

Result<ShortConvBlock> load_block(const ShortConvSpec& spec, TensorLoader& loader,
                                  std::int64_t layer) {
  using enum TensorRole;
  ShortConvWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.input, loader.matrix(kShortConvInput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.input_bias, loader.vector({kShortConvInputBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.conv,
                         loader.rows(kShortConv, 0, loader.spec().hidden_size, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.conv_bias, loader.vector({kShortConvBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(kShortConvOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_bias, loader.vector({kShortConvOutputBias}, layer));
  return ShortConvBlock(static_cast<std::int32_t>(spec.taps), std::move(weights));
}

std::uint64_t block_arena_bytes(const ShortConvSpec& /*spec*/, std::int64_t hidden_size,
                                std::int64_t rows) {
  return ShortConvBlock::arena_bytes(hidden_size, rows);
}

Result<MlpBlock> load_block(const GatedMlpSpec& spec, TensorLoader& loader, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto weights, load_mlp(spec, loader, layer));
  return MlpBlock(spec.activation, std::move(weights));
}

std::uint64_t block_arena_bytes(const GatedMlpSpec& spec, std::int64_t /*hidden_size*/,
                                std::int64_t rows) {
  return MlpBlock::arena_bytes(spec.intermediate_size, rows);
}

Result<SparseMlpBlock> load_block(const SparseMlpSpec& spec, TensorLoader& loader,
                                  std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto weights, load_mlp(spec, loader, layer));
  return SparseMlpBlock(spec.activation, static_cast<float>(spec.deviations), std::move(weights));
}

std::uint64_t block_arena_bytes(const SparseMlpSpec& spec, std::int64_t /*hidden_size*/,
                                std::int64_t rows) {
  return SparseMlpBlock::arena_bytes(spec.intermediate_size, rows);
}

Result<PlainMlpBlock> load_block(const PlainMlpSpec& spec, TensorLoader& loader,
                                 std::int64_t layer) {
  using enum TensorRole;
  PlainMlpWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.up, loader.matrix(kUp, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.down, loader.matrix(kDown, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.up_bias, loader.vector({kUpBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.down_bias, loader.vector({kDownBias}, layer));
  if (spec.xielu_numbers) {
    weights.xielu = xielu_of(*spec.xielu_numbers);
  } else if (spec.xielu) {
    QUIRE_ASSIGN_OR_RETURN(const float alpha_p, loader.number(kXieluAlphaP, layer));
    QUIRE_ASSIGN_OR_RETURN(const float alpha_n, loader.number(kXieluAlphaN, layer));
    QUIRE_ASSIGN_OR_RETURN(const float beta, loader.number(kXieluBeta, layer));
    QUIRE_ASSIGN_OR_RETURN(const float epsilon, loader.number(kXieluEpsilon, layer));
    weights.xielu =
        xielu_of({.alpha_p = alpha_p, .alpha_n = alpha_n, .beta = beta, .epsilon = epsilon});
  }
  return PlainMlpBlock(spec.activation, std::move(weights));
}

std::uint64_t block_arena_bytes(const PlainMlpSpec& spec, std::int64_t /*hidden_size*/,
                                std::int64_t rows) {
  return PlainMlpBlock::arena_bytes(spec.intermediate_size, rows);
}

Result<MoeBlock> load_block(const MoeSpec& spec, TensorLoader& loader, std::int64_t layer) {
  using enum TensorRole;
  MoeWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.router, loader.router(kRouter, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.choice_bias, loader.vector({kRouterBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.router_bias, loader.vector({kRouterLogitBias}, layer));
  const ModelDevices& devices = loader.devices();
  weights.distant = devices.split.distant_experts(layer);
  loader.use(devices.of_experts(layer));
  QUIRE_ASSIGN_OR_RETURN(weights.experts, load_experts(spec, loader, layer));
  if (spec.biases) {
    const std::int64_t count = spec.num_experts;
    const bool apart = spec.tensors == ExpertTensors::kStacked;
    const TensorRole gates = apart ? kExpertGateBiases : kExpertGateUpBiases;
    const TensorRole ups = apart ? kExpertUpBiases : kExpertGateUpBiases;
    const TensorLoader::Columns all = {.count = spec.intermediate_size};
    QUIRE_ASSIGN_OR_RETURN(
        weights.gate_biases,
        loader.expert_vectors(gates, count, layer, apart ? all : gate_columns(spec)));
    QUIRE_ASSIGN_OR_RETURN(
        weights.up_biases,
        loader.expert_vectors(ups, count, layer, apart ? all : up_columns(spec)));
    QUIRE_ASSIGN_OR_RETURN(weights.down_biases,
                           loader.expert_vectors(kExpertDownBiases, count, layer,
                                                 {.count = loader.spec().hidden_size}));
  }
  loader.use(devices.of_layer(layer));
  if (spec.shared_intermediate_size != 0) {
    ExpertWeights& shared = weights.shared.emplace();
    QUIRE_RETURN_IF_ERROR(loader.check_shared_inputs({kSharedGate, kSharedUp}, layer));
    QUIRE_ASSIGN_OR_RETURN(shared.gate, loader.matrix(kSharedGate, layer));
    QUIRE_ASSIGN_OR_RETURN(shared.up, loader.matrix(kSharedUp, layer));
    QUIRE_ASSIGN_OR_RETURN(shared.down, loader.matrix(kSharedDown, layer));
  }
  if (spec.shared_gate) {
    QUIRE_ASSIGN_OR_RETURN(weights.shared_gate, loader.router(kSharedExpertGate, layer));
  }
  return MoeBlock(shape_of(spec, loader.spec().hidden_size), std::move(weights));
}

std::uint64_t block_arena_bytes(const MoeSpec& spec, std::int64_t hidden_size, std::int64_t rows) {
  return MoeBlock::arena_bytes(shape_of(spec, hidden_size), rows);
}

Result<PerLayerBlock> load_block(const PerLayerSpec& spec, TensorLoader& loader,
                                 std::int64_t layer) {
  using enum TensorRole;
  PerLayerWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.gate, loader.matrix(kPerLayerGate, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(kPerLayerOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.norm, loader.norm(kPerLayerOutputNorm, {}, layer));
  return PerLayerBlock(spec.activation, std::move(weights));
}

Result<AltUpBlock> load_block(const AltUpSpec& spec, TensorLoader& loader, std::int64_t layer) {
  using enum TensorRole;
  const std::int64_t streams = spec.num_streams;
  AltUpWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.router, loader.router(kAltUpRouter, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.router_norm, loader.norm(kAltUpRouterNorm, {}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.predict, loader.rows(kAltUpPredict, 0, streams * streams, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.correct, loader.rows(kAltUpCorrect, 0, streams, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.scale, loader.vector({kAltUpScale}, layer));
  return AltUpBlock(spec.active, std::move(weights));
}

Result<LaurelBlock> load_laurel(TensorLoader& loader, std::int64_t layer) {
  using enum TensorRole;
  LaurelWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.left, loader.matrix(kLaurelLeft, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.right, loader.matrix(kLaurelRight, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.norm, loader.norm(kLaurelNorm, {}, layer));
  return LaurelBlock(std::move(weights));
}

}  // namespace quire
