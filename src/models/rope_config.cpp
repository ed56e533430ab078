#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"

namespace quire {
namespace {

Result<std::optional<RopeScaling>> scaling_kind(const JsonReader& rope) {
  for (const std::string_view key : {"rope_type", "type"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto name, rope.find_string(key));
    if (!name) continue;
    if (*name == "default") return std::optional(RopeScaling::kNone);
    if (*name == "linear") return std::optional(RopeScaling::kLinear);
    if (*name == "dynamic") return std::optional(RopeScaling::kDynamic);
    if (*name == "llama3") return std::optional(RopeScaling::kLlama3);
    if (*name == "yarn") return std::optional(RopeScaling::kYarn);
    // "su" is what Phi-3's first files call it.
    if (*name == "longrope" || *name == "su") return std::optional(RopeScaling::kLongRope);
    return unsupported(rope.where(), key, *name);
  }
  return std::optional<RopeScaling>();
}

// The length of pre-training: in the object, beside it, or the model's own.
Result<double> original_length(const JsonReader& rope, const JsonReader& config) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  QUIRE_ASSIGN_OR_RETURN(const auto beside, config.find_double(kKey));
  if (beside) return *beside;
  QUIRE_ASSIGN_OR_RETURN(const auto inside, rope.find_double(kKey));
  if (inside) return *inside;
  return config.get_double("max_position_embeddings");
}

Status read_yarn(const JsonReader& rope, const JsonReader& config, RopeSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const auto factor, rope.find_double("factor"));
  QUIRE_ASSIGN_OR_RETURN(const double reach, config.get_double("max_position_embeddings"));
  spec.factor = factor.value_or(reach / spec.original_max_positions);
  QUIRE_ASSIGN_OR_RETURN(const auto beta_fast, rope.find_double("beta_fast"));
  QUIRE_ASSIGN_OR_RETURN(const auto beta_slow, rope.find_double("beta_slow"));
  QUIRE_ASSIGN_OR_RETURN(const auto truncate, rope.find_bool("truncate"));
  QUIRE_ASSIGN_OR_RETURN(const auto attention_factor, rope.find_double("attention_factor"));
  QUIRE_ASSIGN_OR_RETURN(const auto mscale, rope.find_double("mscale"));
  QUIRE_ASSIGN_OR_RETURN(const auto mscale_all_dim, rope.find_double("mscale_all_dim"));
  spec.beta_fast = beta_fast.value_or(32.0);
  spec.beta_slow = beta_slow.value_or(1.0);
  spec.truncate = truncate.value_or(true);
  if (attention_factor) {
    spec.attention_factor = *attention_factor;
  } else if (mscale.value_or(0.0) != 0.0 && mscale_all_dim.value_or(0.0) != 0.0) {
    spec.attention_factor =
        yarn_mscale(spec.factor, *mscale) / yarn_mscale(spec.factor, *mscale_all_dim);
  } else {
    spec.attention_factor = yarn_mscale(spec.factor);
  }
  return {};
}

Result<std::vector<float>> read_factors(const JsonReader& rope, std::string_view key) {
  const json::value* const list = rope.find(key);
  if (list == nullptr || !list->is_array()) return rope.type_error(key, "a list of numbers");
  std::vector<float> factors;
  for (const json::value& factor : list->get_array()) {
    if (!factor.is_number()) return rope.type_error(key, "a list of numbers");
    factors.push_back(static_cast<float>(factor.to_number<double>()));
  }
  return factors;
}

Status read_longrope(const JsonReader& rope, const JsonReader& config, RopeSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(spec.short_factors, read_factors(rope, "short_factor"));
  QUIRE_ASSIGN_OR_RETURN(spec.long_factors, read_factors(rope, "long_factor"));
  QUIRE_ASSIGN_OR_RETURN(const double reach, config.get_double("max_position_embeddings"));
  QUIRE_ASSIGN_OR_RETURN(const auto factor, rope.find_double("factor"));
  QUIRE_ASSIGN_OR_RETURN(const auto attention_factor, rope.find_double("attention_factor"));
  spec.factor = factor.value_or(reach / spec.original_max_positions);
  const double usual =
      spec.factor <= 1.0
          ? 1.0
          : std::sqrt(1.0 + std::log(spec.factor) / std::log(spec.original_max_positions));
  spec.attention_factor = attention_factor.value_or(usual);
  // Both are of longer sequences than those of pre-training.
  spec.factor = std::max(spec.factor, 1.0);
  return {};
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

Result<JsonReader> rope_object(const JsonReader& config, bool nested) {
  static const json::object kNone;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key)) continue;
    QUIRE_ASSIGN_OR_RETURN(JsonReader rope, config.get_object(key));
    if (rope.object().empty()) continue;
    for (const std::string_view kind : {"full_attention", "sliding_attention"}) {
      if (!nested && rope.contains(kind)) {
        return unsupported(rope.where(), kind, "rotary positions of its own");
      }
    }
    return rope;
  }
  return JsonReader(kNone, config.where());
}

Status refuse_partial_rotary(const JsonReader& rope) {
  QUIRE_ASSIGN_OR_RETURN(const auto factor, rope.find_double("partial_rotary_factor"));
  if (factor.value_or(1.0) == 1.0) return {};
  return unsupported(rope.where(), "partial_rotary_factor", fmt::format("{}", *factor));
}

Result<std::int64_t> read_rotary_dim(const JsonReader& config, std::int64_t head_dim,
                                     std::optional<double> if_absent) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, rope_object(config, /*nested=*/true));
  if (!if_absent) {
    QUIRE_RETURN_IF_ERROR(refuse_partial_rotary(config));
    QUIRE_RETURN_IF_ERROR(refuse_partial_rotary(rope));
    return head_dim;
  }
  QUIRE_ASSIGN_OR_RETURN(auto factor, rope.find_double("partial_rotary_factor"));
  if (!factor) {
    QUIRE_ASSIGN_OR_RETURN(factor, config.find_double("partial_rotary_factor"));
  }
  const double share = factor.value_or(*if_absent);
  if (!(share > 0 && share <= 1)) {
    return Status::bad_model(fmt::format("{}: partial_rotary_factor is {}; expected above 0, to 1",
                                         config.where(), share));
  }
  const auto rotary_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    return Status::bad_model(
        fmt::format("{}: {} of {} dimensions of a head turn; expected an even number of them",
                    config.where(), rotary_dim, head_dim));
  }
  return rotary_dim;
}

Result<RopeSpec> read_rope_object(const JsonReader& rope, const JsonReader& config,
                                  std::int64_t rotary_dim, double default_theta) {
  RopeSpec spec;
  spec.rotary_dim = static_cast<std::int32_t>(rotary_dim);
  QUIRE_ASSIGN_OR_RETURN(const auto theta, rope.find_double("rope_theta"));
  spec.theta = theta.value_or(default_theta);
  QUIRE_RETURN_IF_ERROR(refuse_keys(rope, {"mrope_section"}));
  QUIRE_ASSIGN_OR_RETURN(const auto kind, scaling_kind(rope));
  if (!kind && rope.contains("factor")) {
    return Status::bad_model(fmt::format("{}: a factor without rope_type", rope.where()));
  }
  spec.scaling = kind.value_or(RopeScaling::kNone);
  if (spec.scaling == RopeScaling::kNone) return spec;
  if (spec.scaling == RopeScaling::kLlama3 || spec.scaling == RopeScaling::kYarn ||
      spec.scaling == RopeScaling::kLongRope) {
    QUIRE_ASSIGN_OR_RETURN(spec.original_max_positions, original_length(rope, config));
  }
  if (spec.scaling == RopeScaling::kYarn) {
    QUIRE_RETURN_IF_ERROR(read_yarn(rope, config, spec));
    return spec;
  }
  if (spec.scaling == RopeScaling::kLongRope) {
    QUIRE_RETURN_IF_ERROR(read_longrope(rope, config, spec));
    return spec;
  }
  QUIRE_ASSIGN_OR_RETURN(spec.factor, rope.get_double("factor"));
  if (spec.scaling == RopeScaling::kDynamic) {
    QUIRE_ASSIGN_OR_RETURN(spec.original_max_positions,
                           config.get_double("max_position_embeddings"));
  } else if (spec.scaling == RopeScaling::kLlama3) {
    QUIRE_ASSIGN_OR_RETURN(spec.low_freq_factor, rope.get_double("low_freq_factor"));
    QUIRE_ASSIGN_OR_RETURN(spec.high_freq_factor, rope.get_double("high_freq_factor"));
  }
  return spec;
}

Status read_ropes_by_layer(const JsonReader& config, std::int64_t rotary_dim,
                           const DefaultThetas& defaults, DecoderSpec& spec) {
  static const json::object kNone;
  JsonReader full(kNone, config.where());
  JsonReader sliding(kNone, config.where());
  if (config.contains("rope_parameters")) {
    QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"rope_scaling"}));
    QUIRE_ASSIGN_OR_RETURN(const JsonReader ropes, config.get_object("rope_parameters"));
    QUIRE_ASSIGN_OR_RETURN(full, ropes.get_object("full_attention"));
    QUIRE_ASSIGN_OR_RETURN(sliding, ropes.get_object("sliding_attention"));
  } else if (config.contains("rope_scaling")) {
    QUIRE_ASSIGN_OR_RETURN(full, config.get_object("rope_scaling"));
  }
  QUIRE_RETURN_IF_ERROR(refuse_partial_rotary(full));
  QUIRE_RETURN_IF_ERROR(refuse_partial_rotary(sliding));
  QUIRE_ASSIGN_OR_RETURN(auto full_rope,
                         read_rope_object(full, config, rotary_dim, defaults.full_theta));
  QUIRE_ASSIGN_OR_RETURN(auto sliding_rope,
                         read_rope_object(sliding, config, rotary_dim, defaults.sliding_theta));
  spec.ropes = {std::move(full_rope), std::move(sliding_rope)};
  return {};
}

Status read_rope(const JsonReader& config, std::int64_t rotary_dim, DecoderSpec& spec,
                 double default_theta) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader object, rope_object(config));
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rope_theta"));
  QUIRE_ASSIGN_OR_RETURN(
      RopeSpec rope, read_rope_object(object, config, rotary_dim, theta.value_or(default_theta)));
  double reach = static_cast<double>(spec.max_position_embeddings);
  if (rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kDynamic) {
    reach *= std::max(rope.factor, 1.0);
  } else if (rope.scaling == RopeScaling::kYarn) {
    reach = std::max(reach, rope.original_max_positions * rope.factor);
  }
  constexpr double kMaxReach = 1 << 24;
  if (!(reach <= kMaxReach)) {
    return Status::bad_model(
        fmt::format("{}: rope scaling reaches {} positions; expected at most {}", config.where(),
                    reach, kMaxReach));
  }
  spec.max_position_embeddings = static_cast<std::int64_t>(reach);
  spec.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace quire
