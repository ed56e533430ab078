// Falcon (Almazrouei et al. 2023): layer norms, an MLP without a gate; 7B with one key-value head
// and blocks side by side, 40B and later with groups of heads, RW with linear biases.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> falcon_from_config(const JsonReader& config);
extern const GgufForm kFalconGguf;

}  // namespace quire
