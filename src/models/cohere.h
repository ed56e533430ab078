// Command-R (Cohere 2024): layer norms without bias, attention and MLP side by side, heads whose
// neighbouring dimensions turn together, scaled logits. Command-R7B and Command A have sliding
// windows, and no positions in the layers that see all keys.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> cohere_from_config(const JsonReader& config);
Result<DecoderSpec> cohere2_from_config(const JsonReader& config);
extern const GgufForm kCohereGguf;
extern const GgufForm kCohere2Gguf;

}  // namespace quire
