// Phi-1, 1.5 and 2 (Gunasekar et al. 2023): layer norms, attention and an MLP without a gate side
// by side, biases everywhere, in the logits, too.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> phi_from_config(const JsonReader& config);
extern const GgufForm kPhi2Gguf;

}  // namespace quire
