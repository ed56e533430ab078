#include "load/model_facts.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "load/model_bundle.h"

namespace quire {
namespace {

std::int64_t elements_of(const TensorInfo& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

std::vector<EncodingTotal> encoding_totals(const DecoderSpec& spec, const WeightSource& weights) {
  std::map<std::string, EncodingTotal> totals;
  for (const TensorInfo& tensor : weights.tensors()) {
    if (spec.is_unread(tensor.name)) continue;
    const std::string name(tensor.format_name());
    EncodingTotal& total = totals[name];
    total.encoding = name;
    ++total.tensors;
    total.elements += elements_of(tensor);
    total.bytes += tensor.bytes();
  }
  std::vector<EncodingTotal> list;
  for (const auto& [name, total] : totals) list.push_back(total);
  return list;
}

std::optional<double> rope_theta_of(const DecoderSpec& spec) {
  if (spec.ropes.empty()) return std::nullopt;
  return spec.ropes.front().theta;
}

}  // namespace

ModelFacts model_facts(const ModelBundle& bundle) {
  const DecoderSpec& spec = bundle.spec;
  const ExpertSizes experts = spec.experts();
  const KvHeads heads = spec.kv_heads();
  std::vector<EncodingTotal> encodings = encoding_totals(spec, *bundle.weights);
  std::uint64_t weights = 0;
  for (const EncodingTotal& total : encodings)
    weights += static_cast<std::uint64_t>(total.elements);
  return {.num_layers = spec.num_layers(),
          .intermediate_size = spec.layers.front().intermediate_size(),
          .num_heads = heads.num_heads,
          .num_kv_heads = heads.num_kv_heads,
          .head_dim = heads.head_dim,
          .latent_dims = heads.latent_dims,
          .max_position_embeddings = spec.max_position_embeddings,
          .rope_theta = rope_theta_of(spec),
          .tie_word_embeddings = spec.tie_word_embeddings,
          .chat_template = bundle.text.chat_template.has_value(),
          .num_moe_layers = std::ranges::count_if(
              spec.layers, [](const LayerSpec& layer) { return layer.moe() != nullptr; }),
          .num_experts = experts.num_experts,
          .experts_per_token = experts.experts_per_row,
          .expert_size = experts.intermediate_size,
          .active_weights = weights - spec.idle_weights(),
          .num_streams = spec.altup.num_streams,
          .laurel_rank = spec.layers.front().laurel_rank,
          .per_layer_width = spec.per_layer.width,
          .num_sparse_layers = std::ranges::count_if(spec.layers,
                                                     [](const LayerSpec& layer) {
                                                       return std::holds_alternative<SparseMlpSpec>(
                                                           layer.feed_forward);
                                                     }),
          .num_shared_layers = std::ranges::count_if(
              spec.layers, [](const LayerSpec& layer) { return layer.kv_layer() != kOwnKeys; }),
          .encodings = std::move(encodings)};
}

}  // namespace quire
