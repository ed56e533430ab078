#include "plan/weight_plan.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_set>

#include "kernels/sizing.h"

namespace quire {
namespace {

std::int64_t order_bytes(const TensorInfo& tensor) {
  return static_cast<std::int64_t>(tensor.input_order.size_bytes());
}

// Query, key and value projections are packed as one where their encodings agree: the bytes of
// padding that they then do without. Fewer than none where the keys' matrix serves as the values'.
std::int64_t shared_padding(const DecoderSpec& spec, const WeightSource& source,
                            LoadQuantization quantization, std::int64_t layer) {
  const auto packed = [&](const TensorInfo& like, std::int64_t outputs) {
    return static_cast<std::int64_t>(packed_weight_bytes(like.encoding, outputs, like.shape[1],
                                                         quantization, /*vocabulary=*/false));
  };
  const AttentionSpec* const attention =
      spec.layers[static_cast<std::size_t>(layer)].plain_attention();
  if (attention == nullptr) return 0;  // latent: no three matrices
  if (attention->kv_layer != kOwnKeys) return 0;
  const TensorRole value = attention->values_are_keys ? TensorRole::kKey : TensorRole::kValue;
  std::int64_t apart = 0;
  std::int64_t outputs = 0;
  const TensorInfo* first = nullptr;
  bool alike = true;
  for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, value}) {
    const TensorInfo* tensor = source.find(spec.names.name(role, layer));
    if (tensor == nullptr || tensor->shape.size() != 2) return 0;
    if (first == nullptr) first = tensor;
    // Those that cannot be stacked are packed apart.
    const bool stacks = tensor->encoding != Encoding::kF8Block128 || tensor->shape[0] % 16 == 0;
    alike = alike && stacks && tensor->encoding == first->encoding &&
            tensor->shape[1] == first->shape[1];
    apart += packed(*tensor, tensor->shape[0]) + order_bytes(*tensor);
    outputs += tensor->shape[0];
  }
  const TensorInfo& key = *source.find(spec.names.name(TensorRole::kKey, layer));
  const std::int64_t twice =
      attention->values_are_keys ? packed(key, key.shape[0]) + order_bytes(key) : 0;
  return (alike ? apart - packed(*first, outputs) - order_bytes(*first) : 0) - twice;
}

// Gate and up projections that lie in the file as one, of an MLP (kGateUp) or of each expert
// (kExpertGateUps), are packed as two: the bytes of padding that they then need.
std::uint64_t split_padding(TensorRole role, const DecoderSpec& spec, const WeightSource& source,
                            LoadQuantization quantization, std::int64_t layer) {
  const std::string name = spec.names.name(role, layer);
  const TensorInfo* tensor = name.empty() ? nullptr : source.find(name);
  const std::size_t dims = role == TensorRole::kGateUp ? 2 : 3;
  if (tensor == nullptr || tensor->shape.size() != dims) return 0;
  const LayerSpec& owner = spec.layers[static_cast<std::size_t>(layer)];
  const auto* const mlp = std::get_if<GatedMlpSpec>(&owner.feed_forward);
  if (dims == 2 && (mlp == nullptr || !mlp->fused_gate_up)) return 0;
  if (owner.moe() != nullptr && owner.moe()->turned()) return 0;
  const std::int64_t rows = tensor->shape[dims - 2];
  const auto packed = [&](std::int64_t outputs) {
    return packed_weight_bytes(tensor->encoding, outputs, tensor->shape[dims - 1], quantization,
                               /*vocabulary=*/false);
  };
  const auto count = static_cast<std::uint64_t>(dims == 2 ? 1 : tensor->shape[0]);
  return count * (2 * packed(rows / 2) - packed(rows)) +
         static_cast<std::uint64_t>(order_bytes(*tensor));
}

// What keys and values of latent attention are made with is packed as two matrices for each head:
// the bytes that this costs.
std::uint64_t head_padding(const LayerSpec& layer, const DecoderSpec& spec,
                           const WeightSource& source, LoadQuantization quantization,
                           std::int64_t index) {
  const LatentAttentionSpec* const latent = layer.latent_attention();
  if (latent == nullptr) return 0;
  const TensorInfo* const tensor = source.find(spec.names.name(TensorRole::kLatentUp, index));
  if (tensor == nullptr) return 0;
  const auto packed = [&](std::int64_t outputs, std::int64_t inputs) {
    return packed_weight_bytes(tensor->encoding, outputs, inputs, quantization,
                               /*vocabulary=*/false);
  };
  return static_cast<std::uint64_t>(latent->num_heads) *
             (packed(latent->latent_dims, latent->key_dims) +
              packed(latent->value_dims, latent->latent_dims)) -
         packed(tensor->shape[0], tensor->shape[1]);
}

// What the matrices of experts whose rows are inputs need, and what their biases need as floats,
// less what both would need as matrices as they are.
std::uint64_t turned_bytes(const DecoderSpec& spec, const WeightSource& source,
                           LoadQuantization quantization, std::int64_t layer) {
  const MoeSpec* const moe = spec.layers[static_cast<std::size_t>(layer)].moe();
  if (moe == nullptr) return 0;
  using enum TensorRole;
  std::uint64_t bytes = 0;
  for (const TensorRole role : {kExpertGateUps, kExpertDowns}) {
    const TensorInfo* tensor = moe->turned() ? source.find(spec.names.name(role, layer)) : nullptr;
    if (tensor == nullptr || tensor->shape.size() != 3) continue;
    const auto packed = [&](std::int64_t outputs, std::int64_t inputs) {
      return static_cast<std::uint64_t>(tensor->shape[0]) *
             packed_weight_bytes(tensor->encoding, outputs, inputs, quantization,
                                 /*vocabulary=*/false);
    };
    const std::int64_t matrices = role == kExpertGateUps ? 2 : 1;
    bytes += static_cast<std::uint64_t>(matrices) *
             packed(tensor->shape[2] / matrices, tensor->shape[1]);
    bytes -= packed(tensor->shape[1], tensor->shape[2]);
  }
  for (const TensorRole role :
       {kExpertGateUpBiases, kExpertGateBiases, kExpertUpBiases, kExpertDownBiases}) {
    const TensorInfo* tensor = moe->biases ? source.find(spec.names.name(role, layer)) : nullptr;
    if (tensor == nullptr || tensor->shape.size() != 2) continue;
    bytes += static_cast<std::uint64_t>(tensor->shape[0] * tensor->shape[1]) * sizeof(float);
    bytes -= packed_weight_bytes(tensor->encoding, tensor->shape[0], tensor->shape[1], quantization,
                                 /*vocabulary=*/false);
  }
  return bytes;
}

// What decides where a token goes is never quantized at load, and a bias is no matrix even where
// the file has it as one: the bytes that this costs.
std::uint64_t router_bytes(const DecoderSpec& spec, const WeightSource& source,
                           LoadQuantization quantization, std::int64_t layer) {
  std::uint64_t bytes = 0;
  for (const TensorRole role :
       {TensorRole::kRouter, TensorRole::kSharedExpertGate, TensorRole::kAltUpRouter}) {
    const std::string name = spec.names.name(role, layer);
    const TensorInfo* tensor = name.empty() ? nullptr : source.find(name);
    if (tensor == nullptr || tensor->shape.empty() || tensor->shape.size() > 2) continue;
    const bool is_row = tensor->shape.size() == 1;
    const auto packed = [&](LoadQuantization as) {
      return packed_weight_bytes(tensor->encoding, is_row ? 1 : tensor->shape[0],
                                 tensor->shape.back(), as, /*vocabulary=*/false);
    };
    const std::uint64_t planned = is_row
                                      ? static_cast<std::uint64_t>(tensor->shape[0]) * sizeof(float)
                                      : packed(quantization);
    bytes += packed(LoadQuantization::kNone) - planned;
  }
  const std::string name = spec.names.name(TensorRole::kRouterBias, layer);
  const TensorInfo* bias = name.empty() ? nullptr : source.find(name);
  if (bias != nullptr && bias->shape.size() == 2) {
    bytes += static_cast<std::uint64_t>(bias->shape[1]) * sizeof(float) -
             packed_weight_bytes(bias->encoding, bias->shape[0], bias->shape[1], quantization,
                                 /*vocabulary=*/false);
  }
  return bytes;
}

bool is_of_experts(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case kExpertGate:
    case kExpertUp:
    case kExpertDown:
    case kExpertGates:
    case kExpertUps:
    case kExpertGateUps:
    case kExpertDowns:
    case kExpertGateUpBiases:
    case kExpertGateBiases:
    case kExpertUpBiases:
    case kExpertDownBiases:
      return true;
    default:
      return false;
  }
}

bool is_before_layers(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case kEmbedding:
    case kEmbeddingNorm:
    case kEmbeddingNormBias:
    case kPerLayerEmbedding:
    case kPerLayerProjection:
    case kPerLayerProjectionNorm:
    case kAltUpProjections:
      return true;
    default:
      return false;
  }
}

// Tensors whose weights are the host's.
std::unordered_set<std::string> host_tensors(const DecoderSpec& spec, const LayerSplit& split) {
  std::unordered_set<std::string> names;
  const auto add = [&](const TensorShape& tensor, std::int64_t layer) {
    for (std::int64_t expert = 0; expert < tensor.num_experts; ++expert) {
      names.insert(spec.names.name(tensor.role, layer, expert));
    }
  };
  for (const TensorShape& tensor : spec.tensors()) {
    if (split.host_layers > 0 && is_before_layers(tensor.role)) add(tensor, 0);
  }
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    if (!split.experts_on_host(layer)) continue;
    for (const TensorShape& tensor : spec.layer_tensors(layer)) {
      if (split.on_host(layer) || is_of_experts(tensor.role)) add(tensor, layer);
    }
  }
  return names;
}

// As what a token's number is looked up in, or what logits are made with.
std::uint64_t vocabulary_bytes(const TensorInfo& tensor, std::int64_t rows,
                               LoadQuantization quantization) {
  return packed_weight_bytes(tensor.encoding, rows, tensor.shape[1], quantization,
                             /*vocabulary=*/true) +
         static_cast<std::uint64_t>(order_bytes(tensor));
}

}  // namespace

SplitBytes planned_weight_bytes(const DecoderSpec& spec, const WeightSource& source,
                                std::int64_t max_positions, LoadQuantization quantization,
                                const LayerSplit& split) {
  SplitBytes all = spec.computed_bytes(max_positions, split);
  const std::string embedding = spec.names.name(TensorRole::kEmbedding);
  const std::string output = spec.names.name(TensorRole::kOutput);
  const std::string per_layer = spec.names.name(TensorRole::kPerLayerEmbedding);
  // Rows of these are numbers, which computed_bytes() has.
  std::unordered_set<std::string> numbers = {spec.names.name(TensorRole::kPositions)};
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const TensorRole role :
         {TensorRole::kShortConv, TensorRole::kAltUpPredict, TensorRole::kAltUpCorrect}) {
      numbers.insert(spec.names.name(role, layer));
    }
  }
  const std::unordered_set<std::string> of_host = host_tensors(spec, split);
  for (const TensorInfo& tensor : source.tensors()) {
    // Where embeddings are tied, some files repeat them; they are not loaded.
    if (spec.tie_word_embeddings && tensor.name == output) continue;
    if (spec.is_unread(tensor.name)) continue;
    if (numbers.contains(tensor.name)) continue;
    std::uint64_t& bytes = of_host.contains(tensor.name) ? all.host : all.main;
    if (tensor.shape.size() == 2) {
      const bool vocabulary =
          tensor.name == embedding || tensor.name == output || tensor.name == per_layer;
      if (vocabulary) {
        // Tokens without an embedding for the layers have the first token's.
        const std::int64_t rows =
            tensor.name == per_layer ? std::max(tensor.shape[0], spec.vocab_size) : tensor.shape[0];
        bytes += vocabulary_bytes(tensor, rows, quantization);
        continue;
      }
      const std::size_t outputs = spec.transposed_matrices ? 1 : 0;
      bytes += packed_weight_bytes(tensor.encoding, tensor.shape[outputs],
                                   tensor.shape[1 - outputs], quantization,
                                   /*vocabulary=*/false) +
               static_cast<std::uint64_t>(order_bytes(tensor));
    } else if (tensor.shape.size() == 3) {  // a matrix of each expert
      bytes += static_cast<std::uint64_t>(tensor.shape[0]) *
               packed_weight_bytes(tensor.encoding, tensor.shape[1], tensor.shape[2], quantization,
                                   /*vocabulary=*/false);
    } else if (tensor.shape.size() < 2) {
      const std::int64_t count = tensor.shape.empty() ? 1 : tensor.shape[0];
      bytes += static_cast<std::uint64_t>(count) * sizeof(float);
    }
  }
  if (split.host_layers > 0 && spec.tie_word_embeddings) {  // then it is there twice
    const TensorInfo* const tensor = source.find(embedding);
    if (tensor != nullptr) all.main += vocabulary_bytes(*tensor, tensor->shape[0], quantization);
  }
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    std::uint64_t& bytes = split.on_host(layer) ? all.host : all.main;
    bytes -= static_cast<std::uint64_t>(shared_padding(spec, source, quantization, layer));
    bytes += split_padding(TensorRole::kGateUp, spec, source, quantization, layer);
    bytes += router_bytes(spec, source, quantization, layer);
    bytes += head_padding(spec.layers[static_cast<std::size_t>(layer)], spec, source, quantization,
                          layer);
    std::uint64_t& of_experts = split.experts_on_host(layer) ? all.host : all.main;
    of_experts += split_padding(TensorRole::kExpertGateUps, spec, source, quantization, layer);
    of_experts += turned_bytes(spec, source, quantization, layer);
  }
  return all;
}

}  // namespace quire
