// Llama 4's text model (Meta 2025): chunks of keys in layers with positions, queries that grow with
// their position in layers without, and a mixture of experts whose inputs are weighted.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> llama4_from_config(const JsonReader& config);
extern const GgufForm kLlama4Gguf;

}  // namespace quire
