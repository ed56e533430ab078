// The Llama family (Touvron et al. 2023; Grattafiori et al. 2024): RMS norm before each block,
// rotary positions, grouped-query attention, SwiGLU. Llama 2, 3 and 3.1 differ in rope scaling.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> llama_from_config(const JsonReader& config);
extern const GgufForm kLlamaGguf;

}  // namespace quire
