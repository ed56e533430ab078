// What the config.json of most families has in common: sizes under the same names, biases, layers
// with a sliding window, and values that change results and that no family here computes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "models/spec.h"

namespace quire {

// The names of Hugging Face's Llama, which Mistral and Qwen share.
extern const std::span<const TensorName> kLlamaTensorNames;

// "WHERE: KEY = VALUE changes results and is not supported".
Status unsupported(std::string_view where, std::string_view key, std::string_view value);

// What a family's published configurations may leave out.
struct ConfigDefaults {
  std::optional<std::int64_t> head_dim = {};  // else hidden_size / num_attention_heads
  bool tie_word_embeddings = false;
  std::string_view activation_key = "hidden_act";
  Activation activation = Activation::kSilu;
  bool gated_mlp = true;  // else activations are those of MLPs without a gate
  std::string_view norm_epsilon_key = "rms_norm_eps";
  std::optional<double> norm_epsilon = {};  // of families whose files have no such key
  // nullopt: heads of this family turn whole, and a configuration that says otherwise is refused.
  std::optional<double> partial_rotary_factor = {};
  // Of families that have them: `attn_logit_softcapping` and `final_logit_softcapping` where the
  // file has no such key; null is none.
  bool soft_caps = false;
  double attention_soft_cap = 0;
  double logit_soft_cap = 0;
};

// A draft with everything but biases and ropes, from keys that all families share; the scale of
// attention is the usual 1 / sqrt(head_dim). Errors: kBadModel for a key that is missing or of
// the wrong kind, kUnimplemented by name for a value that would change results: another activation,
// softcapping but in families that have it, bidirectional attention,
// pretraining_tp.
Result<DecoderDraft> read_common_config(const JsonReader& config, const ConfigDefaults& defaults);

// kUnimplemented where one of the boolean `keys` is true or one of the other `keys` is there at
// all.
Status refuse_keys(const JsonReader& config, std::initializer_list<std::string_view> keys);

// The configuration of a family of GPT's time, which has as many key-value heads as heads, with the
// usual keys beside its own: {own, usual}. Where none of its own stands for `intermediate_size`,
// that is four times `hidden_size`.
Result<json::object> with_usual_keys(
    const JsonReader& config,
    std::initializer_list<std::pair<std::string_view, std::string_view>> names);

// The boolean `key`, or `if_absent`.
Result<bool> read_flag(const JsonReader& config, std::string_view key, bool if_absent);

// The boolean `key`, or `if_absent`: whether queries, keys, values and the attention's output have
// biases.
Status read_attention_bias(const JsonReader& config, std::string_view key, bool if_absent,
                           AttentionSpec& attention);

// `layer_types`: true for each layer with a sliding window. nullopt if the key is absent.
Result<std::optional<std::vector<bool>>> read_layer_types(const JsonReader& config,
                                                          std::int64_t num_layers);

// A number for each layer, or one for all; nullopt where the key is absent.
Result<std::optional<std::vector<double>>> read_layer_numbers(const JsonReader& config,
                                                              std::string_view key,
                                                              std::int64_t num_layers);

// `clip_qkv`, which may be absent: AttentionSpec::qkv_limit.
Status read_qkv_limit(const JsonReader& config, AttentionSpec& attention);

// Which layers have a sliding window: true for all but every `pattern`th.
std::vector<bool> sliding_by_pattern(std::int64_t num_layers, std::int64_t pattern);

// `layer_types`; where it is absent, by `sliding_window_pattern`, or by the pattern that the family
// has where that is absent, too.
Result<std::vector<bool>> read_sliding_layers(const JsonReader& config, std::int64_t num_layers,
                                              std::int64_t default_pattern);

// What sets the layers with a sliding window apart from those that see all keys.
struct SlidingLayers {
  std::int32_t window = 0;
  std::int32_t full_rope = 0;  // AttentionSpec::rope
  std::int32_t sliding_rope = 0;
};

// kBadModel if a layer slides and there is no window.
Status set_sliding_layers(std::string_view where, const std::vector<bool>& sliding,
                          const SlidingLayers& kinds, std::vector<LayerSpec>& layers);

// `sliding_window` as the number of keys that a query sees, or 0 where it is null;
// `if_absent` where the key is not there.
Result<std::int32_t> read_sliding_window(const JsonReader& config, std::int32_t if_absent);

}  // namespace quire
