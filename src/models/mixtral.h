// Mixtral (Jiang et al. 2024): Mistral with a mixture of experts in every layer.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> mixtral_from_config(const JsonReader& config);
extern const GgufForm kMixtralGguf;

}  // namespace quire
