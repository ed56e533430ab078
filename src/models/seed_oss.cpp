#include "models/seed_oss.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr TensorName kSeedOssGgufNames[] = {
    {TensorRole::kMlpNorm, "blk.{layer}.post_attention_norm.weight"},
};

}  // namespace

constexpr GgufForm kSeedOssGguf = {.architecture = "seed_oss",
                                   .names = kSeedOssGgufNames,
                                   .settings = R"({"attention_bias": false})"};

Result<DecoderSpec> seed_oss_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 128}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(draft.attention.query_key_value_bias,
                         read_flag(config, "attention_bias", true));
  QUIRE_ASSIGN_OR_RETURN(draft.attention.output_bias,
                         read_flag(config, "attention_out_bias", false));
  QUIRE_ASSIGN_OR_RETURN(draft.mlp.bias, read_flag(config, "mlp_bias", false));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
