// GLM-4.5, GLM-4.6 and GLM-4.7 (GLM-4.5 Team 2025, arXiv 2508.06471): mixtures of experts.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> glm4_moe_from_config(const JsonReader& config);
extern const GgufForm kGlm4MoeGguf;

}  // namespace quire
