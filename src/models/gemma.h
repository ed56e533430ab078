// Gemma, text: GELU, norms whose weights are stored around 0, embeddings scaled by
// sqrt(hidden_size). Gemma 1 (Gemma Team 2024) is Llama's layer with these. Gemma 2 (Gemma Team
// 2024) has sandwich norms, soft caps of scores and logits, and layers that alternate between a
// window and all keys; Gemma 3 (Gemma Team 2025) norms of query and key heads instead of caps, and
// a rope base of its own for each kind of layer.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gemma_from_config(const JsonReader& config);
Result<DecoderSpec> gemma2_from_config(const JsonReader& config);
Result<DecoderSpec> gemma3_from_config(const JsonReader& config);
extern const GgufForm kGemmaGguf;
extern const GgufForm kGemma2Gguf;
extern const GgufForm kGemma3Gguf;

}  // namespace quire
