#include "models/smollm3.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr std::int64_t kDefaultInterval = 4;  // every fourth layer is without positions

// `no_rope_layers`, for each layer 1 where it has positions; else by `no_rope_layer_interval`.
Status read_positions(const JsonReader& config, std::vector<LayerSpec>& layers) {
  const json::value* list = config.find("no_rope_layers");
  QUIRE_ASSIGN_OR_RETURN(const auto interval, config.find_int("no_rope_layer_interval"));
  if (interval.value_or(kDefaultInterval) < 1) {
    return Status::bad_model(fmt::format("{}: no_rope_layer_interval is {}; expected 1 or more",
                                         config.where(), *interval));
  }
  if (list != nullptr && !list->is_array()) return config.type_error("no_rope_layers", "a list");
  if (list != nullptr && list->get_array().size() != layers.size()) {
    return Status::bad_model(fmt::format("{}: no_rope_layers has {} entries for {} layers",
                                         config.where(), list->get_array().size(), layers.size()));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bool turns = (static_cast<std::int64_t>(i) + 1) % interval.value_or(kDefaultInterval) != 0;
    if (list != nullptr) {
      const json::value& entry = list->get_array()[i];
      if (!entry.is_int64() || entry.get_int64() < 0 || entry.get_int64() > 1) {
        return config.type_error("no_rope_layers", "a list of 0 and 1");
      }
      turns = entry.get_int64() == 1;
    }
    if (!turns) layers[i].attention().rope = kNoRope;
  }
  return {};
}

}  // namespace

constexpr GgufForm kSmolLm3Gguf = {.architecture = "smollm3", .paired_rows = true};

Result<DecoderSpec> smollm3_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_sliding_window"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(const auto attention_bias, config.find_bool("attention_bias"));
  draft.attention.query_key_value_bias = attention_bias.value_or(false);
  draft.attention.output_bias = attention_bias.value_or(false);
  QUIRE_ASSIGN_OR_RETURN(const auto mlp_bias, config.find_bool("mlp_bias"));
  draft.mlp.bias = mlp_bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(read_positions(config, spec.layers));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding, read_layer_types(config, draft.num_layers));
  if (sliding && std::ranges::find(*sliding, true) != sliding->end()) {
    return unsupported(config.where(), "layer_types", "sliding_attention");
  }
  return std::move(spec);
}

}  // namespace quire
