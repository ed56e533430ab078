#include "plan/model_footprint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {
namespace {

// How a tensor is spread over devices.
enum class Spread : std::uint8_t { kWhole, kSplit, kByKvHeads, kQueryKeyValue };

Spread spread_of(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case kKey:
    case kValue:
    case kKeyBias:
    case kValueBias:
      return Spread::kByKvHeads;
    case kQueryKeyValue:
    case kQueryKeyValueBias:
      return Spread::kQueryKeyValue;
    case kEmbedding:
    case kOutput:
    case kOutputBias:
    case kPerLayerEmbedding:
    case kQuery:
    case kQueryBias:
    case kQueryUp:
    case kLatentUp:
    case kLatentKeys:
    case kLatentValues:
    case kAttentionOutput:
    case kAttentionSinks:
    case kGateUp:
    case kGate:
    case kUp:
    case kDown:
    case kGateBias:
    case kUpBias:
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
    case kSharedGate:
    case kSharedUp:
    case kSharedDown:
      return Spread::kSplit;
    default:
      return Spread::kWhole;
  }
}

bool is_expert(TensorRole role) {
  using enum TensorRole;
  return role == kExpertGate || role == kExpertUp || role == kExpertDown || role == kExpertGates ||
         role == kExpertUps || role == kExpertGateUps || role == kExpertDowns;
}

// Of which a step reads a row for each token.
bool is_table(TensorRole role) {
  using enum TensorRole;
  return role == kEmbedding || role == kPositions || role == kPerLayerEmbedding;
}

// What comes behind the layers.
bool is_at_the_end(TensorRole role) {
  using enum TensorRole;
  return role == kFinalNorm || role == kFinalNormBias || role == kOutput || role == kOutputBias;
}

// Matrices that no checkpoint quantizes: tables of tokens and what decides where a token goes.
bool stays_wide(TensorRole role) {
  using enum TensorRole;
  return is_table(role) || role == kOutput || role == kRouter || role == kSharedExpertGate ||
         role == kShortConv || role == kAltUpRouter || role == kAltUpPredict ||
         role == kAltUpCorrect || role == kExpertGateUpBiases || role == kExpertGateBiases ||
         role == kExpertUpBiases || role == kExpertDownBiases;
}

double numbers_of(const TensorShape& tensor) {
  double count = static_cast<double>(tensor.num_experts);
  for (const std::int64_t size : tensor.sizes) count *= static_cast<double>(size);
  return count;
}

// The share of a tensor that one device has.
double share_of(Spread spread, const LayerSpec* layer, int tp) {
  if (spread == Spread::kWhole) return 1;
  const double split = 1.0 / tp;
  if (spread == Spread::kSplit || layer == nullptr) return split;
  const KvHeads heads = layer->kv_heads();
  const double by_kv = 1.0 / static_cast<double>(std::min<std::int64_t>(tp, heads.num_kv_heads));
  if (spread == Spread::kByKvHeads) return by_kv;
  const auto queries = static_cast<double>(heads.num_heads);
  const double keys_and_values = 2.0 * static_cast<double>(heads.num_kv_heads);
  return (queries * split + keys_and_values * by_kv) / (queries + keys_and_values);
}

double bytes_of_number(const TensorShape& tensor, const NumberFormat& format) {
  const bool matrix = tensor.sizes.size() >= 2 && !stays_wide(tensor.role);
  return matrix ? format.bytes_per_weight() : format.other_bits / 8;
}

Status not_divided(int tp, std::string_view what, std::int64_t count) {
  std::vector<std::int64_t> fitting;
  for (std::int64_t each = 1; each <= std::min<std::int64_t>(count, 128); ++each) {
    if (count % each == 0) fitting.push_back(each);
  }
  return Status::invalid_argument(fmt::format("--tp {} does not divide {} {}", tp, count, what),
                                  fmt::format("use one of {}", fmt::join(fitting, ", ")));
}

Status check_layout(const DecoderSpec& spec, int tp) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.keeps_state() && tp > 1) {
      return Status::unimplemented(
          fmt::format("--tp {}: layers that keep a state of fixed size are not split", tp),
          "use --tp 1");
    }
    const KvHeads heads = layer.kv_heads();
    if (heads.num_heads % tp != 0) return not_divided(tp, "attention heads", heads.num_heads);
    if (!layer.keeps_state() && heads.num_kv_heads % tp != 0 && tp % heads.num_kv_heads != 0) {
      return not_divided(tp, "KV heads", heads.num_kv_heads);
    }
    if (layer.intermediate_size() % tp != 0) {
      return not_divided(tp, "columns of an MLP", layer.intermediate_size());
    }
    const MoeSpec* const moe = layer.moe();
    if (moe != nullptr && moe->shared_intermediate_size % tp != 0) {
      return not_divided(tp, "columns of the shared expert", moe->shared_intermediate_size);
    }
  }
  return {};
}

// A query's products with one key and one value, of the heads that one device has.
double flops_per_key(const LayerSpec& layer, int tp) {
  const KvHeads heads = layer.kv_heads();
  const double of_value =
      static_cast<double>(heads.latent_dims != 0 ? heads.latent_dims : heads.head_dim);
  return 2.0 * static_cast<double>(heads.num_heads) / tp *
         (static_cast<double>(heads.head_dim) + of_value);
}

std::int64_t widest_row_of(const DecoderSpec& spec, LayerRange range) {
  std::int64_t widest = 0;
  for (std::int64_t i = range.first; i < range.end; ++i) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(i)];
    const KvHeads heads = layer.kv_heads();
    const std::int64_t experts = layer.moe() == nullptr ? 1 : layer.moe()->experts_per_token;
    const std::int64_t of_conv = layer.keeps_state() ? 4 * spec.hidden_size : 0;
    widest = std::max({widest, of_conv, heads.num_heads * heads.head_dim + heads.width(),
                       2 * layer.intermediate_size() * experts});
  }
  return widest;
}

void count_layers(const DecoderSpec& spec, const FootprintOptions& options, LayerRange range,
                  ModelFootprint& footprint) {
  std::map<std::int32_t, KvFootprint> kv;
  std::map<std::int32_t, KeyWork> attention;
  KvFootprint states;
  for (std::int64_t i = range.first; i < range.end; ++i) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(i)];
    if (layer.keeps_state()) {
      ++states.num_layers;
      states.state_bytes += static_cast<double>(spec.state_bytes(i));
      continue;
    }
    const std::int32_t kept = layer.kv_window();
    const std::int32_t window = kept >= options.max_len ? 0 : kept;
    attention[window].window = window;
    attention[window].flops_per_key += flops_per_key(layer, options.tp);
    if (layer.kv_layer() != kOwnKeys) continue;
    KvFootprint& group = kv[window];
    group.window = window;
    ++group.num_layers;
    const KvHeads heads = layer.kv_heads();
    const auto parts = static_cast<double>(std::min<std::int64_t>(options.tp, heads.num_kv_heads));
    group.bytes_per_token += static_cast<double>(heads.width()) * options.kv_bytes / parts;
  }
  for (const auto& [window, group] : kv) footprint.kv.push_back(group);
  if (states.num_layers > 0) footprint.kv.push_back(states);
  for (const auto& [window, work] : attention) footprint.attention.push_back(work);
}

}  // namespace

double ModelFootprint::kv_bytes(std::int64_t tokens, std::int64_t block_size) const {
  double bytes = 0;
  for (const KvFootprint& group : kv) {
    // The state of the block that it is in, and of the one before.
    bytes += 2 * group.state_bytes;
    // Of a window the blocks that it lies in.
    const std::int64_t kept =
        group.window == 0 ? tokens : std::min<std::int64_t>(tokens, group.window + block_size);
    const std::int64_t blocks = (kept + block_size - 1) / block_size;
    bytes += group.bytes_per_token * static_cast<double>(blocks * block_size);
  }
  return bytes;
}

double ModelFootprint::kv_bytes_per_token() const {
  double bytes = 0;
  for (const KvFootprint& group : kv) bytes += group.bytes_per_token;
  return bytes;
}

double ModelFootprint::activation_bytes(std::int64_t rows, std::int64_t sequences) const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(2 * hidden_size + widest_row) +
         4.0 * static_cast<double>(sequences) * static_cast<double>(vocab_size);
}

std::uint64_t count_parameters(const DecoderSpec& spec) {
  double count = 0;  // exact below 2^53
  for (const TensorShape& tensor : spec.tensors()) count += numbers_of(tensor);
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const TensorShape& tensor : spec.layer_tensors(layer)) count += numbers_of(tensor);
  }
  return static_cast<std::uint64_t>(count);
}

Result<ModelFootprint> model_footprint(const DecoderSpec& spec, const FootprintOptions& options) {
  QUIRE_RETURN_IF_ERROR(check_layout(spec, options.tp));
  const LayerRange range = options.stage.value_or(LayerRange{.first = 0, .end = spec.num_layers()});
  const bool is_first = range.first == 0;
  const bool is_last = range.end == spec.num_layers();
  ModelFootprint footprint;
  footprint.parameters = count_parameters(spec);
  footprint.active_parameters = footprint.parameters - spec.idle_weights();
  footprint.num_layers = range.count();
  footprint.hidden_size = spec.hidden_size;
  footprint.vocab_size = is_last ? spec.vocab_size : 0;
  footprint.widest_row = widest_row_of(spec, range) / options.tp;
  const ExpertSizes experts = spec.experts();
  if (experts.num_experts > 0) {
    footprint.expert_share =
        static_cast<double>(experts.experts_per_row) / static_cast<double>(experts.num_experts);
  }
  const auto take = [&](const TensorShape& tensor, const LayerSpec* layer) {
    const double numbers = numbers_of(tensor);
    const double bytes = numbers * bytes_of_number(tensor, options.format);
    const double share = share_of(spread_of(tensor.role), layer, options.tp);
    footprint.all_weight_bytes += bytes;
    footprint.weight_bytes += bytes * share;
    const bool tied = tensor.role == TensorRole::kEmbedding && spec.tie_word_embeddings;
    const bool output = tensor.role == TensorRole::kOutput || (tied && is_last);
    if (output) {
      footprint.output_bytes += bytes * share;
      footprint.dense_bytes += bytes * share;
      footprint.flops_per_logits += 2 * numbers * share;
    } else if (is_expert(tensor.role)) {
      footprint.expert_bytes += bytes * share;
      footprint.flops_per_row += 2 * numbers * share * footprint.expert_share;
    } else if (!is_table(tensor.role)) {
      footprint.dense_bytes += bytes * share;
      if (tensor.sizes.size() >= 2) footprint.flops_per_row += 2 * numbers * share;
    }
  };
  for (const TensorShape& tensor : spec.tensors()) {
    const bool tied = tensor.role == TensorRole::kEmbedding && spec.tie_word_embeddings;
    const bool here = is_at_the_end(tensor.role) ? is_last : is_first || (tied && is_last);
    if (here) take(tensor, nullptr);
  }
  for (std::int64_t index = range.first; index < range.end; ++index) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
    for (const TensorShape& tensor : spec.layer_tensors(index)) take(tensor, &layer);
  }
  count_layers(spec, options, range, footprint);
  return footprint;
}

}  // namespace quire
