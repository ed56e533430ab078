#include "models/qwen.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// `use_sliding_window` turns windows on: in the layers that `layer_types` names, else in those from
// `max_window_layers` on.
Status read_windows(const JsonReader& config, std::vector<LayerSpec>& layers) {
  std::int32_t window = 0;
  QUIRE_ASSIGN_OR_RETURN(const auto use_window, config.find_bool("use_sliding_window"));
  if (use_window.value_or(false)) {
    QUIRE_ASSIGN_OR_RETURN(window, read_sliding_window(config, 4096));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto types, read_layer_types(config, std::ssize(layers)));
  QUIRE_ASSIGN_OR_RETURN(const auto first, config.find_int("max_window_layers"));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool sliding =
        types ? (*types)[i] : window != 0 && static_cast<std::int64_t>(i) >= first.value_or(28);
    if (!sliding) continue;
    if (window == 0) {
      return Status::bad_model(
          fmt::format("{}: layer_types has sliding_attention, but use_sliding_window is false or "
                      "sliding_window is null",
                      config.where()));
    }
    layers[i].attention().window = window;
  }
  return {};
}

Result<DecoderDraft> draft_from_config(const JsonReader& config, const ConfigDefaults& defaults) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, defaults));
  draft.spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, draft.spec));
  return draft;
}

Result<DecoderSpec> finish(const JsonReader& config, DecoderDraft draft) {
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(read_windows(config, draft.spec.layers));
  return std::move(draft.spec);
}

// The text parts of those that see images: a text's positions are the usual ones.
constexpr GgufForm kQwen2VlGguf = {.architecture = "qwen2vl"};
constexpr GgufForm kQwen3VlGguf = {.architecture = "qwen3vl"};

}  // namespace

constexpr GgufForm kQwen2Gguf = {.architecture = "qwen2", .also = &kQwen2VlGguf};

constexpr GgufForm kQwen3Gguf = {.architecture = "qwen3", .also = &kQwen3VlGguf};

Result<DecoderSpec> qwen2_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_from_config(config, {}));
  draft.attention.query_key_value_bias = true;
  return finish(config, std::move(draft));
}

Result<DecoderSpec> qwen3_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_from_config(config, {.head_dim = 128}));
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  return finish(config, std::move(draft));
}

}  // namespace quire
