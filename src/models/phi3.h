// Phi-3 and Phi-4 (Abdin et al. 2024): Llama whose checkpoints have queries, keys and values as one
// matrix, and gate and up as another; of some only a part of each head turns.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> phi3_from_config(const JsonReader& config);
extern const GgufForm kPhi3Gguf;

}  // namespace quire
