// StableLM (Bellagente et al. 2024): layer norms, and heads of which a quarter turns. Attention and
// MLP follow each other or stand side by side.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> stablelm_from_config(const JsonReader& config);
extern const GgufForm kStableLmGguf;

}  // namespace quire
