#include "models/registry.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/printable.h"
#include "models/apertus.h"
#include "models/arcee.h"
#include "models/bloom.h"
#include "models/cohere.h"
#include "models/cwm.h"
#include "models/deepseek.h"
#include "models/dots1.h"
#include "models/ernie4_5.h"
#include "models/ernie4_5_moe.h"
#include "models/exaone4.h"
#include "models/falcon.h"
#include "models/flex_olmo.h"
#include "models/gemma.h"
#include "models/gemma3n.h"
#include "models/gemma4.h"
#include "models/glm.h"
#include "models/glm4_moe.h"
#include "models/gpt2.h"
#include "models/gpt_neox.h"
#include "models/gpt_oss.h"
#include "models/gptj.h"
#include "models/granite.h"
#include "models/granite_moe.h"
#include "models/helium.h"
#include "models/hunyuan.h"
#include "models/jais2.h"
#include "models/lfm2.h"
#include "models/llama.h"
#include "models/llama4.h"
#include "models/minimax_m2.h"
#include "models/mistral.h"
#include "models/mistral_params.h"
#include "models/mixtral.h"
#include "models/mpt.h"
#include "models/nemotron.h"
#include "models/olmo.h"
#include "models/olmo2.h"
#include "models/olmo3.h"
#include "models/olmoe.h"
#include "models/opt.h"
#include "models/phi.h"
#include "models/phi3.h"
#include "models/qwen.h"
#include "models/qwen_moe.h"
#include "models/refused_architectures.h"
#include "models/seed_oss.h"
#include "models/smollm3.h"
#include "models/stablelm.h"
#include "models/starcoder2.h"
#include "models/text_part.h"
#include "models/xglm.h"

namespace quire {
namespace {

struct ModelFamily {
  std::string_view hf_architecture;
  Result<DecoderSpec> (*from_config)(const JsonReader&);
  const GgufForm* gguf = nullptr;
};

constexpr std::array kFamilies = {
    ModelFamily{"LlamaForCausalLM", llama_from_config, &kLlamaGguf},
    ModelFamily{"MixtralForCausalLM", mixtral_from_config, &kMixtralGguf},
    ModelFamily{"MistralForCausalLM", mistral_from_config, &kMistralGguf},
    ModelFamily{"Qwen2ForCausalLM", qwen2_from_config, &kQwen2Gguf},
    ModelFamily{"Qwen3ForCausalLM", qwen3_from_config, &kQwen3Gguf},
    ModelFamily{"GemmaForCausalLM", gemma_from_config, &kGemmaGguf},
    ModelFamily{"Gemma2ForCausalLM", gemma2_from_config, &kGemma2Gguf},
    ModelFamily{"Gemma3ForCausalLM", gemma3_from_config, &kGemma3Gguf},
    ModelFamily{"Gemma3nForCausalLM", gemma3n_from_config, &kGemma3nGguf},
    ModelFamily{"Gemma4ForCausalLM", gemma4_from_config, &kGemma4Gguf},
    ModelFamily{"GraniteForCausalLM", granite_from_config, &kGraniteGguf},
    ModelFamily{"Phi3ForCausalLM", phi3_from_config, &kPhi3Gguf},
    ModelFamily{"SmolLM3ForCausalLM", smollm3_from_config, &kSmolLm3Gguf},
    ModelFamily{"Olmo2ForCausalLM", olmo2_from_config, &kOlmo2Gguf},
    ModelFamily{"StableLmForCausalLM", stablelm_from_config, &kStableLmGguf},
    ModelFamily{"Starcoder2ForCausalLM", starcoder2_from_config, &kStarcoder2Gguf},
    ModelFamily{"CohereForCausalLM", cohere_from_config, &kCohereGguf},
    ModelFamily{"Qwen2MoeForCausalLM", qwen2_moe_from_config, &kQwen2MoeGguf},
    ModelFamily{"Qwen3MoeForCausalLM", qwen3_moe_from_config, &kQwen3MoeGguf},
    ModelFamily{"OlmoeForCausalLM", olmoe_from_config, &kOlmoeGguf},
    ModelFamily{"GraniteMoeForCausalLM", granite_moe_from_config, &kGraniteMoeGguf},
    ModelFamily{"DeepseekV2ForCausalLM", deepseek_v2_from_config, &kDeepseekV2Gguf},
    ModelFamily{"DeepseekV3ForCausalLM", deepseek_v3_from_config, &kDeepseekV3Gguf},
    ModelFamily{"Glm4MoeLiteForCausalLM", glm4_moe_lite_from_config},
    ModelFamily{"Glm4MoeForCausalLM", glm4_moe_from_config, &kGlm4MoeGguf},
    ModelFamily{"Ernie4_5_MoeForCausalLM", ernie4_5_moe_from_config, &kErnie4_5MoeGguf},
    ModelFamily{"MiniMaxM2ForCausalLM", minimax_m2_from_config, &kMinimaxM2Gguf},
    ModelFamily{"Dots1ForCausalLM", dots1_from_config, &kDots1Gguf},
    ModelFamily{"SeedOssForCausalLM", seed_oss_from_config, &kSeedOssGguf},
    ModelFamily{"Ernie4_5ForCausalLM", ernie4_5_from_config, &kErnie4_5Gguf},
    ModelFamily{"HeliumForCausalLM", helium_from_config},
    ModelFamily{"GlmForCausalLM", glm_from_config, &kGlmGguf},
    ModelFamily{"Glm4ForCausalLM", glm4_from_config, &kGlm4Gguf},
    ModelFamily{"Olmo3ForCausalLM", olmo3_from_config, &kOlmo3Gguf},
    ModelFamily{"Exaone4ForCausalLM", exaone4_from_config, &kExaone4Gguf},
    ModelFamily{"Cohere2ForCausalLM", cohere2_from_config, &kCohere2Gguf},
    ModelFamily{"MinistralForCausalLM", ministral_from_config},
    ModelFamily{"Ministral3ForCausalLM", ministral3_from_config, &kMinistral3Gguf},
    ModelFamily{"ApertusForCausalLM", apertus_from_config, &kApertusGguf},
    ModelFamily{"CwmForCausalLM", cwm_from_config},
    ModelFamily{"FlexOlmoForCausalLM", flex_olmo_from_config},
    ModelFamily{"Jais2ForCausalLM", jais2_from_config, &kJais2Gguf},
    ModelFamily{"Llama4ForCausalLM", llama4_from_config, &kLlama4Gguf},
    ModelFamily{"Lfm2ForCausalLM", lfm2_from_config, &kLfm2Gguf},
    ModelFamily{"Lfm2MoeForCausalLM", lfm2_moe_from_config, &kLfm2MoeGguf},
    ModelFamily{"GptOssForCausalLM", gpt_oss_from_config, &kGptOssGguf},
    ModelFamily{"ArceeForCausalLM", arcee_from_config, &kArceeGguf},
    ModelFamily{"NemotronForCausalLM", nemotron_from_config, &kNemotronGguf},
    ModelFamily{"PhiForCausalLM", phi_from_config, &kPhi2Gguf},
    ModelFamily{"OlmoForCausalLM", olmo_from_config, &kOlmoGguf},
    ModelFamily{"HunYuanDenseV1ForCausalLM", hunyuan_from_config, &kHunyuanGguf},
    ModelFamily{"GPTNeoXForCausalLM", gpt_neox_from_config, &kGptNeoxGguf},
    ModelFamily{"GPTJForCausalLM", gptj_from_config},
    ModelFamily{"GPT2LMHeadModel", gpt2_from_config, &kGpt2Gguf},
    ModelFamily{"OPTForCausalLM", opt_from_config},
    ModelFamily{"BloomForCausalLM", bloom_from_config, &kBloomGguf},
    ModelFamily{"MptForCausalLM", mpt_from_config, &kMptGguf},
    ModelFamily{"MPTForCausalLM", mpt_from_config},
    ModelFamily{"FalconForCausalLM", falcon_from_config, &kFalconGguf},
    ModelFamily{"XGLMForCausalLM", xglm_from_config},
};

// What a family has read, with what is the same for all of them.
Result<DecoderSpec> checked(Result<DecoderSpec> spec, std::string_view name,
                            std::string_view where) {
  if (!spec.ok()) return spec;
  spec->architecture = name;
  QUIRE_RETURN_IF_ERROR(spec->validate(where));
  return spec;
}

// `known`: those that files of that kind have.
Status unknown_architecture(std::string_view where, std::string_view name,
                            const std::vector<std::string>& known) {
  const std::string_view why = why_architecture_is_refused(name);
  // A name is as long as its maker likes, and the search takes the time of both lengths.
  const auto like = why.empty() && name.size() <= 100 ? nearest(name, known) : std::nullopt;
  return Status::bad_model(
      fmt::format("{}: architecture \"{}\" is not supported{}{}", where, printable(name),
                  why.empty() ? "" : ": ", why),
      fmt::format("{}docs/models.md lists the {} that are",
                  like ? fmt::format("the nearest name is {}; ", *like) : "", known.size()));
}

// Names that GGUF files have under `general.architecture`, each once.
std::vector<std::string> known_gguf_architectures() {
  std::vector<std::string> names;
  for (const ModelFamily& family : kFamilies) {
    for (const GgufForm* form = family.gguf; form != nullptr; form = form->also) {
      names.emplace_back(form->architecture);
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::vector<std::string> known_architectures() {
  std::vector<std::string> names = multimodal_architectures();
  for (const ModelFamily& family : kFamilies) names.emplace_back(family.hf_architecture);
  return names;
}

Result<DecoderSpec> spec_from_config(const JsonReader& config) {
  const json::value* list = config.find("architectures");
  if (list == nullptr) {
    return Status::bad_model(
        fmt::format("{}: the key \"architectures\" is missing", config.where()),
        "fetch the model's config.json again");
  }
  if (!list->is_array() || list->get_array().empty() || !list->get_array()[0].is_string()) {
    return config.type_error("architectures", "a list of names");
  }
  const std::string_view name = list->get_array()[0].get_string();
  QUIRE_ASSIGN_OR_RETURN(const auto part, read_text_part(config, name));
  if (part) {
    const JsonReader text(part->config, config.where() + ": text_config");
    const auto* const family =
        std::ranges::find(kFamilies, part->architecture, &ModelFamily::hf_architecture);
    QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec,
                           checked(family->from_config(text), name, text.where()));
    spec.text_part = true;
    spec.tied_without_output = !part->says_tied;
    return spec;
  }
  for (const ModelFamily& family : kFamilies) {
    if (family.hf_architecture != name) continue;
    return checked(family.from_config(config), name, config.where());
  }
  return unknown_architecture(config.where(), name, known_architectures());
}

Result<DecoderSpec> spec_from_params(const JsonReader& params) {
  const std::string_view name =
      params.contains("moe") ? "MixtralForCausalLM" : "MistralForCausalLM";
  return checked(mistral_from_params(params), name, params.where());
}

Result<DecoderSpec> spec_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string name, file.get_string("general.architecture"));
  for (const bool conditional : {true, false}) {
    for (const ModelFamily& family : kFamilies) {
      for (const GgufForm* form = family.gguf; form != nullptr; form = form->also) {
        if (form->when.has_value() != conditional) continue;
        QUIRE_ASSIGN_OR_RETURN(const bool is_this, has_gguf_form(file, *form));
        if (!is_this) continue;
        return checked(read_gguf_form(file, *form, family.from_config), name, file.name());
      }
    }
  }
  return unknown_architecture(file.name(), name, known_gguf_architectures());
}

}  // namespace quire
