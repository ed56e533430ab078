#include "models/dots1.h"

#include <utility>

#include "models/config_keys.h"
#include "models/deepseek_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// `layer_types`, else the layers from `max_window_layers` on where there is a window.
Status read_dots1_windows(const JsonReader& config, std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  QUIRE_ASSIGN_OR_RETURN(auto sliding, read_layer_types(config, std::ssize(layers)));
  QUIRE_ASSIGN_OR_RETURN(const auto first, config.find_int("max_window_layers"));
  if (!sliding) {
    sliding.emplace();
    for (std::int64_t i = 0; i < std::ssize(layers); ++i)
      sliding->push_back(window != 0 && i >= first.value_or(62));
  }
  return set_sliding_layers(config.where(), *sliding, {.window = window}, layers);
}

constexpr GgufKey kDots1Keys[] = {{"attention.sliding_window", "sliding_window"}};

}  // namespace

constexpr GgufForm kDots1Gguf = {.architecture = "dots1", .keys = kDots1Keys, .mixture = true};

Result<DecoderSpec> dots1_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kDeepseekTensorNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe,
                         read_deepseek_moe(config, {.intermediate_size = 1408}, draft));
  use_biased_sigmoids(moe);
  QUIRE_RETURN_IF_ERROR(
      make_deepseek_layers(config, 0, {.mixer = draft.attention, .feed_forward = moe}, draft));
  QUIRE_RETURN_IF_ERROR(read_dots1_windows(config, spec.layers));
  return std::move(spec);
}

}  // namespace quire
