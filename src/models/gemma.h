// Gemma, text: GELU, norms whose weights are stored around 0, embeddings scaled by
// sqrt(hidden_size). Gemma 1 (Gemma Team 2024) is Llama's layer with these; Gemma 3 (Gemma Team
// 2025) has sandwich norms, norms of query and key heads, and layers that alternate between a
// window and all keys, each kind with a rope base of its own.
#pragma once

#include "base/json.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

Result<DecoderSpec> gemma_from_config(const JsonReader& config);
Result<DecoderSpec> gemma_from_gguf(const GgufFile& file);
Result<DecoderSpec> gemma3_from_config(const JsonReader& config);
Result<DecoderSpec> gemma3_from_gguf(const GgufFile& file);

}  // namespace quire
