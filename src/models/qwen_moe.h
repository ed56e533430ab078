// Qwen's mixtures of experts: Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B), with a shared expert, and
// Qwen3-MoE (Yang et al. 2025). Layers without a mixture have Qwen's MLP.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> qwen2_moe_from_config(const JsonReader& config);
Result<DecoderSpec> qwen3_moe_from_config(const JsonReader& config);
extern const GgufForm kQwen2MoeGguf;
extern const GgufForm kQwen3MoeGguf;

}  // namespace quire
