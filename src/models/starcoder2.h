// StarCoder2 (Lozhkov et al. 2024): layer norms, an MLP without a gate, biases throughout, and a
// window in every layer or none.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> starcoder2_from_config(const JsonReader& config);
extern const GgufForm kStarcoder2Gguf;

}  // namespace quire
