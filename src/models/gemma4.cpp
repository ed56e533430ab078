#include "models/gemma4.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gemma_layers.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr std::int64_t kGemma4Pattern = 6;  // every sixth layer sees all keys, and the last

RopeSpec default_rope(std::int64_t head_dim, double theta) {
  RopeSpec spec;
  spec.rotary_dim = static_cast<std::int32_t>(head_dim);
  spec.theta = theta;
  return spec;
}

// The rotary positions of one kind of layers; `kind` in rope_parameters.
Result<RopeSpec> read_rope_of(const JsonReader& config, std::string_view kind,
                              std::int64_t head_dim, const RopeSpec& if_absent) {
  if (!config.contains("rope_parameters")) return if_absent;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader ropes, config.get_object("rope_parameters"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, ropes.get_object(kind));
  QUIRE_ASSIGN_OR_RETURN(const auto type, rope.find_string("rope_type"));
  if (type.value_or("default") != "proportional") {
    QUIRE_RETURN_IF_ERROR(refuse_partial_rotary(rope));
    return read_rope_object(rope, config, head_dim, if_absent.theta);
  }
  RopeSpec spec = default_rope(head_dim, if_absent.theta);
  spec.scaling = RopeScaling::kProportional;
  QUIRE_ASSIGN_OR_RETURN(const auto theta, rope.find_double("rope_theta"));
  QUIRE_ASSIGN_OR_RETURN(const auto factor, rope.find_double("factor"));
  QUIRE_ASSIGN_OR_RETURN(const auto share, rope.find_double("partial_rotary_factor"));
  spec.theta = theta.value_or(spec.theta);
  spec.factor = factor.value_or(1.0);
  if (!(share.value_or(1.0) >= 0 && share.value_or(1.0) <= 1)) {
    return Status::bad_model(
        fmt::format("{}: partial_rotary_factor is {}; expected 0 to 1", rope.where(), *share));
  }
  const double turning = std::floor(share.value_or(1.0) * static_cast<double>(head_dim) / 2);
  spec.turning_pairs = static_cast<std::int32_t>(turning);
  return spec;
}

// The heads of the layers that see all keys: `global_head_dim` and `num_global_key_value_heads`,
// or, as later files have it, an object for each of these layers.
Result<AttentionSpec> read_wide(const JsonReader& config, const std::vector<bool>& sliding,
                                const AttentionSpec& narrow) {
  AttentionSpec wide = narrow;
  QUIRE_ASSIGN_OR_RETURN(wide.values_are_keys, read_flag(config, "attention_k_eq_v", false));
  QUIRE_ASSIGN_OR_RETURN(const auto head_dim, config.find_int("global_head_dim"));
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, config.find_int("num_global_key_value_heads"));
  wide.head_dim = head_dim.value_or(512);
  if (wide.values_are_keys) wide.num_kv_heads = kv_heads.value_or(narrow.num_kv_heads);
  if (!config.contains("per_layer_config")) return wide;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader layers, config.get_object("per_layer_config"));
  std::optional<AttentionSpec> said;
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    const std::string index = fmt::format("{}", i);
    AttentionSpec heads = narrow;
    if (layers.contains(index)) {
      QUIRE_ASSIGN_OR_RETURN(const JsonReader layer, layers.get_object(index));
      for (const auto& item : layer.object()) {
        if (item.key() == "head_dim" || item.key() == "num_key_value_heads") continue;
        return unsupported(layer.where(), item.key(), json::serialize(item.value()));
      }
      QUIRE_ASSIGN_OR_RETURN(const auto size, layer.find_int("head_dim"));
      QUIRE_ASSIGN_OR_RETURN(const auto number, layer.find_int("num_key_value_heads"));
      heads.head_dim = size.value_or(narrow.head_dim);
      heads.num_kv_heads = number.value_or(narrow.num_kv_heads);
    }
    if (sliding[i] ? heads != narrow : said.value_or(heads) != heads) {
      return unsupported(layers.where(), index,
                         "heads that differ from those of layers of its kind");
    }
    if (!sliding[i]) said = heads;
  }
  wide.head_dim = said.value_or(wide).head_dim;
  wide.num_kv_heads = said.value_or(wide).num_kv_heads;
  return wide;
}

// The layers that have keys of their own are the narrow ones.
Status widen_mlps(const JsonReader& config, std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const bool wide_mlp, read_flag(config, "use_double_wide_mlp", false));
  for (LayerSpec& layer : layers) {
    if (!wide_mlp || layer.kv_layer() == kOwnKeys) continue;
    std::get<GatedMlpSpec>(layer.feed_forward).intermediate_size *= 2;
  }
  return {};
}

// GGUF has the number of key-value heads of each layer; layers of a kind have as many.
Status read_kv_heads(const JsonReader& config, const std::vector<bool>& sliding,
                     AttentionSpec& narrow, AttentionSpec& wide) {
  constexpr std::string_view kHeads = "num_key_value_heads";
  const json::value* const value = config.find(kHeads);
  if (value == nullptr || !value->is_array()) return {};
  QUIRE_ASSIGN_OR_RETURN(const auto heads, read_layer_numbers(config, kHeads, std::ssize(sliding)));
  std::optional<double> of_kind[2];
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    std::optional<double>& known = of_kind[sliding[i] ? 1 : 0];
    const double count = heads->at(i);
    if (!(count >= 1 && count <= 1 << 16 && count == std::floor(count)) ||
        known.value_or(count) != count) {
      return config.type_error(kHeads, "a whole number that layers of a kind have alike");
    }
    known = count;
  }
  if (of_kind[0]) wide.num_kv_heads = static_cast<std::int64_t>(*of_kind[0]);
  if (of_kind[1]) narrow.num_kv_heads = static_cast<std::int64_t>(*of_kind[1]);
  return {};
}

constexpr GgufKey kGemma4Keys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"attention.key_length_swa", "head_dim"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
};

}  // namespace

constexpr GgufForm kGemma4Gguf = {
    .architecture = "gemma4", .keys = kGemma4Keys, .values_may_be_keys = true};

Result<DecoderSpec> gemma4_from_config(const JsonReader& whole) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(whole, {"mlp_bias", "enable_moe_block"}));
  // Of images alone.
  json::object object = with_first_numbers(whole);
  QUIRE_ASSIGN_OR_RETURN(const auto bidirectional,
                         whole.find_string("use_bidirectional_attention"));
  if (bidirectional.value_or("") == "vision") object.erase("use_bidirectional_attention");
  const JsonReader config(object, whole.where());

  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.head_dim = 256,
                                                     .tie_word_embeddings = true,
                                                     .activation_key = "hidden_activation",
                                                     .activation = Activation::kGeluTanh,
                                                     .partial_rotary_factor = 1.0,
                                                     .soft_caps = true}));
  DecoderSpec& spec = draft.spec;
  QUIRE_RETURN_IF_ERROR(set_normed_heads(config, draft));

  QUIRE_ASSIGN_OR_RETURN(auto sliding,
                         read_sliding_layers(config, draft.num_layers, kGemma4Pattern));
  sliding.back() = false;  // whatever the file says
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 512));
  QUIRE_ASSIGN_OR_RETURN(AttentionSpec wide, read_wide(config, sliding, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_kv_heads(whole, sliding, draft.attention, wide));
  QUIRE_RETURN_IF_ERROR(draft.attention.validate_sizes(config.where()));
  QUIRE_RETURN_IF_ERROR(wide.validate_sizes(config.where()));
  RopeSpec full = default_rope(wide.head_dim, 1e6);
  full.scaling = RopeScaling::kProportional;
  full.turning_pairs = static_cast<std::int32_t>(wide.head_dim / 8);  // a quarter of them
  const std::int64_t narrow_dim = draft.attention.head_dim;
  QUIRE_ASSIGN_OR_RETURN(full, read_rope_of(config, "full_attention", wide.head_dim, full));
  QUIRE_ASSIGN_OR_RETURN(RopeSpec local, read_rope_of(config, "sliding_attention", narrow_dim,
                                                      default_rope(narrow_dim, 10000.0)));
  spec.ropes = {std::move(full), std::move(local)};

  QUIRE_ASSIGN_OR_RETURN(spec.per_layer, read_per_layer(config, draft.mlp.activation));
  if (spec.per_layer.width != 0 && spec.per_layer.vocab_size < spec.vocab_size) {
    return Status::bad_model(
        fmt::format("{}: per-layer embeddings of {} tokens; expected at least the vocabulary's {}",
                    config.where(), spec.per_layer.vocab_size, spec.vocab_size));
  }
  draft.make_layers({.mixer = draft.attention,
                     .feed_forward = draft.mlp,
                     .norms = NormPlacement::kAround,
                     .output_scale = true});
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    if (!sliding[i]) spec.layers[i].mixer = wide;
  }
  QUIRE_RETURN_IF_ERROR(set_sliding_layers(
      config.where(), sliding,
      {.window = window, .full_rope = kFullRope, .sliding_rope = kSlidingRope}, spec.layers));
  QUIRE_RETURN_IF_ERROR(share_keys(config, sliding, 0, spec));
  QUIRE_RETURN_IF_ERROR(set_mlp_sizes(whole, spec.layers));
  QUIRE_RETURN_IF_ERROR(widen_mlps(config, spec.layers));
  return std::move(spec);
}

}  // namespace quire
