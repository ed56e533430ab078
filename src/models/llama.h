// The Llama family (Touvron et al. 2023; Grattafiori et al. 2024): RMS norm before each block,
// rotary positions, grouped-query attention, SwiGLU. Llama 2, 3 and 3.1 differ in rope scaling.
#pragma once

#include "base/json.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

Result<DecoderSpec> llama_from_config(const JsonReader& config);

// Architecture "llama", under which GGUF also files Mistral, with its window or without.
Result<DecoderSpec> llama_from_gguf(const GgufFile& file);

}  // namespace quire
