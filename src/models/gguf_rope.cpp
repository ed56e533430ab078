#include "models/gguf_rope.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/rope_config.h"
#include "quant/encoding.h"

namespace quire {
namespace {

class RopeKeys {
 public:
  RopeKeys(const GgufFile& file, const GgufForm& form)
      : file_(file), prefix_(fmt::format("{}.rope.", form.architecture)) {}

  std::string key(std::string_view name) const { return fmt::format("{}{}", prefix_, name); }
  Result<std::optional<double>> number(std::string_view name) const {
    return file_.find_double(key(name));
  }

  // Adds numbers that the file has to `object`, under config.json's names.
  Status copy(std::initializer_list<GgufKey> keys, json::object& object) const {
    for (const GgufKey& entry : keys) {
      QUIRE_ASSIGN_OR_RETURN(const auto value, number(entry.gguf));
      if (value) object[entry.config] = *value;
    }
    return {};
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<std::vector<float>> factors_of(const GgufFile& file, std::string_view name) {
  const TensorInfo* tensor = file.find(name);
  constexpr std::int64_t kMaxPairs = 256;  // of the widest heads
  if (tensor == nullptr || tensor->encoding != Encoding::kF32 || tensor->shape.size() != 1 ||
      tensor->shape[0] > kMaxPairs) {
    return Status::bad_model(fmt::format("{}: tensor {}: expected up to {} float32 numbers",
                                         file.name(), name, kMaxPairs),
                             "convert the model again");
  }
  std::vector<float> factors(static_cast<std::size_t>(tensor->shape[0]));
  decode_row(tensor->encoding, tensor->data.data(), tensor->shape[0], factors.data());
  return factors;
}

// The sharpening that a factor brings is said as what it is multiplied with, or as it is, or by
// `mscale_all_dim`: with latent attention a tenth of that, and as much of `mscale`.
Status set_yarn(const RopeKeys& keys, double factor, double context, bool latent,
                json::object& scaling) {
  scaling["original_max_position_embeddings"] = context;
  QUIRE_RETURN_IF_ERROR(
      keys.copy({{"scaling.original_context_length", "original_max_position_embeddings"},
                 {"scaling.yarn_beta_fast", "beta_fast"},
                 {"scaling.yarn_beta_slow", "beta_slow"}},
                scaling));
  QUIRE_ASSIGN_OR_RETURN(const auto log, keys.number("scaling.yarn_log_multiplier"));
  if (log.value_or(0.0) != 0.0) {
    scaling["mscale"] = latent ? *log * 10.0 : 1.0;
    scaling["mscale_all_dim"] = latent ? *log * 10.0 : *log;
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const auto times, keys.number("scaling.attn_factor"));
  QUIRE_ASSIGN_OR_RETURN(const auto whole, keys.number("scaling.yarn_attn_factor"));
  const bool said = whole.value_or(1.0) != 1.0;
  scaling["attention_factor"] = said ? *whole : times.value_or(1.0) * yarn_mscale(factor);
  return {};
}

Status set_longrope(const GgufFile& file, const RopeKeys& keys, json::object& scaling) {
  for (const auto& [tensor, name] : {std::pair{"rope_factors_short.weight", "short_factor"},
                                     std::pair{"rope_factors_long.weight", "long_factor"}}) {
    QUIRE_ASSIGN_OR_RETURN(const auto factors, factors_of(file, tensor));
    json::array list(factors.begin(), factors.end());
    scaling[name] = std::move(list);
  }
  return keys.copy({{"scaling.original_context_length", "original_max_position_embeddings"},
                    {"scaling.attn_factor", "attention_factor"}},
                   scaling);
}

}  // namespace

Status set_gguf_rope(const GgufFile& file, const GgufForm& form, json::object& config) {
  const RopeKeys keys(file, form);
  QUIRE_RETURN_IF_ERROR(
      keys.copy({{"freq_base", "rope_theta"}, {"freq_base", "rotary_emb_base"}}, config));
  json::object scaling;
  if (const auto* settings = config.find("rope_scaling"); settings != config.end()) {
    scaling = settings->value().as_object();
    config.erase(settings);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto type, file.find_string(keys.key("scaling.type")));
  QUIRE_ASSIGN_OR_RETURN(auto factor, keys.number("scaling.factor"));
  if (!factor) {  // the older name
    QUIRE_ASSIGN_OR_RETURN(factor, keys.number("scale_linear"));
  }
  const bool by_tensors = file.find("rope_factors_long.weight") != nullptr;
  const std::string kind = type.value_or(by_tensors ? "longrope" : "linear");
  const bool scaled = factor.value_or(0.0) != 0.0;
  if (kind == "longrope") {
    scaling = {{"rope_type", kind}};
    QUIRE_RETURN_IF_ERROR(set_longrope(file, keys, scaling));
  } else if (kind == "yarn" && scaled) {
    scaling["rope_type"] = kind;
    scaling["factor"] = *factor;
    QUIRE_ASSIGN_OR_RETURN(const double context,
                           file.get_double(fmt::format("{}.context_length", form.architecture)));
    QUIRE_RETURN_IF_ERROR(set_yarn(keys, *factor, context, form.latent, scaling));
  } else if (kind == "linear" && scaled && *factor != 1.0) {
    scaling = {{"rope_type", kind}, {"factor", *factor}};
  } else if (kind == "none" || kind == "linear" || kind == "yarn") {
    scaling = {};
  } else {
    return unsupported(file.name(), keys.key("scaling.type"), kind);
  }
  if (const auto theta = config.find("rope_theta"); theta != config.end()) {
    scaling["rope_theta"] = theta->value();
  }
  QUIRE_ASSIGN_OR_RETURN(const auto sliding, keys.number("freq_base_swa"));
  if (sliding) {
    config["rope_parameters"] = json::object{{"full_attention", std::move(scaling)},
                                             {"sliding_attention", {{"rope_theta", *sliding}}}};
  } else if (scaling.contains("rope_type")) {
    config["rope_scaling"] = std::move(scaling);
  }
  return {};
}

Status take_gguf_rope_factors(const GgufFile& file, DecoderSpec& spec) {
  constexpr std::string_view kName = "rope_freqs.weight";
  if (file.find(kName) == nullptr) return {};
  if (spec.ropes.empty() || spec.ropes[0].scaling != RopeScaling::kNone) {
    return unsupported(file.name(), kName, "factors together with another rope scaling");
  }
  RopeSpec& rope = spec.ropes[0];
  QUIRE_ASSIGN_OR_RETURN(rope.factors, factors_of(file, kName));
  rope.scaling = RopeScaling::kFactors;
  return {};
}

}  // namespace quire
