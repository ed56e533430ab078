// Qwen2 (Yang et al. 2024): Llama with biases of queries, keys and values, and a window in some
// layers. Qwen3 (Yang et al. 2025): norms of query and key heads in place of the biases.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> qwen2_from_config(const JsonReader& config);
Result<DecoderSpec> qwen3_from_config(const JsonReader& config);
extern const GgufForm kQwen2Gguf;
extern const GgufForm kQwen3Gguf;

}  // namespace quire
