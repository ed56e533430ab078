// SmolLM3 (Hugging Face 2025): Llama with layers whose heads do not turn (NoPE, Kazemnejad et al.
// 2023; Yang et al. 2025, "RNoPE").
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> smollm3_from_config(const JsonReader& config);
extern const GgufForm kSmolLm3Gguf;

}  // namespace quire
