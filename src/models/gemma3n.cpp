#include "models/gemma3n.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gemma_layers.h"
#include "models/rope_config.h"
#include "models/size_check.h"

namespace quire {
namespace {

constexpr std::int64_t kGemma3nPattern = 5;  // every fifth layer sees all keys
constexpr std::int64_t kDefaultSharedLayers = 15;
constexpr std::int64_t kDefaultStreams = 4;
constexpr std::int64_t kDefaultLaurelRank = 64;
constexpr std::int64_t kDefaultSparseLayers = 10;  // of models with more layers
constexpr double kDefaultSparsity = 0.95;

// x of which a share `share` of the standard normal distribution is below, above 0 and below 1.
double normal_quantile(double share) {
  constexpr double kRootOfTwoPi = 2.5066282746310005024;
  double x = 0.0;
  // Newton's method from the inflection point, which approaches from one side.
  for (int i = 0; i < 100; ++i) {
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    x -= (below - share) * kRootOfTwoPi * std::exp(0.5 * x * x);
  }
  return x;
}

// How far above the mean gates open, in standard deviations: of each layer, minus infinity where
// all are open. config.json says which share of them stays closed, GGUF says the distance.
Result<std::vector<double>> read_deviations(const JsonReader& config, std::int64_t num_layers) {
  QUIRE_ASSIGN_OR_RETURN(auto said,
                         read_layer_numbers(config, "activation_sparsity_scale", num_layers));
  if (said) return *std::move(said);
  constexpr std::string_view kShares = "activation_sparsity_pattern";
  QUIRE_ASSIGN_OR_RETURN(auto shares, read_layer_numbers(config, kShares, num_layers));
  if (!shares) {
    shares.emplace(static_cast<std::size_t>(num_layers), 0.0);
    const std::int64_t sparse = num_layers > kDefaultSparseLayers ? kDefaultSparseLayers : 0;
    std::fill_n(shares->begin(), sparse, kDefaultSparsity);
  }
  for (double& share : *shares) {
    if (!(share >= 0 && share < 1)) {
      return Status::bad_model(fmt::format("{}: {}: a share of {}; expected 0 to below 1",
                                           config.where(), kShares, share));
    }
    share = share == 0 ? -HUGE_VAL : normal_quantile(share);
  }
  return *std::move(shares);
}

// Which MLPs have sparse gates.
Status set_gates(const JsonReader& config, DecoderSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const auto deviations, read_deviations(config, spec.num_layers()));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (deviations[i] == -HUGE_VAL) continue;
    const GatedMlpSpec mlp = std::get<GatedMlpSpec>(spec.layers[i].feed_forward);
    spec.layers[i].feed_forward = SparseMlpSpec{mlp, deviations[i]};
  }
  return {};
}

Status read_streams(const JsonReader& config, DecoderSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const auto streams, config.find_int("altup_num_inputs"));
  QUIRE_ASSIGN_OR_RETURN(const auto active, config.find_int("altup_active_idx"));
  QUIRE_ASSIGN_OR_RETURN(const bool scaled, read_flag(config, "altup_correct_scale", true));
  spec.altup = {.num_streams = streams.value_or(kDefaultStreams),
                .active = active.value_or(0),
                .scaled = scaled};
  if (spec.altup.num_streams == 0) {  // else validate() says
    return Status::bad_model(
        fmt::format("{}: altup_num_inputs is 0; expected 2 or more", config.where()));
  }
  for (std::int64_t i = 0; !scaled && i < spec.num_layers(); ++i) {
    spec.unread_tensors.push_back(spec.names.name(TensorRole::kAltUpScale, i));
  }
  return {};
}

constexpr GgufKey kGemma3nKeys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    {"altup.num_inputs", "altup_num_inputs"},
    {"altup.active_idx", "altup_active_idx"},
    {"activation_sparsity_scale", "activation_sparsity_scale"},
};

}  // namespace

constexpr GgufForm kGemma3nGguf = {.architecture = "gemma3n", .keys = kGemma3nKeys};

Result<DecoderSpec> gemma3n_from_config(const JsonReader& whole) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(whole, {"mlp_bias", "attn_logit_softcapping"}));
  const json::object object = with_first_numbers(whole);
  const JsonReader config(object, whole.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.head_dim = 256,
                                                     .tie_word_embeddings = true,
                                                     .activation_key = "hidden_activation",
                                                     .activation = Activation::kGeluTanh,
                                                     .soft_caps = true,
                                                     .logit_soft_cap = 30.0}));
  DecoderSpec& spec = draft.spec;
  QUIRE_RETURN_IF_ERROR(set_normed_heads(config, draft));
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rope_theta"));
  QUIRE_ASSIGN_OR_RETURN(const auto local_theta, config.find_double("rope_local_base_freq"));
  QUIRE_RETURN_IF_ERROR(read_ropes_by_layer(
      config, draft.rotary_dim,
      {.full_theta = theta.value_or(1e6), .sliding_theta = local_theta.value_or(10000.0)}, spec));
  QUIRE_ASSIGN_OR_RETURN(spec.per_layer, read_per_layer(config, draft.mlp.activation));
  QUIRE_ASSIGN_OR_RETURN(const auto said_rank, config.find_int("laurel_rank"));
  const std::int64_t rank = said_rank.value_or(kDefaultLaurelRank);
  QUIRE_RETURN_IF_ERROR(check_sizes(config.where(), {{"laurel_rank", rank}}));

  draft.make_layers({.mixer = draft.attention,
                     .feed_forward = draft.mlp,
                     .norms = NormPlacement::kAround,
                     .laurel_rank = rank});
  QUIRE_RETURN_IF_ERROR(set_mlp_sizes(whole, spec.layers));
  QUIRE_RETURN_IF_ERROR(set_gates(config, spec));
  QUIRE_RETURN_IF_ERROR(read_streams(config, spec));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, draft.num_layers, kGemma3nPattern));
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 512));
  QUIRE_RETURN_IF_ERROR(set_sliding_layers(
      config.where(), sliding,
      {.window = window, .full_rope = kFullRope, .sliding_rope = kSlidingRope}, spec.layers));
  QUIRE_RETURN_IF_ERROR(share_keys(config, sliding, kDefaultSharedLayers, spec));
  return std::move(spec);
}

}  // namespace quire
