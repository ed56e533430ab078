// Gemma 4, text (as in transformers 5): Gemma 3's layer with heads of two sizes, values that are
// normed and may be the keys' projections, layers that read an earlier one's keys and values, wider
// MLPs in those, an embedding for each layer, and a scale of what a layer gives.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> gemma4_from_config(const JsonReader& config);
extern const GgufForm kGemma4Gguf;

}  // namespace quire
