// DeepSeek-V2 (DeepSeek-AI 2024, arXiv 2405.04434), DeepSeek-V3 and R1 (DeepSeek-AI 2024, arXiv
// 2412.19437), Kimi-K2, which is of V3's class, and GLM-4.7-Flash: latent attention and mixtures of
// experts.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> deepseek_v2_from_config(const JsonReader& config);
Result<DecoderSpec> deepseek_v3_from_config(const JsonReader& config);
Result<DecoderSpec> glm4_moe_lite_from_config(const JsonReader& config);
extern const GgufForm kDeepseekV2Gguf;
extern const GgufForm kDeepseekV3Gguf;

}  // namespace quire
