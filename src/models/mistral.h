// Mistral (Jiang et al. 2023): Llama with a sliding window in every layer. GGUF files call it
// "llama". Ministral (Mistral AI 2024) has it in the layers that `layer_types` names.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> mistral_from_config(const JsonReader& config);
Result<DecoderSpec> ministral_from_config(const JsonReader& config);

// Ministral 3 (2025): no window, YaRN, and queries that grow with their position.
Result<DecoderSpec> ministral3_from_config(const JsonReader& config);
extern const GgufForm kMistralGguf;
extern const GgufForm kMinistral3Gguf;

}  // namespace quire
