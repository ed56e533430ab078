// OLMo (Groeneveld et al. 2024): Llama with layer norms that have no parameters.
#pragma once

#include "base/json.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> olmo_from_config(const JsonReader& config);
extern const GgufForm kOlmoGguf;

}  // namespace quire
