// GLM-4 (GLM Team 2024): heads of which neighbouring dimensions of the first half turn together,
// gate and up as one matrix. The models of 2025 norm what comes out of the blocks, too.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> glm_from_config(const JsonReader& config);
Result<DecoderSpec> glm4_from_config(const JsonReader& config);
extern const GgufForm kGlmGguf;
extern const GgufForm kGlm4Gguf;

}  // namespace quire
