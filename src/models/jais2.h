// Jais 2 (Inception 2025): Llama with layer norms and an MLP without a gate, biases everywhere.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> jais2_from_config(const JsonReader& config);
extern const GgufForm kJais2Gguf;

}  // namespace quire
